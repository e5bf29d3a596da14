//! Bookkeeping entries of the ciphertexts of a list, converted in pieces.

use std::io::{Read, Write};

use cloakwork_params::{
    CiphertextInfo, EnvelopeError, EnvelopeReader, EnvelopeWriter, ParameterSet, info::Excess, layout::INFO_BYTES,
};

use super::FormatError;

fn check(entry: &CiphertextInfo, set: &ParameterSet, index: usize) -> Result<(), FormatError> {
    match entry.excess(set) {
        None => Ok(()),
        Some(Excess { what, limit, got }) => {
            Err(FormatError::ValueOutOfRange { what, index: index as u64, limit, got })
        }
    }
}

/// Writes the entries of a list. Entries that `set` does not allow are refused.
pub(super) fn write<W: Write>(
    out: &mut EnvelopeWriter<W>,
    set: &ParameterSet,
    entries: &[CiphertextInfo],
) -> Result<(), FormatError> {
    let mut bytes = Vec::with_capacity(PIECE_ENTRIES.min(entries.len()) * ENTRY_BYTES);
    for (piece, entries) in entries.chunks(PIECE_ENTRIES).enumerate() {
        bytes.clear();
        for (index, entry) in entries.iter().enumerate() {
            check(entry, set, piece * PIECE_ENTRIES + index)?;
            bytes.extend(entry.to_bytes());
        }
        out.write_all(&bytes).map_err(EnvelopeError::from)?;
    }
    Ok(())
}

/// Reads `count` entries of a list. Memory grows with the data received.
pub(super) fn read<R: Read>(
    input: &mut EnvelopeReader<R>,
    set: &ParameterSet,
    count: usize,
) -> Result<Vec<CiphertextInfo>, FormatError> {
    let mut entries = Vec::new();
    let mut bytes = vec![0; PIECE_ENTRIES.min(count) * ENTRY_BYTES];
    while entries.len() < count {
        let bytes = &mut bytes[..PIECE_ENTRIES.min(count - entries.len()) * ENTRY_BYTES];
        input.fill(bytes)?;
        for bytes in bytes.as_chunks().0 {
            let entry = CiphertextInfo::from_bytes(*bytes);
            check(&entry, set, entries.len())?;
            entries.push(entry);
        }
    }
    Ok(entries)
}

const ENTRY_BYTES: usize = INFO_BYTES as usize;

/// Number of entries converted at once.
const PIECE_ENTRIES: usize = 1 << 12;
