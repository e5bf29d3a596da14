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

/// Residues converted at once: their bytes stay in the first-level cache. A piece is whole words, like a row.
const PIECE: usize = 1 << 11;

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

/// Reads a polynomial modulo the primes of a basis. Memory grows with what has come, not with what was announced.
pub(super) fn read<R: Read>(input: &mut EnvelopeReader<R>, ring: &Ring, basis: Basis) -> Result<Poly, FormatError> {
    let mut words: Vec<u64> = Vec::new();
    let mut bytes = vec![0; PIECE * size_of::<u64>()];
    for (row, prime) in ring.primes(basis).enumerate() {
        let (end, bits) = (words.len() + ring.size(), prime.modulus().bits());
        while words.len() < end {
            let (start, count) = (words.len(), PIECE.min(end - words.len()));
            let bytes = &mut bytes[..count * bits as usize / 8];
            input.fill(bytes)?;
            unpack(bits, bytes, &mut words);
            check(prime.modulus(), &words[start..], row, start + ring.size() - end)?;
        }
    }
    Ok(ring.of_words(basis, &words))
}

fn check(modulus: Modulus, words: &[u64], row: usize, start: usize) -> Result<(), FormatError> {
    let prime = modulus.value();
    match words.iter().position(|word| *word >= prime) {
        None => Ok(()),
        Some(place) => Err(FormatError::ResidueTooLarge { row, index: start + place, prime }),
    }
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

/// Appends the words that [`pack`] made `bytes` of.
fn unpack(bits: u32, bytes: &[u8], words: &mut Vec<u64>) {
    let mask = (1 << bits) - 1;
    let (mut held, mut held_bits) = (0_u128, 0);
    for word in bytes.as_chunks().0 {
        held |= u128::from(u64::from_le_bytes(*word)) << held_bits;
        held_bits += u64::BITS;
        while held_bits >= bits {
            words.push(held as u64 & mask);
            held >>= bits;
            held_bits -= bits;
        }
    }
    debug_assert_eq!(held_bits, 0, "pieces of whole words");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_packed_comes_back(bits in 2_u32..=61, words in proptest::collection::vec(any::<u64>(), 64)) {
            let words: Vec<u64> = words.iter().map(|word| word >> (u64::BITS - bits)).collect();
            let (mut bytes, mut again) = (Vec::new(), Vec::new());
            pack(bits, &words, &mut bytes);
            prop_assert_eq!(bytes.len(), 8 * bits as usize);
            unpack(bits, &bytes, &mut again);
            prop_assert_eq!(again, words);
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
