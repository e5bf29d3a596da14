//! The exact stages: bit for bit what the core computes.

use cloakwork_math::{
    Torus,
    key_product::Scratch,
    random::{MaskSeed, MaskStream},
};
use cloakwork_params::{Decomposition, ModulusSwitch};
use cloakwork_tests_cuda::emulator::{self, KeySwitch, LaunchError, Samples, Sums};
use cloakwork_tfhe::{
    KeySwitchKey, SeededKeySwitchKey, key_switch::key_switch, modulus_switch::modulus_switch,
    sample_extract::sample_extract,
};

const LANES: usize = 3;

fn seed(number: u128) -> MaskSeed {
    MaskSeed { key: number, block: 0, byte: 0 }
}

/// Words that every run draws alike.
fn words<T: Torus>(count: usize, number: u128) -> Vec<T> {
    let mut words = vec![T::default(); count];
    MaskStream::new(&seed(number)).fill(T::BITS, &mut words);
    words
}

type Launch<T, S> = fn(&[T], &[S], KeySwitch, &mut [S]) -> Result<(), LaunchError>;

fn key_switch_agrees<T: Torus, S: Torus>(launch: Launch<T, S>, gadget: Decomposition, modulus_log2: u32) {
    // Neither dimension is a multiple of a block, and the output takes one block more or less than it has words.
    for (inputs, outputs) in [(300, 127), (128, 128), (1, 5)] {
        // A key's words are multiples of the step of its modulus.
        let kept =
            |word: &mut S| *word = S::from_u64(word.to_u64() >> (S::BITS - modulus_log2) << (S::BITS - modulus_log2));
        let mut bodies = words::<S>(inputs * gadget.levels, 1);
        bodies.iter_mut().for_each(kept);
        let seeded = SeededKeySwitchKey::new(inputs, outputs, gadget, modulus_log2, seed(2), bodies).expect("a shape");
        let key = KeySwitchKey::expand(&seeded, 1);
        let mut masks = MaskStream::new(&seed(2));
        let mut rows = vec![S::default(); inputs * gadget.levels * (outputs + 1)];
        for (row, body) in rows.chunks_exact_mut(outputs + 1).zip(seeded.bodies()) {
            masks.fill(modulus_log2, &mut row[..outputs]);
            row[outputs] = *body;
        }
        let ciphertexts = words::<T>(LANES * (inputs + 1), 3);
        let mut expected = vec![S::default(); LANES * (outputs + 1)];
        key_switch(&key, &ciphertexts, &mut expected, &mut Scratch::default()).expect("shapes that fit");
        let mut got = words::<S>(expected.len(), 4);
        let shape = KeySwitch {
            input_dimension: inputs as u32,
            output_dimension: outputs as u32,
            base_log: gadget.base_log,
            levels: gadget.levels as u32,
            modulus_log2,
        };
        launch(&ciphertexts, &rows, shape, &mut got).expect("a launch");
        assert!(got == expected, "{inputs} to {outputs} words, {gadget:?}");
    }
}

#[test]
fn key_switches_agree_with_the_core() {
    for (base_log, levels) in [(3, 5), (4, 4), (2, 8)] {
        let gadget = Decomposition { base_log, levels };
        key_switch_agrees(emulator::key_switch_64_64, gadget, 64);
        key_switch_agrees(emulator::key_switch_64_32, gadget, 32);
        key_switch_agrees(emulator::key_switch_32_32, gadget, 32);
        key_switch_agrees(emulator::key_switch_64_32, gadget, 21);
    }
}

type Switch<T> = fn(&[T], u32, u32, bool, &mut [u32]) -> Result<(), LaunchError>;

fn modulus_switch_agrees<T: Torus>(launch: Switch<T>) {
    for (dimension, log2) in [(5, 10), (300, 12), (128, 11)] {
        let mut ciphertexts = words::<T>(LANES * (dimension + 1), 5);
        // Words that round up to zero, and one that is halfway.
        ciphertexts[0] = T::from_u64(u64::MAX);
        ciphertexts[1] = T::from_u64(1 << (T::BITS - log2 - 1));
        for rule in [ModulusSwitch::Plain, ModulusSwitch::CenteredMean] {
            let mut expected = vec![0; ciphertexts.len()];
            for (input, output) in ciphertexts.chunks(dimension + 1).zip(expected.chunks_mut(dimension + 1)) {
                modulus_switch(rule, log2, input, output);
            }
            let mut got = vec![u32::MAX; expected.len()];
            let centred = matches!(rule, ModulusSwitch::CenteredMean);
            launch(&ciphertexts, dimension as u32, log2, centred, &mut got).expect("a launch");
            assert!(got == expected, "{dimension} words to {log2} bits, {rule:?}");
        }
    }
}

#[test]
fn modulus_switches_agree_with_the_core() {
    modulus_switch_agrees::<u32>(emulator::modulus_switch_32);
    modulus_switch_agrees::<u64>(emulator::modulus_switch_64);
}

type Extract<T> = fn(&[T], Samples<'_>, &mut [T]) -> Result<(), LaunchError>;

fn sample_extraction_agrees<T: Torus>(launch: Extract<T>) {
    let (k, n) = (2, 64);
    let glwes = words::<T>(LANES * (k + 1) * n, 6);
    let (sources, indices, slots) = ([2, 0, 1, 1], [0, 63, 17, 32], [4, 0, 3, 1]);
    let work = Samples { glwe_dimension: 2, polynomial_size: 64, sources: &sources, indices: &indices, slots: &slots };
    let mut expected = words::<T>(5 * (k * n + 1), 7);
    let mut got = expected.clone();
    for ((source, index), slot) in sources.iter().zip(indices).zip(slots) {
        let glwe = glwes.chunks_exact((k + 1) * n).nth(*source as usize).expect("a ciphertext");
        let output = expected.chunks_exact_mut(k * n + 1).nth(slot as usize).expect("a slot");
        sample_extract(glwe.chunks_exact(n), n, index as usize, output);
    }
    launch(&glwes, work, &mut got).expect("a launch");
    assert!(got == expected, "slot 2 stays as it was, the others hold samples");
}

#[test]
fn sample_extractions_agree_with_the_core() {
    sample_extraction_agrees::<u32>(emulator::sample_extract_32);
    sample_extraction_agrees::<u64>(emulator::sample_extract_64);
}

type Add<T> = fn(&[T], u32, Sums<'_>, &mut [T]) -> Result<(), LaunchError>;

fn sums_agree<T: Torus>(launch: Add<T>) {
    let dimension = 200;
    let arena = words::<T>(4 * (dimension + 1), 8);
    let (terms_end, slots, factors) = ([2, 2, 3], [3, 0, 1], [4, -1, -7]);
    let constants = [1 << 61, u64::MAX << 32, 0];
    let work = Sums { terms_end: &terms_end, slots: &slots, factors: &factors, constants: &constants };
    let mut got = words::<T>(LANES * (dimension + 1), 9);
    launch(&arena, dimension as u32, work, &mut got).expect("a launch");
    let slot = |slot: usize, word: usize| arena[slot * (dimension + 1) + word];
    for (lane, sum) in got.chunks_exact(dimension + 1).enumerate() {
        for (word, sum) in sum.iter().enumerate() {
            let constant = if word == dimension { constants[lane] >> (64 - T::BITS) } else { 0 };
            let terms = match lane {
                0 => slot(3, word).wrapping_mul(T::from_i64(4)).wrapping_sub(slot(0, word)),
                1 => T::default(),
                _ => slot(1, word).wrapping_mul(T::from_i64(-7)),
            };
            assert!(*sum == terms.wrapping_add(T::from_u64(constant)), "lane {lane}, word {word}");
        }
    }
}

#[test]
fn sums_of_slots_are_what_they_say() {
    sums_agree::<u32>(emulator::sums_32);
    sums_agree::<u64>(emulator::sums_64);
}
