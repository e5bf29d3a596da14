//! Conversion of a ciphertext's words to the bytes by which a key matrix is multiplied.

use cloakwork_params::Decomposition;

use crate::{
    decomposition,
    simd::{Kernel, Simd, bytes},
    torus::Torus,
};

/// Bits of a digit in one byte. Pieces are balanced, from -64 to 64.
const PIECE_BITS: u32 = bytes::DIGIT_MAX.ilog2() + 1;
/// Words whose digits are taken off together.
const CHUNK: usize = 64;

/// Number of bytes for one digit: more than one for bases above 2^7 only.
pub(super) fn pieces(gadget: Decomposition) -> u32 {
    gadget.base_log.div_ceil(PIECE_BITS)
}

/// log2 of the weight of a piece.
pub(super) fn piece_shift(piece: u32) -> u32 {
    piece * PIECE_BITS
}

/// Greatest magnitude of a byte.
pub(super) fn byte_max(gadget: Decomposition) -> i32 {
    1 << (gadget.base_log.min(PIECE_BITS) - 1)
}

/// Extracts one piece of every digit of some words.
pub(super) struct Cut<'a, T> {
    pub(super) gadget: Decomposition,
    pub(super) piece: u32,
    pub(super) words: &'a [T],
    /// Output by level, the smallest weight first, then by word, with room for at least all words.
    pub(super) digits: &'a mut [i8],
}

impl<T: Torus> Kernel for Cut<'_, T> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { gadget, piece, words, digits } = self;
        let stride = digits.len() / gadget.levels;
        let last = piece + 1 == pieces(gadget);
        for (chunk, words) in words.chunks(CHUNK).enumerate() {
            let mut states = [0; CHUNK];
            for (state, word) in states.iter_mut().zip(words) {
                *state = decomposition::round(gadget, *word);
            }
            for digits in digits.chunks_exact_mut(stride) {
                let mut level = states;
                for (digit, state) in level.iter_mut().zip(&mut states) {
                    *digit = decomposition::next_digit(gadget, state);
                }
                for _ in 0..piece {
                    level.iter_mut().for_each(|digit| *digit = (*digit - low_piece(*digit)) >> PIECE_BITS);
                }
                if !last {
                    level.iter_mut().for_each(|digit| *digit = low_piece(*digit));
                }
                for (byte, digit) in digits[chunk * CHUNK..].iter_mut().zip(&level[..words.len()]) {
                    *byte = *digit as i8;
                }
            }
        }
    }
}

/// The balanced low bits, from -64 to 63.
#[inline(always)]
fn low_piece(digit: i64) -> i64 {
    const HALF: i64 = 1 << (PIECE_BITS - 1);
    ((digit + HALF) & (2 * HALF - 1)) - HALF
}
