//! The key switch's inner product: digits of many ciphertexts times one key matrix.
//!
//! Exact integer arithmetic modulo the word. The matrix is read once for a whole tile of ciphertexts, in
//! blocks that stay in cache while every ciphertext uses them.

use cloakwork_params::Decomposition;

use crate::{
    decomposition,
    simd::{Kernel, Level, Simd, dispatch},
    torus::Torus,
};

/// Ciphertexts whose sums are kept next to each other while a block of the matrix is in use.
const GROUP: usize = 4;
/// Matrix rows that enter one pass over the sums.
const ROWS: usize = 4;
/// Input words whose digits and key rows make one block.
const BLOCK_INPUTS: usize = 32;
/// Matrix columns in one block.
const BLOCK_COLUMNS: usize = 256;

/// Working memory of one thread.
#[derive(Default)]
pub struct Scratch<S> {
    /// By group, matrix row, ciphertext of the group.
    digits: Vec<S>,
}

/// `sums[c] -= sum over i, l of digit(inputs[c][i], l) * matrix[i * levels + l]`, for every ciphertext c.
///
/// `inputs` are rows of `input_stride` words, of which the first `matrix_rows / levels` are decomposed;
/// `sums` and `matrix` are rows of `columns` words. Matrix rows of one input word start with its smallest
/// weight.
pub fn subtract_product<T: Torus, S: Torus>(
    level: Level,
    gadget: Decomposition,
    inputs: &[T],
    input_stride: usize,
    matrix: &[S],
    columns: usize,
    sums: &mut [S],
    scratch: &mut Scratch<S>,
) {
    let block_rows = BLOCK_INPUTS * gadget.levels;
    for (block, matrix) in matrix.chunks(block_rows * columns).enumerate() {
        let rows = matrix.len() / columns;
        let first = block * BLOCK_INPUTS;
        cut_digits(gadget, inputs, input_stride, first, rows, &mut scratch.digits);
        dispatch(level, Block { digits: &scratch.digits, matrix, columns, rows, sums: &mut *sums });
    }
}

/// Digits of inputs `first..` of every ciphertext, `rows` of them, grouped as [`Scratch::digits`] says.
fn cut_digits<T: Torus, S: Torus>(
    gadget: Decomposition,
    inputs: &[T],
    stride: usize,
    first: usize,
    rows: usize,
    digits: &mut Vec<S>,
) {
    let count = inputs.len() / stride;
    digits.clear();
    digits.resize(count * rows, S::default());
    for (group, inputs) in inputs.chunks(GROUP * stride).enumerate() {
        let width = inputs.len() / stride;
        let digits = &mut digits[group * GROUP * rows..][..width * rows];
        for (lane, input) in inputs.chunks_exact(stride).enumerate() {
            let words = &input[first..][..rows / gadget.levels];
            for (word, digits) in words.iter().zip(digits.chunks_exact_mut(width * gadget.levels)) {
                let mut state = decomposition::round(gadget, *word);
                for digits in digits.chunks_exact_mut(width) {
                    digits[lane] = S::from_i64(decomposition::next_digit(gadget, &mut state));
                }
            }
        }
    }
}

/// One block of matrix rows against every ciphertext.
struct Block<'a, S> {
    digits: &'a [S],
    matrix: &'a [S],
    columns: usize,
    rows: usize,
    sums: &'a mut [S],
}

impl<S: Torus> Kernel for Block<'_, S> {
    #[inline(always)]
    fn run<L: Simd>(self) {
        let Self { digits, matrix, columns, rows, sums } = self;
        // A single group has nothing to share a cached piece with: take whole rows, in memory order.
        let step = if sums.len() <= GROUP * columns { columns } else { BLOCK_COLUMNS };
        for from in (0..columns).step_by(step) {
            let width = step.min(columns - from);
            for (group, sums) in sums.chunks_mut(GROUP * columns).enumerate() {
                let lanes = sums.len() / columns;
                let digits = &digits[group * GROUP * rows..][..lanes * rows];
                accumulate(digits, lanes, matrix, columns, from..from + width, sums);
            }
        }
    }
}

/// The matrix rows of a block, a few at a time, against the columns in `range` of a group's sums.
#[inline(always)]
fn accumulate<S: Torus>(
    digits: &[S],
    lanes: usize,
    matrix: &[S],
    columns: usize,
    range: std::ops::Range<usize>,
    sums: &mut [S],
) {
    let passes = matrix.chunks_exact(ROWS * columns);
    let rest = passes.remainder().chunks_exact(columns);
    let rest_digits = digits[passes.len() * ROWS * lanes..].chunks_exact(lanes);
    for (matrix, digits) in passes.zip(digits.chunks_exact(ROWS * lanes)) {
        let rows: [&[S]; ROWS] = std::array::from_fn(|row| &matrix[row * columns..][range.clone()]);
        for (lane, sums) in sums.chunks_exact_mut(columns).enumerate() {
            let digits: [S; ROWS] = std::array::from_fn(|row| digits[row * lanes + lane]);
            subtract_rows(digits, rows, &mut sums[range.clone()]);
        }
    }
    for (row, digits) in rest.zip(rest_digits) {
        for (digit, sums) in digits.iter().zip(sums.chunks_exact_mut(columns)) {
            subtract_rows([*digit], [&row[range.clone()]], &mut sums[range.clone()]);
        }
    }
}

#[inline(always)]
fn subtract_rows<S: Torus, const COUNT: usize>(digits: [S; COUNT], rows: [&[S]; COUNT], sums: &mut [S]) {
    let width = sums.len();
    let rows = rows.map(|row| &row[..width]);
    for column in 0..width {
        let mut sum = sums[column];
        for row in 0..COUNT {
            sum = sum.wrapping_sub(digits[row].wrapping_mul(rows[row][column]));
        }
        sums[column] = sum;
    }
}
