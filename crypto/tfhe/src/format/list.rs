//! Lists of ciphertexts, whatever form the ciphertexts have.

use std::io::{Read, Write};

use cloakwork_math::random::MaskSeed;
use cloakwork_params::{EnvelopeReader, EnvelopeWriter, ObjectKind, ParameterSet, envelope::Dimensions};

use super::{CiphertextInfo, FormatError, WireObject, info};
use crate::ShapeError;

/// Ciphertexts of a set, with the bookkeeping of each.
#[derive(Clone, Debug, PartialEq)]
pub struct CiphertextList<L> {
    list: L,
    info: Vec<CiphertextInfo>,
}

/// A form that lists of ciphertexts travel in.
pub trait ListForm: Sized {
    /// What the envelope calls it.
    const KIND: ObjectKind;

    /// Number of ciphertexts.
    fn count(&self) -> usize;

    /// The list's numbers, in the order of the kind's layout.
    fn dimensions(&self) -> Result<Dimensions, FormatError>;

    /// Where its mask stream starts, in seeded kinds.
    fn seed(&self) -> Option<MaskSeed>;

    /// Writes what follows the bookkeeping.
    fn write<W: Write>(&self, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError>;

    /// Reads what follows the bookkeeping of `count` ciphertexts.
    fn read<R: Read>(set: &ParameterSet, count: usize, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError>;
}

impl<L: ListForm> CiphertextList<L> {
    /// Checks that there is one entry for each ciphertext.
    pub fn new(list: L, info: Vec<CiphertextInfo>) -> Result<Self, ShapeError> {
        ShapeError::check("bookkeeping entries of a ciphertext list", list.count(), info.len())?;
        Ok(Self { list, info })
    }

    /// The ciphertexts.
    pub fn list(&self) -> &L {
        &self.list
    }

    /// Their bookkeeping, in the same order.
    pub fn info(&self) -> &[CiphertextInfo] {
        &self.info
    }

    /// Both halves.
    pub fn into_parts(self) -> (L, Vec<CiphertextInfo>) {
        (self.list, self.info)
    }
}

impl<L: ListForm> WireObject for CiphertextList<L> {
    const KIND: ObjectKind = L::KIND;

    fn dimensions(&self) -> Result<Dimensions, FormatError> {
        self.list.dimensions()
    }

    fn seed(&self) -> Option<MaskSeed> {
        self.list.seed()
    }

    fn write_payload<W: Write>(&self, set: &ParameterSet, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError> {
        info::write(out, set, &self.info)?;
        self.list.write(out)
    }

    fn read_payload<R: Read>(set: &ParameterSet, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError> {
        let count = input.header().dimensions[0] as usize;
        let info = info::read(input, set, count)?;
        Ok(Self { list: L::read(set, count, input)?, info })
    }
}
