//! Inputs of a job: decoded and checked early, and written to the device when a row begins.

use std::{ops::Range, sync::Arc};

use cloakwork_circuit::Input;
use cloakwork_device::{Arena, Device, DeviceError, Words};
use cloakwork_params::{
    CiphertextInfo, EnvelopeError, EnvelopeReader, Expected, KeyId, ObjectKind, ParameterSet, TorusWidth,
};
use cloakwork_tfhe::{
    CompactList, LweList, SeededLweList, Torus,
    format::{CiphertextList, FormatError, ListForm, decode},
};

/// Ciphertexts of one input, block by block and row by row, in the form in which they arrived.
pub(crate) trait Rows: Send {
    /// Expands a range of ciphertexts and writes them to slots.
    fn write(&self, range: Range<usize>, device: &dyn Device, arena: Arena, slots: &[u32]) -> Result<(), DeviceError>;
}

/// Some rows of an input, as if they were all.
pub(crate) struct Picked {
    /// The whole input.
    pub(crate) list: Box<dyn Rows>,
    /// Numbers of the rows, in increasing order.
    pub(crate) rows: Arc<[usize]>,
    /// Ciphertexts of a row.
    pub(crate) blocks: usize,
}

impl Rows for Picked {
    fn write(&self, range: Range<usize>, device: &dyn Device, arena: Arena, slots: &[u32]) -> Result<(), DeviceError> {
        if self.blocks == 0 {
            return Ok(());
        }
        // The engine writes whole rows. Rows that follow one another go in one call.
        let picked = &self.rows[range.start / self.blocks..range.end / self.blocks];
        let mut slots = slots;
        for run in picked.chunk_by(|row, next| row + 1 == *next) {
            let (now, rest) = slots.split_at(run.len() * self.blocks);
            let first = run[0] * self.blocks;
            self.list.write(first..first + now.len(), device, arena, now)?;
            slots = rest;
        }
        Ok(())
    }
}

/// Why an input is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum InputError {
    #[error("{0}")]
    Format(#[from] FormatError),
    #[error("a {0} is not a list of ciphertexts that the program takes here")]
    Kind(ObjectKind),
    #[error("{got} ciphertexts: the job's rows take {expected}")]
    Count { expected: u64, got: u64 },
    #[error("ciphertext {index} has a {what} of {got}: the program takes at most {max}")]
    Bookkeeping { index: usize, what: &'static str, max: u32, got: u32 },
}

/// Decodes an input and checks it against the program's declaration.
pub(crate) fn read(
    bytes: &[u8],
    set: &'static ParameterSet,
    key_id: KeyId,
    rows: u64,
    input: &Input,
) -> Result<Box<dyn Rows>, InputError> {
    let kind = EnvelopeReader::open(bytes).map_err(FormatError::from)?.header().kind;
    let request = Request { bytes, set, key_id, rows, input };
    match set.torus {
        TorusWidth::U32 => request.read::<u32>(kind),
        TorusWidth::U64 => request.read::<u64>(kind),
    }
}

struct Request<'a> {
    bytes: &'a [u8],
    set: &'static ParameterSet,
    key_id: KeyId,
    rows: u64,
    input: &'a Input,
}

impl Request<'_> {
    fn read<T: Wide>(&self, kind: ObjectKind) -> Result<Box<dyn Rows>, InputError> {
        Ok(match kind {
            kind if !self.input.takes(kind) => return Err(InputError::Kind(kind)),
            ObjectKind::LweList => Box::new(self.list::<LweList<T>>()?),
            ObjectKind::SeededLweList => Box::new(self.list::<SeededLweList<T>>()?),
            ObjectKind::CompactList => Box::new(self.list::<CompactList<T>>()?),
            other => return Err(InputError::Kind(other)),
        })
    }

    fn list<L: ListForm>(&self) -> Result<L, InputError> {
        let expected = Expected { set: Some(self.set), key_id: Some(self.key_id) };
        let (list, info) = decode::<CiphertextList<L>>(self.bytes, &expected)?.object.into_parts();
        let (expected, got) = (self.rows.saturating_mul(self.input.row.blocks() as u64), list.count() as u64);
        if got != expected {
            return Err(InputError::Count { expected, got });
        }
        info.iter().enumerate().try_for_each(|(index, info)| self.bookkeeping(index, info))?;
        Ok(list)
    }

    fn bookkeeping(&self, index: usize, info: &CiphertextInfo) -> Result<(), InputError> {
        for (what, max, got) in [
            ("largest value", self.input.degree_max, info.degree),
            ("noise level", self.input.noise_level_max, info.noise_level),
        ] {
            if got > max {
                return Err(InputError::Bookkeeping { index, what, max, got });
            }
        }
        Ok(())
    }
}

impl From<EnvelopeError> for InputError {
    fn from(error: EnvelopeError) -> Self {
        Self::Format(error.into())
    }
}

/// A word type that devices accept.
pub(crate) trait Wide: Torus {
    fn words(words: &[Self]) -> Words<'_>;
}

impl Wide for u32 {
    fn words(words: &[Self]) -> Words<'_> {
        Words::U32(words)
    }
}

impl Wide for u64 {
    fn words(words: &[Self]) -> Words<'_> {
        Words::U64(words)
    }
}

impl<T: Wide> Rows for LweList<T> {
    fn write(&self, range: Range<usize>, device: &dyn Device, arena: Arena, slots: &[u32]) -> Result<(), DeviceError> {
        let words = self.dimension() + 1;
        device.write(arena, slots, T::words(&self.words()[range.start * words..range.end * words]))
    }
}

impl<T: Wide> Rows for SeededLweList<T> {
    fn write(&self, range: Range<usize>, device: &dyn Device, arena: Arena, slots: &[u32]) -> Result<(), DeviceError> {
        device.write(arena, slots, T::words(self.expand_range(range).words()))
    }
}

impl<T: Wide> Rows for CompactList<T> {
    fn write(&self, range: Range<usize>, device: &dyn Device, arena: Arena, slots: &[u32]) -> Result<(), DeviceError> {
        device.write(arena, slots, T::words(self.expand_range(range).words()))
    }
}
