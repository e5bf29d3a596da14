//! The blocked key product against the plain double loop.

use cloakwork_math::{
    Torus, decomposition,
    key_product::{Scratch, subtract_product},
    random::{MaskSeed, MaskStream},
    simd::Level,
};
use cloakwork_params::Decomposition;
use proptest::prelude::*;

fn uniform<T: Torus>(seed: u128, len: usize) -> Vec<T> {
    let mut words = vec![T::default(); len];
    MaskStream::new(&MaskSeed { key: seed, block: 0, byte: 0 }).fill(T::BITS, &mut words);
    words
}

fn plain<T: Torus, S: Torus>(gadget: Decomposition, input: &[T], matrix: &[S], sums: &mut [S]) {
    let mut rows = matrix.chunks_exact(sums.len());
    for word in input {
        let mut state = decomposition::round(gadget, *word);
        for _ in 0..gadget.levels {
            let digit = S::from_i64(decomposition::next_digit(gadget, &mut state));
            for (sum, key) in sums.iter_mut().zip(rows.next().expect("one row a digit")) {
                *sum = sum.wrapping_sub(digit.wrapping_mul(*key));
            }
        }
    }
}

fn check<T: Torus, S: Torus>(inputs: usize, count: usize, columns: usize, gadget: Decomposition, seed: u128) {
    let matrix: Vec<S> = uniform(seed, inputs * gadget.levels * columns);
    // One word more than is decomposed: the body.
    let words: Vec<T> = uniform(seed ^ 1, count * (inputs + 1));
    let start: Vec<S> = uniform(seed ^ 2, count * columns);
    let mut expected = start.clone();
    for (input, sums) in words.chunks_exact(inputs + 1).zip(expected.chunks_exact_mut(columns)) {
        plain(gadget, &input[..inputs], &matrix, sums);
    }
    let mut scratch = Scratch::default();
    for level in Level::available() {
        let mut sums = start.clone();
        subtract_product(level, gadget, &words, inputs + 1, &matrix, columns, &mut sums, &mut scratch);
        assert!(sums == expected, "{inputs} inputs, {count} ciphertexts, {columns} columns on {}", level.name());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn blocked_equals_plain(
        inputs in 1usize..100,
        count in 1usize..11,
        columns in 1usize..600,
        base_log in 1u32..8,
        levels in 1usize..5,
        seed: u128,
    ) {
        let gadget = Decomposition { base_log, levels };
        check::<u64, u64>(inputs, count, columns, gadget, seed);
        check::<u64, u32>(inputs, count, columns, gadget, seed);
        if base_log * (levels as u32) < 32 {
            check::<u32, u32>(inputs, count, columns, gadget, seed);
        }
    }

    #[test]
    fn digits_recompose_to_the_rounded_word(word: u64, base_log in 1u32..24, levels in 1usize..4) {
        prop_assume!(base_log * (levels as u32) < 64);
        let gadget = Decomposition { base_log, levels };
        let kept = base_log * levels as u32;
        let mut state = decomposition::round(gadget, word);
        let mut sum = 0u64;
        for level in (1..=levels as u32).rev() {
            let digit = decomposition::next_digit(gadget, &mut state);
            prop_assert!(digit.unsigned_abs() <= 1 << (base_log - 1));
            sum = sum.wrapping_add((digit as u64) << (64 - base_log * level));
        }
        prop_assert_eq!(sum, word.round_to_modulus(kept) << (64 - kept));
    }
}
