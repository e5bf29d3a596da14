//! Keys prepared on the GPU: the words equal the core's expansion bit for bit.

use bytemuck::Pod;
use cloakwork_cuda::{
    gpu::{Driver as _, DriverError, SeededRows},
    serves,
};
use cloakwork_device::by_words;
use cloakwork_math::{
    GgswShape, Torus,
    random::{MaskSeed, MaskStream},
};
use cloakwork_params::{ParameterSet, table::SETS};
use cloakwork_tests_cuda::{
    emulator::Emulated,
    gpu::{Gpu, read, words},
};
use cloakwork_tfhe::{KeySwitchKey, SeededBootstrapKey, SeededKeySwitchKey, key::expand_ggsw};
use proptest::prelude::*;

/// Rows from row `first` on, expanded by the GPU.
fn expanded<T: Torus + Pod>(rows: SeededRows, first: usize, bodies: &[T]) -> Result<Vec<T>, DriverError> {
    let gpu = Gpu::default();
    let count = bodies.len().div_ceil(rows.body_words);
    let (from, to) = (gpu.buffer(bodies), gpu.room(count * rows.words() * size_of::<T>()));
    gpu.launcher().expand_rows::<T>(rows, first, from.all()?, to.all()?)?;
    Ok(read(&to))
}

/// Rows from row `first` on, expanded by the core's stream.
fn expected<T: Torus>(rows: SeededRows, first: usize, bodies: &[T]) -> Vec<T> {
    let row_bytes = rows.mask_words * MaskStream::bytes_per_word(rows.modulus_log2);
    let mut masks = MaskStream::at(&rows.seed, first as u128 * row_bytes as u128);
    let mut words = vec![T::default(); bodies.len() / rows.body_words * rows.words()];
    for (row, bodies) in words.chunks_exact_mut(rows.words()).zip(bodies.chunks_exact(rows.body_words)) {
        let (mask, body) = row.split_at_mut(rows.mask_words);
        masks.fill(rows.modulus_log2, mask);
        body.copy_from_slice(bodies);
    }
    words
}

/// Streams with arbitrary starts, and streams that carry into the counter's upper half or wrap.
fn seeds() -> impl Strategy<Value = MaskSeed> {
    let near = |end: u128| (0u128..600).prop_map(move |back| end.wrapping_sub(back));
    let block = prop_oneof![any::<u128>(), near(0), near(1 << 64), near(1 << 127), Just(0)];
    (any::<u128>(), block, 0u8..16).prop_map(|(key, block, byte)| MaskSeed { key, block, byte })
}

fn rows() -> impl Strategy<Value = SeededRows> {
    (seeds(), 1usize..3000, 1usize..40, 1u32..=64).prop_map(|(seed, mask_words, body_words, modulus_log2)| SeededRows {
        seed,
        mask_words,
        body_words,
        modulus_log2,
    })
}

proptest! {
    #[test]
    fn rows_are_those_of_the_mask_stream(rows in rows(), first in 0usize..1 << 40, count in 1usize..4) {
        let bodies = words::<u64>(count * rows.body_words, 1);
        prop_assert!(expanded(rows, first, &bodies) == Ok(expected(rows, first, &bodies)));
        let narrow = SeededRows { modulus_log2: rows.modulus_log2.div_ceil(2), ..rows };
        let bodies: Vec<u32> = bodies.iter().map(|body| *body as u32).collect();
        prop_assert!(expanded(narrow, first, &bodies) == Ok(expected(narrow, first, &bodies)));
    }
}

#[test]
fn words_of_every_modulus_start_at_every_byte_offset() {
    for modulus_log2 in 1..=64 {
        for byte in 0..16 {
            let seed = MaskSeed { key: 7, block: u128::MAX, byte };
            let rows = SeededRows { seed, mask_words: 37, body_words: 1, modulus_log2 };
            let bodies = words::<u64>(2, 1);
            assert_eq!(expanded(rows, 0, &bodies), Ok(expected(rows, 0, &bodies)), "2^{modulus_log2} from byte {byte}");
        }
    }
}

#[test]
fn the_cipher_matches_fips_197() {
    // The test vector is from FIPS 197, appendix C.1.
    let key = u128::from_be_bytes(std::array::from_fn(|index| 15 - index as u8));
    let block = u128::from_le_bytes(std::array::from_fn(|index| 0x11 * index as u8));
    let rows = SeededRows { seed: MaskSeed { key, block, byte: 0 }, mask_words: 4, body_words: 1, modulus_log2: 32 };
    let got = expanded::<u32>(rows, 0, &[5]).map(|words| words.iter().map(|word| word.swap_bytes()).collect());
    assert_eq!(got, Ok(vec![0x69c4_e0d8, 0x6a7b_0430, 0xd8cd_b780, 0x70b4_c55a, 5_u32.swap_bytes()]));
}

/// Compares a few rows of a set's keys.
fn set_agrees<T: Torus + Pod, S: Torus + Pod>(set: &'static ParameterSet) {
    const INPUTS: usize = 3;
    const GGSWS: usize = 2;
    let seed = MaskSeed { key: u128::from(set.id.0), block: 1 << 64, byte: 5 };
    let (levels, log2) = (set.key_switch.levels, set.small_modulus_log2);
    let of_modulus = |body: S| S::from_u64(body.to_u64() >> (S::BITS - log2) << (S::BITS - log2));
    let switch_bodies = words::<S>(INPUTS * levels, 1).into_iter().map(of_modulus).collect();
    let seeded = SeededKeySwitchKey::new(INPUTS, set.lwe_dimension, set.key_switch, log2, seed, switch_bodies);
    let seeded = seeded.expect("a shape");
    let key = KeySwitchKey::expand(&seeded, 1);
    let mut rows = vec![S::default(); INPUTS * levels * (set.lwe_dimension + 1)];
    for (index, row) in rows.chunks_exact_mut(set.lwe_dimension + 1).enumerate() {
        key.matrix().read_row(index, row);
    }
    let (mask_words, body_words) = (set.lwe_dimension, 1);
    let of_switch = SeededRows { seed, mask_words, body_words, modulus_log2: log2 };
    assert!(expanded(of_switch, 0, seeded.bodies()) == Ok(rows), "key switch of {}", set.name);

    let shape = GgswShape::of_set(set, set.bootstrap);
    let seeded =
        SeededBootstrapKey::new(shape, GGSWS, seed, words::<T>(GGSWS * shape.body_words(), 2)).expect("a shape");
    let (mask_words, body_words) = (shape.glwe_dimension * shape.polynomial_size, shape.polynomial_size);
    let of_bootstrap = SeededRows { seed, mask_words, body_words, modulus_log2: T::BITS };
    for index in 0..GGSWS {
        let mut ggsw = vec![T::default(); shape.words()];
        expand_ggsw(&seeded, index, &mut ggsw);
        let bodies = &seeded.bodies()[index * shape.body_words()..][..shape.body_words()];
        let got = expanded(of_bootstrap, index * shape.rows(), bodies);
        assert!(got == Ok(ggsw), "ciphertext {index} of the bootstrap key of {}", set.name);
    }
}

#[test]
fn keys_of_every_set_that_gpus_serve_agree_with_the_core() {
    let gpu = Emulated::new(0).describe().clone();
    let served = SETS.iter().filter(|set| serves(set, &gpu));
    let tried = served.map(|set| by_words!(set, set_agrees(set)).expect("word types of a served set")).count();
    assert!(tried > 30, "{tried} sets");
}

#[test]
fn incomplete_rows_and_invalid_moduli_are_refused() {
    let seed = MaskSeed { key: 1, block: 0, byte: 0 };
    let rows = SeededRows { seed, mask_words: 5, body_words: 2, modulus_log2: 32 };
    assert_eq!(expanded(rows, 0, &words::<u32>(3, 1)), Err(DriverError::Misfit("whole rows")));
    for modulus_log2 in [0, 33] {
        let refused = expanded(SeededRows { modulus_log2, ..rows }, 0, &words::<u32>(4, 1));
        assert_eq!(refused, Err(DriverError::Misfit("a modulus that fits the word")));
    }
    let refused = expanded(SeededRows { mask_words: 0, ..rows }, 0, &words::<u32>(4, 1));
    assert_eq!(refused, Err(DriverError::Misfit("rows of masks and bodies")));
}
