//! Torus words to little-endian bytes and back, a piece at a time.

use std::io::{Read, Write};

use cloakwork_math::Torus;
use cloakwork_params::{EnvelopeError, EnvelopeReader, EnvelopeWriter, ParameterSet, set::word_bits};

use super::FormatError;

/// Bytes converted at once: they stay in the second-level cache between hashing and copying.
const PIECE: usize = 1 << 16;

/// log2 of the modulus of a set's ciphertexts, always a whole word.
pub(super) fn modulus_of_set(set: &ParameterSet) -> u32 {
    set.torus.bits()
}

/// Writes values of a modulus, refusing any that is none.
pub(super) fn write<T: Torus, W: Write>(
    out: &mut EnvelopeWriter<W>,
    modulus_log2: u32,
    words: &[T],
) -> Result<(), FormatError> {
    check_width::<T>(modulus_log2)?;
    let width = T::BITS as usize / 8;
    let mut bytes = vec![0; PIECE.min(words.len() * width)];
    for (piece, words) in words.chunks(PIECE / width).enumerate() {
        check_low_bits(modulus_log2, words, piece * (PIECE / width))?;
        let bytes = &mut bytes[..words.len() * width];
        for (bytes, word) in bytes.chunks_exact_mut(width).zip(words) {
            bytes.copy_from_slice(&word.to_u64().to_le_bytes()[..width]);
        }
        out.write_all(bytes).map_err(EnvelopeError::from)?;
    }
    Ok(())
}

/// Reads `count` values of a modulus. Memory grows with what has come, not with what was announced.
pub(super) fn read<T: Torus, R: Read>(
    input: &mut EnvelopeReader<R>,
    modulus_log2: u32,
    count: usize,
) -> Result<Vec<T>, FormatError> {
    check_width::<T>(modulus_log2)?;
    let width = T::BITS as usize / 8;
    let mut words: Vec<T> = Vec::new();
    let mut bytes = vec![0; PIECE.min(count.saturating_mul(width))];
    while words.len() < count {
        let start = words.len();
        let step = (count - start).min(PIECE / width);
        let bytes = &mut bytes[..step * width];
        input.fill(bytes)?;
        if words.capacity() < start + step {
            words.reserve_exact(start.max(step).min(count - start));
        }
        words.extend(bytes.chunks_exact(width).map(|bytes| {
            let mut word = [0; 8];
            word[..width].copy_from_slice(bytes);
            T::from_u64(u64::from_le_bytes(word))
        }));
        check_low_bits(modulus_log2, &words[start..], start)?;
    }
    Ok(words)
}

/// Moduli up to 2^32 travel in 32-bit words, larger ones in 64-bit words.
fn check_width<T: Torus>(modulus_log2: u32) -> Result<(), FormatError> {
    let expected = word_bits(modulus_log2);
    if T::BITS == expected { Ok(()) } else { Err(FormatError::WrongWord { expected, got: T::BITS }) }
}

fn check_low_bits<T: Torus>(modulus_log2: u32, words: &[T], start: usize) -> Result<(), FormatError> {
    if modulus_log2 == T::BITS {
        return Ok(());
    }
    let unused = (1 << (T::BITS - modulus_log2)) - 1;
    match words.iter().position(|word| word.to_u64() & unused != 0) {
        None => Ok(()),
        Some(place) => Err(FormatError::LowBitsNotZero { index: (start + place) as u64, modulus_log2 }),
    }
}
