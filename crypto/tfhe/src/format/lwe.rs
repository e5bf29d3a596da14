//! Lists of LWE ciphertexts.

use std::io::{Read, Write};

use cloakwork_math::{Torus, random::MaskSeed};
use cloakwork_params::{EnvelopeReader, EnvelopeWriter, ObjectKind, ParameterSet, envelope::Dimensions};

use super::{CiphertextInfo, FormatError, WireObject, dimensions, info, words};
use crate::{LweList, ShapeError};

/// LWE ciphertexts under the key that a set's ciphertexts live under, with the bookkeeping of each.
#[derive(Clone, Debug, PartialEq)]
pub struct CiphertextList<T> {
    list: LweList<T>,
    info: Vec<CiphertextInfo>,
}

impl<T: Torus> CiphertextList<T> {
    /// Checks that there is one entry for each ciphertext.
    pub fn new(list: LweList<T>, info: Vec<CiphertextInfo>) -> Result<Self, ShapeError> {
        ShapeError::check("bookkeeping entries of a ciphertext list", list.len(), info.len())?;
        Ok(Self { list, info })
    }

    /// The ciphertexts.
    pub fn list(&self) -> &LweList<T> {
        &self.list
    }

    /// Their bookkeeping, in the same order.
    pub fn info(&self) -> &[CiphertextInfo] {
        &self.info
    }

    /// Both halves.
    pub fn into_parts(self) -> (LweList<T>, Vec<CiphertextInfo>) {
        (self.list, self.info)
    }
}

impl<T: Torus> WireObject for CiphertextList<T> {
    const KIND: ObjectKind = ObjectKind::LweList;

    fn dimensions(&self) -> Result<Dimensions, FormatError> {
        dimensions([
            ("ciphertexts", self.list.len()),
            ("LWE dimension", self.list.dimension()),
            ("log2 of the modulus", T::BITS as usize),
        ])
    }

    fn seed(&self) -> Option<MaskSeed> {
        None
    }

    fn write_payload<W: Write>(&self, set: &ParameterSet, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError> {
        info::write(out, set, &self.info)?;
        words::write(out, T::BITS, self.list.words())
    }

    fn read_payload<R: Read>(set: &ParameterSet, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError> {
        let count = input.header().dimensions[0] as usize;
        let info = info::read(input, set, count)?;
        let dimension = set.input_dimension();
        let words = words::read(input, words::modulus_of_set(set), count * (dimension + 1))?;
        Ok(Self { list: LweList::from_words(dimension, words)?, info })
    }
}
