//! Lists of ciphertexts, for every form of ciphertext.

use std::io::{Read, Write};

use cloakwork_math::random::MaskSeed;
use cloakwork_params::{EnvelopeReader, EnvelopeWriter, ObjectKind, ParameterSet, envelope::Dimensions};

use super::{CiphertextInfo, FormatError, WireObject, info};
use crate::ShapeError;

/// Ciphertexts of a set, with a bookkeeping entry for each.
#[derive(Clone, Debug, PartialEq)]
pub struct CiphertextList<L> {
    list: L,
    info: Vec<CiphertextInfo>,
}

/// A form of a list of ciphertexts on the wire.
pub trait ListForm: Sized {
    /// Kind of the list in the envelope's header.
    const KIND: ObjectKind;

    /// Number of ciphertexts.
    fn count(&self) -> usize;

    /// Dimensions of the list, in the order of the kind's layout.
    fn dimensions(&self) -> Result<Dimensions, FormatError>;

    /// Start of the mask stream, for seeded kinds.
    fn seed(&self) -> Option<MaskSeed>;

    /// Writes the part of the payload that follows the bookkeeping entries.
    fn write<W: Write>(&self, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError>;

    /// Reads the part of the payload that follows the bookkeeping entries of `count` ciphertexts.
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

    /// The bookkeeping entries, in the order of the ciphertexts.
    pub fn info(&self) -> &[CiphertextInfo] {
        &self.info
    }

    /// The ciphertexts and their bookkeeping entries.
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
