//! Ciphertexts: the header holds level, slots and scale, the payload holds body and mask.

use std::io::{Read, Write};

use cloakwork_math::random::MaskSeed;
use cloakwork_params::{
    EnvelopeReader, EnvelopeWriter, ObjectKind,
    ckks::{CkksSet, layout::CiphertextShape},
    envelope::Dimensions,
};

use super::{FormatError, WireObject, mask_seed, residues};
use crate::{ciphertext::Ciphertext, poly::Basis, ring::Ring, seeded_ciphertext::SeededCiphertext};

impl WireObject for Ciphertext {
    const KIND: ObjectKind = ObjectKind::CkksCiphertext;

    fn dimensions(&self, set: &CkksSet) -> Result<Dimensions, FormatError> {
        let shape = CiphertextShape { level: self.level(), slots_log2: self.slots_log2, scale: self.scale };
        Ok(shape.to_dimensions(set)?)
    }

    fn seed(&self) -> Option<MaskSeed> {
        None
    }

    fn write_payload<W: Write>(&self, ring: &Ring, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError> {
        let basis = Basis::of_level(self.level());
        self.polys.iter().try_for_each(|poly| residues::write(out, ring, basis, poly))
    }

    fn read_payload<R: Read>(ring: &Ring, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError> {
        let CiphertextShape { level, slots_log2, scale } = CiphertextShape::of(ring.set(), &input.header().dimensions)?;
        let basis = Basis::of_level(level);
        let polys = [residues::read(input, ring, ring.blank(basis))?, residues::read(input, ring, ring.blank(basis))?];
        Ok(Self { polys, scale, slots_log2 })
    }
}

impl WireObject for SeededCiphertext {
    const KIND: ObjectKind = ObjectKind::SeededCkksCiphertext;

    fn dimensions(&self, set: &CkksSet) -> Result<Dimensions, FormatError> {
        let shape = CiphertextShape { level: self.level(), slots_log2: self.slots_log2, scale: self.scale };
        Ok(shape.to_dimensions(set)?)
    }

    fn seed(&self) -> Option<MaskSeed> {
        Some(self.seed)
    }

    fn write_payload<W: Write>(&self, ring: &Ring, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError> {
        residues::write(out, ring, Basis::of_level(self.level()), &self.body)
    }

    fn read_payload<R: Read>(ring: &Ring, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError> {
        let CiphertextShape { level, slots_log2, scale } = CiphertextShape::of(ring.set(), &input.header().dimensions)?;
        let (seed, body) = (mask_seed(input), residues::read(input, ring, ring.blank(Basis::of_level(level)))?);
        Ok(Self { body, seed, scale, slots_log2 })
    }
}
