//! Operations without a transform agree with tfhe-rs bit for bit: decomposition, modulus switch and
//! sample extraction.

use crate::common::*;
use cloakwork_math::{Torus, decomposition};
use cloakwork_params::{Decomposition, ModulusSwitch, table};
use cloakwork_tests_interop::entity::Word;
use cloakwork_tfhe::{
    modulus_switch::{modulus_switch, switch_subset},
    sample_extract::sample_extract,
};
use tfhe::core_crypto::prelude::*;

#[test]
fn digits_agree_for_every_gadget() {
    let mut random = Random::new(1);
    let mut gadgets: Vec<_> = table::SETS.iter().flat_map(|set| [set.bootstrap, set.key_switch]).collect();
    // Base 2, and bases that use all but two bits of a word, the most that tfhe-rs can round to.
    gadgets.extend(
        [(1, 1), (1, 20), (30, 1), (15, 2), (3, 10)].map(|(base_log, levels)| Decomposition { base_log, levels }),
    );
    gadgets.sort_by_key(|gadget| (gadget.base_log, gadget.levels));
    gadgets.dedup();
    for gadget in gadgets {
        digits_agree::<u64>(gadget, &mut random);
        if gadget.base_log * (gadget.levels as u32) < 32 {
            digits_agree::<u32>(gadget, &mut random);
        }
    }
    digits_agree::<u64>(Decomposition { base_log: 62, levels: 1 }, &mut random);
    digits_agree::<u64>(Decomposition { base_log: 31, levels: 2 }, &mut random);
}

fn digits_agree<T: Word>(gadget: Decomposition, random: &mut Random) {
    let decomposer = SignedDecomposer::<T>::new(
        DecompositionBaseLog(gadget.base_log as usize),
        DecompositionLevelCount(gadget.levels),
    );
    for word in gadget_edges::<T>(gadget).into_iter().chain(random.words(20_000)) {
        let theirs: Vec<i64> = decomposer.decompose(word).map(|term| term.value().to_i64()).collect();
        let mut state = decomposition::round(gadget, word);
        let ours: Vec<i64> = (0..gadget.levels).map(|_| decomposition::next_digit(gadget, &mut state)).collect();
        assert_eq!(ours, theirs, "{gadget:?} of {word:?}");
    }
}

#[test]
fn modulus_switches_agree() {
    let mut random = Random::new(2);
    for log2 in 8..=17 {
        for dimension in [1, 16, 918] {
            modulus_switch_agrees::<u64>(log2, 64, dimension, &mut random);
            modulus_switch_agrees::<u32>(log2, 32, dimension, &mut random);
            // The HPU's ciphertexts use the top 21 bits of a 32-bit word.
            modulus_switch_agrees::<u32>(log2, 21, dimension, &mut random);
        }
    }
}

/// Compares both modulus switches on random masks and on masks of edges, each with random bodies
/// and with edges as bodies.
fn modulus_switch_agrees<T: Word + CastInto<u64>>(log2: u32, modulus_log2: u32, dimension: usize, random: &mut Random) {
    let unit = u64::MAX << (<T as Torus>::BITS - modulus_log2);
    let edges = edges::<T>(log2);
    for round in 0..200 {
        let mut words = random.words_below::<T>(modulus_log2, dimension + 1);
        if round % 2 == 1 {
            for word in &mut words[..dimension] {
                *word = edges[random.below(edges.len() as u64) as usize];
            }
        }
        if round % 4 >= 2 {
            words[dimension] = edges[random.below(edges.len() as u64) as usize];
        }
        for word in &mut words {
            *word = T::from_u64(word.to_u64() & unit);
        }
        let mut ours = vec![0; dimension + 1];
        let modulus = CiphertextModulus::try_new_power_of_2(modulus_log2 as usize).unwrap();
        let theirs = LweCiphertext::from_container(words.as_slice(), modulus);
        let log = CiphertextModulusLog(log2 as usize);

        modulus_switch(ModulusSwitch::Plain, log2, &words, &mut ours);
        let plain = lwe_ciphertext_modulus_switch::<T, u64, _>(theirs.as_view(), log);
        assert_eq!(ours, exponents(&plain), "plain, 2^{modulus_log2} to 2^{log2}, round {round}");

        modulus_switch(ModulusSwitch::CenteredMean, log2, &words, &mut ours);
        let centered = lwe_ciphertext_centered_binary_modulus_switch::<T, u64, _>(theirs, log);
        assert_eq!(ours, exponents(&centered), "centered, 2^{modulus_log2} to 2^{log2}, round {round}");
    }
}

fn exponents(switched: &impl ModulusSwitchedLweCiphertext<u64>) -> Vec<u32> {
    switched.mask().chain([switched.body()]).map(|exponent| u32::try_from(exponent).unwrap()).collect()
}

#[test]
fn sample_extraction_agrees_at_every_coefficient() {
    let mut random = Random::new(3);
    for (glwe_dimension, polynomial_size) in [(1, 256), (2, 64), (3, 512), (4, 32)] {
        extraction_agrees::<u64>(glwe_dimension, polynomial_size, &mut random);
        extraction_agrees::<u32>(glwe_dimension, polynomial_size, &mut random);
    }
}

fn extraction_agrees<T: Word>(glwe_dimension: usize, polynomial_size: usize, random: &mut Random) {
    let words = random.words::<T>((glwe_dimension + 1) * polynomial_size);
    let modulus = CiphertextModulus::new_native();
    let glwe = GlweCiphertext::from_container(words.as_slice(), PolynomialSize(polynomial_size), modulus);
    let size = LweDimension(glwe_dimension * polynomial_size).to_lwe_size();
    for index in 0..polynomial_size {
        let mut theirs = LweCiphertext::new(<T as Numeric>::ZERO, size, modulus);
        extract_lwe_sample_from_glwe_ciphertext(&glwe, &mut theirs, MonomialDegree(index));
        let mut ours = vec![T::default(); size.0];
        sample_extract(words.chunks_exact(polynomial_size), polynomial_size, index, &mut ours);
        assert_eq!(ours, theirs.as_ref(), "k {glwe_dimension}, N {polynomial_size}, coefficient {index}");
    }
}

#[test]
fn exponents_of_multi_bit_groups_agree() {
    let mut random = Random::new(4);
    for log2 in [8, 11, 12, 15] {
        let edges = edges::<u64>(log2);
        for grouping in 2..=4 {
            for round in 0..2000 {
                let mut group = random.words::<u64>(grouping);
                if round % 2 == 1 {
                    // The sum of the group is an edge, and so are all words but the first.
                    group.fill_with(|| edges[random.below(edges.len() as u64) as usize]);
                    let rest = group[1..].iter().fold(0_u64, |sum, word| sum.wrapping_add(*word));
                    group[0] = edges[random.below(edges.len() as u64) as usize].wrapping_sub(rest);
                }
                let log = CiphertextModulusLog(log2 as usize);
                let theirs = modulus_switch_multi_bit(log, LweBskGroupingFactor(grouping), &group);
                // The empty subset rotates by zero, so tfhe-rs leaves it out.
                let ours = (1..1 << grouping).map(|subset| switch_subset(&group, subset, log2) as usize);
                assert!(ours.eq(theirs), "{group:x?} to 2^{log2}");
            }
        }
    }
}
