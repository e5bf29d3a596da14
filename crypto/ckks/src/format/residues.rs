//! Polynomials to bytes and back, a piece at a time: residues in as many bits as their prime has, back to back from the
//! lowest bit of an 8-byte word up. A row is whole words, since N is a multiple of 64.

use std::io::{Read, Write};

use cloakwork_math::modulus::Modulus;
use cloakwork_params::{EnvelopeError, EnvelopeReader, EnvelopeWriter};

use super::FormatError;
use crate::{
    poly::{Basis, Poly},
    ring::Ring,
};

/// Residues converted at once: they and their bytes stay in the second-level cache, and are enough for a hash to take many
/// chunks at a time.
const PIECE: usize = 1 << 13;
/// Residues that are whole 8-byte words together. Rows and pieces are whole groups.
const GROUP: usize = 64;

/// Writes a polynomial, refusing one that is not modulo the primes of `basis` or has a word that is no residue.
pub(super) fn write<W: Write>(
    out: &mut EnvelopeWriter<W>,
    ring: &Ring,
    basis: Basis,
    poly: &Poly,
) -> Result<(), FormatError> {
    if poly.basis() != basis || poly.words().len() != basis.len() * ring.size() {
        return Err(FormatError::WrongBasis);
    }
    let mut bytes = Vec::with_capacity(PIECE * size_of::<u64>());
    for (row, (prime, words)) in ring.primes(basis).zip(poly.rows()).enumerate() {
        for (piece, words) in words.chunks(PIECE).enumerate() {
            check(prime.modulus(), words, row, piece * PIECE)?;
            bytes.clear();
            pack(prime.modulus().bits(), words, &mut bytes);
            out.write_all(&bytes).map_err(EnvelopeError::from)?;
        }
    }
    Ok(())
}

/// Reads a polynomial into a blank one. Its memory comes from the system as it is written: it grows with what has come, not with
/// what was announced.
pub(super) fn read<R: Read>(input: &mut EnvelopeReader<R>, ring: &Ring, mut poly: Poly) -> Result<Poly, FormatError> {
    let basis = poly.basis();
    let mut bytes = vec![0; PIECE * size_of::<u64>()];
    for (row, (prime, words)) in ring.primes(basis).zip(poly.rows_mut()).enumerate() {
        for (piece, words) in words.chunks_mut(PIECE).enumerate() {
            let bytes = &mut bytes[..words.len() / 8 * prime.modulus().bits() as usize];
            input.fill(bytes)?;
            unpack(prime.modulus().bits(), bytes, words);
            check(prime.modulus(), words, row, piece * PIECE)?;
        }
    }
    Ok(poly)
}

fn check(modulus: Modulus, words: &[u64], row: usize, start: usize) -> Result<(), FormatError> {
    let prime = modulus.value();
    // The highest bit says of words below 2^63 whether they are less: many are compared at once so.
    if words.iter().fold(0, |signs, word| signs | word | (prime - 1).wrapping_sub(*word)) >> 63 == 0 {
        return Ok(());
    }
    let place = words.iter().position(|word| *word >= prime).unwrap_or_default();
    Err(FormatError::ResidueTooLarge { row, index: start + place, prime })
}

/// Appends words of `bits` bits each, which are whole 8-byte words in all.
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

/// The words that [`pack`] made `bytes` of, whole groups of them.
fn unpack(bits: u32, bytes: &[u8], words: &mut [u64]) {
    let (bits, mask) = (bits as usize, (1 << bits) - 1);
    debug_assert!(words.len().is_multiple_of(GROUP) && bytes.len() == words.len() / 8 * bits, "whole groups");
    for (bytes, words) in bytes.chunks_exact(GROUP / 8 * bits).zip(words.as_chunks_mut::<GROUP>().0) {
        // The last ones stay empty: no word has bits there.
        let mut packed = [0; GROUP + 1];
        packed.iter_mut().zip(bytes.as_chunks().0).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
        for (at, word) in words.iter_mut().enumerate() {
            let (from, shift) = (at * bits / 64 % GROUP, at * bits % 64);
            // What is shifted up by 64 bits is shifted twice.
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
        fn what_is_packed_comes_back(bits in 2_u32..=61, words in proptest::collection::vec(any::<u64>(), 64)) {
            let words: Vec<u64> = words.iter().map(|word| word >> (u64::BITS - bits)).collect();
            let (mut bytes, mut again) = (Vec::new(), [u64::MAX; 64]);
            pack(bits, &words, &mut bytes);
            prop_assert_eq!(bytes.len(), 8 * bits as usize);
            unpack(bits, &bytes, &mut again);
            prop_assert_eq!(&again[..], words);
        }
    }

    #[test]
    fn words_lie_back_to_back_from_the_lowest_bit_up() {
        let mut bytes = Vec::new();
        let words: Vec<u64> =
            (0..64).map(|at| u64::from(at == 0) | u64::from(at == 1) << 2 | u64::from(at == 63) << 4).collect();
        pack(5, &words, &mut bytes);
        assert_eq!((bytes.len(), bytes[0], bytes[39]), (40, 0b1000_0001, 0x80));
    }
}
