//! Tests of the product over bytes against a scalar double loop over words.

use cloakwork_math::{
    Torus, decomposition,
    key_product::{KeyMatrix, Scratch, TILE, subtract_product},
    random::{MaskSeed, MaskStream},
    simd::Level,
};
use cloakwork_params::{Decomposition, table};
use proptest::prelude::*;

fn uniform<T: Torus>(seed: u128, modulus_log2: u32, len: usize) -> Vec<T> {
    let mut words = vec![T::default(); len];
    MaskStream::new(&MaskSeed { key: seed, block: 0, byte: 0 }).fill(modulus_log2, &mut words);
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

fn matrix_of<S: Torus>(
    gadget: Decomposition,
    inputs: usize,
    columns: usize,
    modulus_log2: u32,
    words: &[S],
) -> KeyMatrix<S> {
    let mut matrix = KeyMatrix::new(gadget, inputs, columns, modulus_log2);
    // Blocks are independent, so fill the last block first.
    for mut block in matrix.blocks_mut().into_iter().rev() {
        block.fill(|index, row| row.copy_from_slice(&words[index * columns..][..columns]));
    }
    matrix
}

/// Checks one shape. Each ciphertext in `words` has one more word than is decomposed: the body.
fn check<T: Torus, S: Torus>(
    gadget: Decomposition,
    inputs: usize,
    columns: usize,
    modulus_log2: u32,
    key: &[S],
    words: &[T],
) {
    let count = words.len() / (inputs + 1);
    let start: Vec<S> = uniform(2, S::BITS, count * columns);
    let mut expected = start.clone();
    for (input, sums) in words.chunks_exact(inputs + 1).zip(expected.chunks_exact_mut(columns)) {
        plain(gadget, &input[..inputs], key, sums);
    }
    let matrix = matrix_of(gadget, inputs, columns, modulus_log2, key);
    // A scratch can be reused after any other use.
    let mut scratch = Scratch::default();
    for level in Level::available() {
        let mut sums = start.clone();
        subtract_product(level, &matrix, words, inputs + 1, &mut sums, &mut scratch);
        assert!(sums == expected, "{gadget:?}, {inputs} inputs, {count} x {columns} columns on {}", level.name());
    }
}

fn check_uniform<T: Torus, S: Torus>(
    gadget: Decomposition,
    inputs: usize,
    count: usize,
    columns: usize,
    modulus_log2: u32,
    seed: u128,
) {
    let key: Vec<S> = uniform(seed, modulus_log2, inputs * gadget.levels * columns);
    check(gadget, inputs, columns, modulus_log2, &key, &uniform::<T>(seed ^ 1, T::BITS, count * (inputs + 1)));
}

/// The gadgets of all keys for key switching or packing.
fn gadgets() -> Vec<Decomposition> {
    let switches = table::SETS.iter().map(|set| set.key_switch);
    switches.chain(table::COMPRESSION_SETS.iter().map(|set| set.packing)).collect()
}

/// Words with the largest digits, and words near the change of a digit's sign.
fn extremes<T: Torus>(gadget: Decomposition, len: usize) -> Vec<T> {
    let kept = gadget.base_log * gadget.levels as u32;
    let repeated =
        |digit: u64| (0..gadget.levels as u32).fold(0u64, |sum, level| sum | digit << (level * gadget.base_log));
    let half = 1 << (gadget.base_log - 1);
    let tops = [repeated(half), repeated(half - 1), repeated(half + 1), 1 << (kept - 1), (1 << (kept - 1)) - 1];
    let words = tops.into_iter().flat_map(|top| [0u64, 1].map(|below| (top << (T::BITS - kept)).wrapping_sub(below)));
    words.cycle().take(len).map(T::from_u64).collect()
}

#[test]
fn products_across_block_boundaries_match_for_every_gadget() {
    for (seed, gadget) in gadgets().into_iter().enumerate() {
        for inputs in [2048 / gadget.levels + 5, 4096 / gadget.levels + 2] {
            check_uniform::<u64, u64>(gadget, inputs, 3, 18, 64, seed as u128);
            check_uniform::<u64, u32>(gadget, inputs, 7, 33, 32, seed as u128);
            check_uniform::<u64, u32>(gadget, inputs, 2, 5, 21, seed as u128);
            check_uniform::<u32, u32>(gadget, inputs, 2, 16, 32, seed as u128);
        }
    }
}

#[test]
fn products_match_for_every_number_of_ciphertexts() {
    for count in 1..=TILE + 6 {
        check_uniform::<u64, u64>(Decomposition { base_log: 4, levels: 4 }, 13, count, 19, 64, count as u128);
        check_uniform::<u64, u32>(Decomposition { base_log: 2, levels: 8 }, 13, count, 19, 21, count as u128);
    }
}

#[test]
fn the_largest_digits_and_bytes_do_not_overflow() {
    let wide = (1..32).map(|base_log| Decomposition { base_log, levels: (31 / base_log as usize).min(3) });
    for gadget in gadgets().into_iter().chain(wide) {
        // The key has more than one block, and all of its bytes are 0xff.
        let (inputs, columns) = (2048 / gadget.levels + 9, 17);
        let rows = inputs * gadget.levels;
        for count in [1, 7] {
            let len = count * (inputs + 1);
            let top_21 = vec![u32::MAX << 11; rows * columns];
            check(gadget, inputs, columns, 64, &vec![u64::MAX; rows * columns], &extremes::<u64>(gadget, len));
            check(gadget, inputs, columns, 32, &vec![u32::MAX; rows * columns], &extremes::<u32>(gadget, len));
            check(gadget, inputs, columns, 21, &top_21, &extremes::<u64>(gadget, len));
        }
    }
}

#[test]
fn a_matrix_returns_its_rows_and_holds_little_more() {
    for (modulus_log2, planes) in [(32, 4), (25, 4), (24, 3), (21, 3), (1, 3)] {
        for (inputs, levels, columns) in [(1, 1, 1), (700, 3, 31), (1030, 4, 48)] {
            let words: Vec<u32> = uniform(9, modulus_log2, inputs * levels * columns);
            let matrix = matrix_of(Decomposition { base_log: 2, levels }, inputs, columns, modulus_log2, &words);
            let mut row = vec![0; columns];
            for (index, expected) in words.chunks_exact(columns).enumerate() {
                matrix.read_row(index, &mut row);
                assert_eq!(row, expected, "row {index} of {inputs} x {levels}");
            }
            assert!(matrix.bytes() <= (inputs + 6) * levels * (columns + 15) * planes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn the_product_over_bytes_equals_the_product_over_words(
        inputs in 1usize..100,
        count in 1usize..71,
        columns in 1usize..200,
        base_log in 1u32..32,
        levels in 1usize..9,
        modulus_log2 in 1u32..33,
        seed: u128,
    ) {
        let levels = levels.min(63 / base_log as usize);
        let gadget = Decomposition { base_log, levels };
        check_uniform::<u64, u64>(gadget, inputs, count, columns, 64, seed);
        check_uniform::<u64, u32>(gadget, inputs, count, columns, modulus_log2, seed);
        if base_log * (levels as u32) < 32 {
            check_uniform::<u32, u32>(gadget, inputs, count, columns, 32, seed);
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
