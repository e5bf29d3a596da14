//! What a list says of each of its ciphertexts.

use std::io::{Read, Write};

use cloakwork_params::{Encoding, EnvelopeError, EnvelopeReader, EnvelopeWriter, ParameterSet, layout::INFO_BYTES};

use super::FormatError;

/// Bookkeeping of one ciphertext, as in tfhe-rs. Public: it follows from the operations, not from the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CiphertextInfo {
    /// Largest value that the plaintext can have.
    pub degree: u32,
    /// Noise in multiples of a fresh bootstrap output's standard deviation; 0 for trivial ciphertexts.
    pub noise_level: u32,
}

impl CiphertextInfo {
    /// The largest degree and noise level that a ciphertext of `set` may have.
    pub fn limit(set: &ParameterSet) -> (u64, u64) {
        match set.encoding {
            Encoding::Shortint { message_modulus, carry_modulus, max_noise_level } => {
                (message_modulus * carry_modulus - 1, max_noise_level)
            }
            Encoding::Boolean => (1, 1),
        }
    }

    fn check(&self, set: &ParameterSet, index: usize) -> Result<(), FormatError> {
        let (degree, noise_level) = Self::limit(set);
        let fields = [("degree", degree, self.degree), ("noise level", noise_level, self.noise_level)];
        for (what, limit, got) in fields {
            if u64::from(got) > limit {
                return Err(FormatError::ValueOutOfRange { what, index: index as u64, limit, got: u64::from(got) });
            }
        }
        Ok(())
    }
}

/// Writes the entries of a list, refusing any that `set` does not allow.
pub(super) fn write<W: Write>(
    out: &mut EnvelopeWriter<W>,
    set: &ParameterSet,
    entries: &[CiphertextInfo],
) -> Result<(), FormatError> {
    let mut bytes = Vec::with_capacity(PIECE.min(entries.len()) * ENTRY_BYTES);
    for (piece, entries) in entries.chunks(PIECE).enumerate() {
        bytes.clear();
        for (index, entry) in entries.iter().enumerate() {
            entry.check(set, piece * PIECE + index)?;
            bytes.extend(entry.degree.to_le_bytes());
            bytes.extend(entry.noise_level.to_le_bytes());
        }
        out.write_all(&bytes).map_err(EnvelopeError::from)?;
    }
    Ok(())
}

/// Reads the entries of a list of `count`; memory grows with what has come.
pub(super) fn read<R: Read>(
    input: &mut EnvelopeReader<R>,
    set: &ParameterSet,
    count: usize,
) -> Result<Vec<CiphertextInfo>, FormatError> {
    let mut entries = Vec::new();
    let mut bytes = vec![0; PIECE.min(count) * ENTRY_BYTES];
    while entries.len() < count {
        let bytes = &mut bytes[..PIECE.min(count - entries.len()) * ENTRY_BYTES];
        input.fill(bytes)?;
        for entry in bytes.chunks_exact(ENTRY_BYTES) {
            let number = |at: usize| u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
            let entry = CiphertextInfo { degree: number(0), noise_level: number(4) };
            entry.check(set, entries.len())?;
            entries.push(entry);
        }
    }
    Ok(entries)
}

const ENTRY_BYTES: usize = INFO_BYTES as usize;

/// Entries converted at once.
const PIECE: usize = 1 << 12;
