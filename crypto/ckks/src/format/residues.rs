//! Conversion between polynomials and bytes, in pieces. Each residue has as many bits as its prime.
//! Residues are adjacent, from the lowest bit of an 8-byte word up. A row fills whole words, since
//! N is a multiple of 64.

use std::io::{Read, Write};

use cloakwork_math::modulus::Modulus;
use cloakwork_params::{EnvelopeError, EnvelopeReader, EnvelopeWriter};

use super::FormatError;
use crate::{
    poly::{Basis, Poly},
    ring::Ring,
};

/// Number of residues converted at once. The residues and their bytes stay in the second-level
/// cache, and the bytes suffice for the hash to process many chunks in parallel.
const PIECE_RESIDUES: usize = 1 << 13;
/// Number of residues that together fill whole 8-byte words. Rows and pieces consist of whole
/// groups.
const GROUP_RESIDUES: usize = 64;

/// Writes a polynomial. A polynomial with primes other than those of `basis`, or with a word that
/// is not a residue, is refused.
pub(super) fn write<W: Write>(
    out: &mut EnvelopeWriter<W>,
    ring: &Ring,
    basis: Basis,
    poly: &Poly,
) -> Result<(), FormatError> {
    if poly.basis() != basis || poly.words().len() != basis.len() * ring.size() {
        return Err(FormatError::WrongBasis);
    }
    let mut bytes = Vec::with_capacity(PIECE_RESIDUES * size_of::<u64>());
    for (row, (prime, words)) in ring.primes(basis).zip(poly.rows()).enumerate() {
        for (piece, words) in words.chunks(PIECE_RESIDUES).enumerate() {
            check(prime.modulus(), words, row, piece * PIECE_RESIDUES)?;
            bytes.clear();
            pack(prime.modulus().bits(), words, &mut bytes);
            out.write_all(&bytes).map_err(EnvelopeError::from)?;
        }
    }
    Ok(())
}

/// Reads a polynomial into a blank one. The system provides its memory page by page as it is
/// written, so memory grows with the data received, not with the announced size.
pub(super) fn read<R: Read>(input: &mut EnvelopeReader<R>, ring: &Ring, mut poly: Poly) -> Result<Poly, FormatError> {
    let basis = poly.basis();
    let mut bytes = vec![0; PIECE_RESIDUES * size_of::<u64>()];
    for (row, (prime, words)) in ring.primes(basis).zip(poly.rows_mut()).enumerate() {
        for (piece, words) in words.chunks_mut(PIECE_RESIDUES).enumerate() {
            let bytes = &mut bytes[..words.len() / 8 * prime.modulus().bits() as usize];
            input.fill(bytes)?;
            unpack(prime.modulus().bits(), bytes, words);
            check(prime.modulus(), words, row, piece * PIECE_RESIDUES)?;
        }
    }
    Ok(poly)
}

fn check(modulus: Modulus, words: &[u64], row: usize, start: usize) -> Result<(), FormatError> {
    let prime = modulus.value();
    // For words below 2^63, the highest bit of the difference tells whether a word is too large.
    // This form compares many words at once.
    if words.iter().fold(0, |signs, word| signs | word | (prime - 1).wrapping_sub(*word)) >> 63 == 0 {
        return Ok(());
    }
    let place = words.iter().position(|word| *word >= prime).unwrap_or_default();
    Err(FormatError::ResidueTooLarge { row, index: start + place, prime })
}

/// Appends words of `bits` bits each, which together fill whole 8-byte words.
fn pack(bits: u32, words: &[u64], bytes: &mut Vec<u8>) {
    let (mut held, mut held_bits) = (0_u128, 0);
    for word in words {
        held |= u128::from(*word) << held_bits;
        held_bits += bits;
        if held_bits >= u64::BITS {
            bytes.extend((held as u64).to_le_bytes());
            held >>= u64::BITS;
            held_bits -= u64::BITS;
        }
    }
    debug_assert_eq!(held_bits, 0, "pieces of whole words");
}

/// Unpacks whole groups of words from the `bytes` that [`pack`] made.
fn unpack(bits: u32, bytes: &[u8], words: &mut [u64]) {
    let (bits, mask) = (bits as usize, (1 << bits) - 1);
    debug_assert!(words.len().is_multiple_of(GROUP_RESIDUES) && bytes.len() == words.len() / 8 * bits, "whole groups");
    for (bytes, words) in bytes.chunks_exact(GROUP_RESIDUES / 8 * bits).zip(words.as_chunks_mut::<GROUP_RESIDUES>().0) {
        // The words after the packed ones stay zero. The loop reads the first of them, but no
        // residue has bits there.
        let mut packed = [0; GROUP_RESIDUES + 1];
        packed.iter_mut().zip(bytes.as_chunks().0).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
        for (at, word) in words.iter_mut().enumerate() {
            let (from, shift) = (at * bits / 64 % GROUP_RESIDUES, at * bits % 64);
            // A shift by up to 64 bits is done in two shifts, since a single shift by 64 overflows.
            *word = (packed[from] >> shift | packed[from + 1] << 1 << (63 - shift)) & mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packed_words_unpack_unchanged(bits in 2_u32..=61, words in proptest::collection::vec(any::<u64>(), 64)) {
            let words: Vec<u64> = words.iter().map(|word| word >> (u64::BITS - bits)).collect();
            let (mut bytes, mut again) = (Vec::new(), [u64::MAX; 64]);
            pack(bits, &words, &mut bytes);
            prop_assert_eq!(bytes.len(), 8 * bits as usize);
            unpack(bits, &bytes, &mut again);
            prop_assert_eq!(&again[..], words);
        }
    }

    #[test]
    fn packed_words_are_adjacent_from_the_lowest_bit_up() {
        let mut bytes = Vec::new();
        let words: Vec<u64> =
            (0..64).map(|at| u64::from(at == 0) | u64::from(at == 1) << 2 | u64::from(at == 63) << 4).collect();
        pack(5, &words, &mut bytes);
        assert_eq!((bytes.len(), bytes[0], bytes[39]), (40, 0b1000_0001, 0x80));
    }
}
