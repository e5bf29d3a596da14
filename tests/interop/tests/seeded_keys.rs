//! Seeded keys expand to the same words as in tfhe-rs, and expanded key-switch keys switch to the
//! same words.

use crate::common::*;
use cloakwork_math::{Torus, key_product};
use cloakwork_params::{Decomposition, ParameterSet, table};
use cloakwork_tests_interop::entity::{self, Word};
use cloakwork_tfhe::{
    GgswShape, KeySwitchKey, SeededBootstrapKey, SeededKeySwitchKey, key::expand_ggsw, key_switch::key_switch,
};
use tfhe::core_crypto::prelude::*;

/// Shapes with every number of mask polynomials, one level and several, large sizes and the
/// smallest size.
const SHAPES: [(usize, usize, u32, usize); 5] =
    [(1, 2048, 23, 1), (4, 512, 23, 1), (2, 1024, 10, 2), (3, 512, 10, 2), (1, 64, 7, 3)];

#[test]
fn bootstrap_keys_expand_to_the_same_words() {
    let mut random = Random::new(10);
    for (glwe_dimension, polynomial_size, base_log, levels) in SHAPES {
        let shape = GgswShape { glwe_dimension, polynomial_size, gadget: Decomposition { base_log, levels } };
        classical_expansion_agrees::<u64>(shape, 7, &mut random);
        classical_expansion_agrees::<u32>(shape, 7, &mut random);
        for grouping in 2..=4 {
            multi_bit_expansion_agrees(shape, grouping, 3 * grouping, &mut random);
        }
    }
}

fn random_bootstrap_key<T: Word>(shape: GgswShape, ggsw_count: usize, random: &mut Random) -> SeededBootstrapKey<T> {
    let bodies = random.words(ggsw_count * shape.body_words());
    SeededBootstrapKey::new(shape, ggsw_count, random.seed(), bodies).unwrap()
}

fn expanded<T: Word>(key: &SeededBootstrapKey<T>) -> Vec<T> {
    let mut words = vec![T::default(); key.ggsw_count() * key.shape().words()];
    // The order is backwards, because each ciphertext must find its own place in the mask stream.
    for (index, ggsw) in words.chunks_exact_mut(key.shape().words()).enumerate().rev() {
        expand_ggsw(key, index, ggsw);
    }
    words
}

fn classical_expansion_agrees<T: Word>(shape: GgswShape, bits: usize, random: &mut Random) {
    let key = random_bootstrap_key::<T>(shape, bits, random);
    let theirs = entity::bootstrap_key_into_tfhe(&key);
    assert_eq!(theirs.input_lwe_dimension().0, bits);
    assert_eq!(entity::bootstrap_key_from_tfhe(theirs.clone()).unwrap(), key);
    assert!(expanded(&key) == theirs.decompress_into_lwe_bootstrap_key().into_container(), "{shape:?}");
}

fn multi_bit_expansion_agrees(shape: GgswShape, grouping: usize, bits: usize, random: &mut Random) {
    let key = random_bootstrap_key::<u64>(shape, (bits / grouping) << grouping, random);
    let theirs = entity::multi_bit_bootstrap_key_into_tfhe(&key, grouping);
    assert_eq!(theirs.input_lwe_dimension().0, bits);
    assert_eq!(entity::multi_bit_bootstrap_key_from_tfhe(theirs.clone()).unwrap(), (key.clone(), grouping));
    assert!(expanded(&key) == theirs.decompress_into_lwe_multi_bit_bootstrap_key().into_container(), "{shape:?}");
}

fn random_key_switch_key<S: Word>(
    set: &ParameterSet,
    input_dimension: usize,
    random: &mut Random,
) -> SeededKeySwitchKey<S> {
    let bodies = random.words_below(set.small_modulus_log2, input_dimension * set.key_switch.levels);
    let (gadget, log2) = (set.key_switch, set.small_modulus_log2);
    SeededKeySwitchKey::new(input_dimension, set.lwe_dimension, gadget, log2, random.seed(), bodies).unwrap()
}

/// Expands one key in both libraries, and checks that the words are equal.
fn expanded_key_switch_key<S: Word>(
    set: &ParameterSet,
    input_dimension: usize,
    random: &mut Random,
) -> (KeySwitchKey<S>, LweKeyswitchKeyOwned<S>) {
    let key = random_key_switch_key::<S>(set, input_dimension, random);
    let theirs = entity::key_switch_key_into_tfhe(&key);
    assert_eq!(theirs.input_key_lwe_dimension().0, input_dimension);
    assert_eq!(entity::key_switch_key_from_tfhe(theirs.clone()).unwrap(), key);
    let theirs = theirs.decompress_into_lwe_keyswitch_key();
    for threads in [1, 3] {
        let ours = KeySwitchKey::expand(&key, threads);
        assert!(same_words(ours.matrix(), theirs.as_ref()), "{}, {threads} threads", set.name);
    }
    (KeySwitchKey::expand(&key, 2), theirs)
}

/// Ciphertexts of random words, then of edges: of the set's gadget, and of the modulus that bodies
/// are rounded to.
fn inputs<T: Torus>(set: &ParameterSet, dimension: usize, random: &mut Random) -> Vec<T> {
    let words = dimension + 1;
    let edges: Vec<T> = gadget_edges(set.key_switch);
    let mut inputs = random.words::<T>(67 * words);
    for ciphertext in inputs.chunks_exact_mut(words).skip(40) {
        for word in ciphertext {
            *word = edges[random.below(edges.len() as u64) as usize];
        }
    }
    if set.small_modulus_log2 < T::BITS {
        let edges: Vec<T> = crate::common::edges(set.small_modulus_log2);
        for ciphertext in inputs.chunks_exact_mut(words).skip(20) {
            ciphertext[dimension] = edges[random.below(edges.len() as u64) as usize];
        }
    }
    inputs
}

fn key_switch_agrees<T: Word, S: Word>(
    set: &ParameterSet,
    random: &mut Random,
    switch: impl Fn(&LweKeyswitchKeyOwned<S>, &LweCiphertextOwned<T>, &mut LweCiphertextOwned<S>),
) {
    let dimension = set.big_dimension();
    let (ours, theirs) = expanded_key_switch_key::<S>(set, dimension, random);
    let inputs = inputs::<T>(set, dimension, random);
    let count = inputs.len() / (dimension + 1);
    let mut outputs = vec![S::default(); count * (set.lwe_dimension + 1)];
    key_switch(&ours, &inputs, &mut outputs, &mut key_product::Scratch::default()).unwrap();
    for (lane, (input, output)) in
        inputs.chunks_exact(dimension + 1).zip(outputs.chunks_exact(set.lwe_dimension + 1)).enumerate()
    {
        let input = LweCiphertext::from_container(input.to_vec(), CiphertextModulus::new_native());
        let size = theirs.output_lwe_size();
        let mut expected = LweCiphertext::new(<S as Numeric>::ZERO, size, theirs.ciphertext_modulus());
        switch(&theirs, &input, &mut expected);
        assert!(output == expected.as_ref(), "{}, ciphertext {lane}", set.name);
    }
}

#[test]
fn key_switches_from_64_to_64_bits_agree() {
    let mut random = Random::new(11);
    for name in [CLASSICAL_1_1, CLASSICAL_2_2, GAUSSIAN_2_2, GROUP_3_2_2] {
        key_switch_agrees::<u64, u64>(set(name), &mut random, keyswitch_lwe_ciphertext);
    }
}

#[test]
fn key_switches_from_64_to_32_bits_agree() {
    let mut random = Random::new(12);
    key_switch_agrees::<u64, u32>(set(KS32_2_2), &mut random, keyswitch_lwe_ciphertext_with_scalar_change);
}

#[test]
fn key_switches_from_64_to_21_bits_agree() {
    let mut random = Random::new(13);
    for name in [HPU_2_2, "TOY_MESSAGE_2_CARRY_2_KS32"] {
        key_switch_agrees::<u64, u32>(set(name), &mut random, keyswitch_lwe_ciphertext_with_scalar_change);
    }
}

#[test]
fn key_switches_of_booleans_agree() {
    let mut random = Random::new(14);
    let booleans = table::SETS.iter().filter(|set| set.torus == cloakwork_params::TorusWidth::U32);
    for set in booleans {
        key_switch_agrees::<u32, u32>(set, &mut random, keyswitch_lwe_ciphertext);
    }
}
