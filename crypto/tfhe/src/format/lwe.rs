//! The forms of a list of LWE ciphertexts, and the public key for encryption.

use std::io::{Read, Write};

use cloakwork_math::{Torus, random::MaskSeed};
use cloakwork_params::{EnvelopeReader, EnvelopeWriter, ObjectKind, ParameterSet, envelope::Dimensions};

use super::{FormatError, ListForm, WireObject, dimensions, mask_seed, words};
use crate::{CompactList, CompactPublicKey, LweList, SeededLweList};

impl<T: Torus> ListForm for LweList<T> {
    const KIND: ObjectKind = ObjectKind::LweList;

    fn count(&self) -> usize {
        self.len()
    }

    fn dimensions(&self) -> Result<Dimensions, FormatError> {
        lwe_dimensions::<T>(self.len(), self.dimension())
    }

    fn seed(&self) -> Option<MaskSeed> {
        None
    }

    fn write<W: Write>(&self, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError> {
        words::write(out, T::BITS, self.words())
    }

    fn read<R: Read>(set: &ParameterSet, count: usize, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError> {
        let dimension = set.input_dimension();
        let words = words::read(input, words::modulus_of_set(set), count * (dimension + 1))?;
        Ok(Self::from_words(dimension, words)?)
    }
}

impl<T: Torus> ListForm for SeededLweList<T> {
    const KIND: ObjectKind = ObjectKind::SeededLweList;

    fn count(&self) -> usize {
        self.len()
    }

    fn dimensions(&self) -> Result<Dimensions, FormatError> {
        lwe_dimensions::<T>(self.len(), self.dimension())
    }

    fn seed(&self) -> Option<MaskSeed> {
        Some(*SeededLweList::seed(self))
    }

    fn write<W: Write>(&self, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError> {
        words::write(out, T::BITS, self.bodies())
    }

    fn read<R: Read>(set: &ParameterSet, count: usize, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError> {
        let bodies = words::read(input, words::modulus_of_set(set), count)?;
        Ok(Self::new(set.input_dimension(), mask_seed(input), bodies)?)
    }
}

impl<T: Torus> ListForm for CompactList<T> {
    const KIND: ObjectKind = ObjectKind::CompactList;

    fn count(&self) -> usize {
        self.len()
    }

    fn dimensions(&self) -> Result<Dimensions, FormatError> {
        lwe_dimensions::<T>(self.len(), self.dimension())
    }

    fn seed(&self) -> Option<MaskSeed> {
        None
    }

    fn write<W: Write>(&self, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError> {
        words::write(out, T::BITS, self.masks())?;
        words::write(out, T::BITS, self.bodies())
    }

    fn read<R: Read>(set: &ParameterSet, count: usize, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError> {
        let (dimension, modulus_log2) = (set.input_dimension(), words::modulus_of_set(set));
        let masks = words::read(input, modulus_log2, count.next_multiple_of(dimension))?;
        let bodies = words::read(input, modulus_log2, count)?;
        Ok(Self::new(dimension, masks, bodies)?)
    }
}

impl<T: Torus> WireObject for CompactPublicKey<T> {
    const KIND: ObjectKind = ObjectKind::CompactPublicKey;

    fn dimensions(&self) -> Result<Dimensions, FormatError> {
        dimensions([("LWE dimension", self.dimension()), ("log2 of the modulus", T::BITS as usize)])
    }

    fn seed(&self) -> Option<MaskSeed> {
        Some(*CompactPublicKey::seed(self))
    }

    fn write_payload<W: Write>(&self, _: &ParameterSet, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError> {
        words::write(out, T::BITS, self.body())
    }

    fn read_payload<R: Read>(set: &ParameterSet, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError> {
        let body = words::read(input, words::modulus_of_set(set), set.input_dimension())?;
        Ok(Self::new(mask_seed(input), body)?)
    }
}

/// Dimensions that all lists of LWE ciphertexts have.
fn lwe_dimensions<T: Torus>(count: usize, dimension: usize) -> Result<Dimensions, FormatError> {
    dimensions([("ciphertexts", count), ("LWE dimension", dimension), ("log2 of the modulus", T::BITS as usize)])
}
