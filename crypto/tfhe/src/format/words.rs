//! Conversion between torus words and little-endian bytes, in pieces.

use std::io::{Read, Write};

use cloakwork_math::Torus;
use cloakwork_params::{EnvelopeError, EnvelopeReader, EnvelopeWriter, ParameterSet, set::word_bits};

use super::FormatError;

/// Number of bytes read at once. A piece stays in the second-level cache until it is hashed and
/// checked.
const PIECE_BYTES: usize = 1 << 16;

/// log2 of the modulus of a set's ciphertexts, which always fills a whole word.
pub(super) fn modulus_of_set(set: &ParameterSet) -> u32 {
    set.torus.bits()
}

/// Writes values of a modulus. A word that is not a value of the modulus is refused.
pub(super) fn write<T: Torus, W: Write>(
    out: &mut EnvelopeWriter<W>,
    modulus_log2: u32,
    words: &[T],
) -> Result<(), FormatError> {
    check_width::<T>(modulus_log2)?;
    let width = T::BITS as usize / 8;
    let mut bytes = vec![0; PIECE_BYTES.min(words.len() * width)];
    for (piece, words) in words.chunks(PIECE_BYTES / width).enumerate() {
        check_low_bits(modulus_log2, words, piece * (PIECE_BYTES / width))?;
        let bytes = &mut bytes[..words.len() * width];
        for (bytes, word) in bytes.chunks_exact_mut(width).zip(words) {
            bytes.copy_from_slice(&word.to_u64().to_le_bytes()[..width]);
        }
        out.write_all(bytes).map_err(EnvelopeError::from)?;
    }
    Ok(())
}

/// Reads `count` values of a modulus. Memory grows with the data received, not with the announced
/// size.
pub(super) fn read<T: Torus, R: Read>(
    input: &mut EnvelopeReader<R>,
    modulus_log2: u32,
    count: usize,
) -> Result<Vec<T>, FormatError> {
    check_width::<T>(modulus_log2)?;
    let most = PIECE_BYTES / size_of::<T>();
    let mut words: Vec<T> = Vec::new();
    while words.len() < count {
        let start = words.len();
        let step = (count - start).min(most);
        if words.capacity() < start + step {
            words.reserve_exact(start.max(step).min(count - start));
        }
        words.resize(start + step, T::default());
        let piece = &mut words[start..];
        input.fill(bytemuck::cast_slice_mut(piece))?;
        if cfg!(target_endian = "big") {
            piece.iter_mut().for_each(|word| *word = T::from_u64(word.to_u64().swap_bytes() >> (64 - T::BITS)));
        }
        check_low_bits(modulus_log2, piece, start)?;
    }
    Ok(words)
}

/// Checks the width of the words in memory. Moduli up to 2^32 use 32-bit words on the wire, larger
/// ones 64-bit words.
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
