//! The inner product of the key switch: digits of many ciphertexts times one key matrix.
//!
//! The arithmetic is exact and modulo the word. The product works on the bytes of the key, because
//! a processor multiplies most numbers at once if the numbers are bytes. A whole tile of
//! ciphertexts shares one read of the matrix, in blocks that stay in cache while every ciphertext
//! uses them.

mod digits;
mod matrix;

pub use matrix::{BlockMut, KeyMatrix};

use self::matrix::{BLOCK_ROWS, STRIP_PLANES};
use crate::{
    simd::{Kernel, Level, Simd, bytes, dispatch},
    torus::Torus,
};

/// Maximum number of ciphertexts that share one pass over the matrix.
pub const TILE: usize = 64;

/// The byte sums of a block fit 32 bits for all bytes and digits.
const _: () = assert!(BLOCK_ROWS / bytes::ROWS <= bytes::GROUPS_MAX);

/// Working memory of one thread: the digits of a tile in one block, and their products with one
/// strip of the key. Both together take at most 144 KiB.
#[derive(Default)]
pub struct Scratch {
    /// Digits by ciphertext, level, input.
    digits: Vec<[i8; bytes::ROWS]>,
    /// Sums by ciphertext, byte of the word, column.
    sums: Vec<[i32; bytes::COLUMNS]>,
}

/// Computes `sums[c] -= sum over i, l of digit(inputs[c][i], l) * matrix[i, l]`, for every
/// ciphertext c.
///
/// `inputs` has rows of `input_stride` words. The first `matrix.inputs()` words of each row are
/// decomposed.
/// `sums` has rows of `matrix.columns()` words.
pub fn subtract_product<T: Torus, S: Torus>(
    level: Level,
    matrix: &KeyMatrix<S>,
    inputs: &[T],
    input_stride: usize,
    sums: &mut [S],
    scratch: &mut Scratch,
) {
    let count = inputs.len() / input_stride;
    assert!(input_stride >= matrix.inputs(), "rows of {input_stride} words, {} of them decomposed", matrix.inputs());
    assert_eq!(inputs.len(), count * input_stride, "whole ciphertexts");
    assert_eq!(sums.len(), count * matrix.columns(), "a row of sums for each ciphertext");
    for (inputs, sums) in inputs.chunks(TILE * input_stride).zip(sums.chunks_mut(TILE * matrix.columns())) {
        match matrix.planes() {
            STRIP_PLANES => subtract_tile::<T, S, STRIP_PLANES>(level, matrix, inputs, input_stride, sums, scratch),
            _ => subtract_tile::<T, S, { STRIP_PLANES - 1 }>(level, matrix, inputs, input_stride, sums, scratch),
        }
    }
}

fn subtract_tile<T: Torus, S: Torus, const PLANES: usize>(
    level: Level,
    matrix: &KeyMatrix<S>,
    inputs: &[T],
    input_stride: usize,
    sums: &mut [S],
    scratch: &mut Scratch,
) {
    let (gadget, columns) = (matrix.gadget(), matrix.columns());
    let count = sums.len() / columns;
    scratch.sums.resize(count * PLANES, [0; bytes::COLUMNS]);
    let (products, _) = scratch.sums.as_chunks_mut::<PLANES>();
    for block in matrix.blocks() {
        let groups = block.inputs.div_ceil(bytes::ROWS) * gadget.levels;
        for piece in 0..digits::pieces(gadget) {
            scratch.digits.clear();
            scratch.digits.resize(count * groups, [0; bytes::ROWS]);
            for (input, digits) in inputs.chunks_exact(input_stride).zip(scratch.digits.chunks_exact_mut(groups)) {
                let words = &input[block.first_input..][..block.inputs];
                dispatch(level, digits::Cut { gadget, piece, words, digits: digits.as_flattened_mut() });
            }
            for (panel, strip, key) in block.strips::<PLANES>() {
                let shift = 32 * strip as u32 + 8 * (STRIP_PLANES - PLANES) as u32 + digits::piece_shift(piece);
                if shift < S::BITS {
                    let digit_max = digits::byte_max(gadget);
                    bytes::multiply(level, bytes::Factors { key, digits: &scratch.digits, digit_max }, products);
                    dispatch(level, Fold { products, shift, first: panel * bytes::COLUMNS, columns, sums: &mut *sums });
                }
            }
        }
    }
}

/// Combines a strip's byte sums to words, in the columns of its panel.
struct Fold<'a, S, const PLANES: usize> {
    products: &'a [bytes::Sums<PLANES>],
    /// Bit position of the strip's lowest byte.
    shift: u32,
    first: usize,
    columns: usize,
    sums: &'a mut [S],
}

impl<S: Torus, const PLANES: usize> Kernel for Fold<'_, S, PLANES> {
    #[inline(always)]
    fn run<L: Simd>(self) {
        let Self { products, shift, first, columns, sums } = self;
        for (product, sums) in products.iter().zip(sums.chunks_exact_mut(columns)) {
            let mut words = [S::default(); bytes::COLUMNS];
            for (column, word) in words.iter_mut().enumerate() {
                let mut value = 0;
                for (plane, sums) in product.iter().enumerate() {
                    // The total is below 2^31 * 2^25, so the sum does not overflow.
                    value += i64::from(sums[column]) << (8 * plane);
                }
                *word = S::from_u64((value as u64) << shift);
            }
            let sums = &mut sums[first..];
            match sums.first_chunk_mut() {
                Some(sums) => subtract::<S, { bytes::COLUMNS }>(sums, words),
                None => sums.iter_mut().zip(words).for_each(|(sum, word)| *sum = sum.wrapping_sub(word)),
            }
        }
    }
}

#[inline(always)]
fn subtract<S: Torus, const COUNT: usize>(sums: &mut [S; COUNT], words: [S; COUNT]) {
    for (sum, word) in sums.iter_mut().zip(words) {
        *sum = sum.wrapping_sub(word);
    }
}
