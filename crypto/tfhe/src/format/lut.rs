//! Lookup tables. A table belongs to no key.

use std::io::{Read, Write};

use cloakwork_math::{Torus, random::MaskSeed};
use cloakwork_params::{EnvelopeReader, EnvelopeWriter, ObjectKind, ParameterSet, envelope::Dimensions};

use super::{FormatError, WireObject, dimensions, words};
use crate::Lut;

impl<T: Torus> WireObject for Lut<T> {
    const KIND: ObjectKind = ObjectKind::Lut;

    fn dimensions(&self) -> Result<Dimensions, FormatError> {
        dimensions([
            ("outputs", self.outputs().len()),
            ("polynomial size", self.body().len()),
            ("log2 of the modulus", T::BITS as usize),
        ])
    }

    fn seed(&self) -> Option<MaskSeed> {
        None
    }

    fn write_payload<W: Write>(&self, _: &ParameterSet, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError> {
        let outputs: Vec<u64> = self.outputs().iter().map(|output| *output as u64).collect();
        words::write(out, u64::BITS, &outputs)?;
        words::write(out, T::BITS, self.body())
    }

    fn read_payload<R: Read>(set: &ParameterSet, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError> {
        let count = input.header().dimensions[0] as usize;
        let limit = set.polynomial_size as u64;
        if count as u64 > limit {
            return Err(FormatError::ValueOutOfRange { what: "outputs", index: 0, limit, got: count as u64 });
        }
        let outputs: Vec<u64> = words::read(input, u64::BITS, count)?;
        let body = words::read(input, words::modulus_of_set(set), set.polynomial_size)?;
        Ok(Self::from_parts(body, outputs.into_iter().map(|output| output as usize).collect())?)
    }
}
