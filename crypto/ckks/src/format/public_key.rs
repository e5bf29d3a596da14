//! Public keys: the payload holds the body, the header holds the seed of the mask.

use std::io::{Read, Write};

use cloakwork_math::random::MaskSeed;
use cloakwork_params::{
    EnvelopeReader, EnvelopeWriter, ObjectKind,
    ckks::{CkksSet, layout::public_key_dimensions},
    envelope::Dimensions,
};

use super::{FormatError, WireObject, mask_seed, residues};
use crate::{poly::Basis, ring::Ring, seeded_public_key::SeededPublicKey};

impl WireObject for SeededPublicKey {
    const KIND: ObjectKind = ObjectKind::SeededCkksPublicKey;

    fn dimensions(&self, set: &CkksSet) -> Result<Dimensions, FormatError> {
        Ok(public_key_dimensions(set))
    }

    fn seed(&self) -> Option<MaskSeed> {
        Some(self.seed)
    }

    fn write_payload<W: Write>(&self, ring: &Ring, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError> {
        residues::write(out, ring, basis(ring), &self.body)
    }

    fn read_payload<R: Read>(ring: &Ring, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError> {
        let (seed, body) = (mask_seed(input), residues::read(input, ring, ring.blank(basis(ring)))?);
        Ok(Self { body, seed })
    }
}

fn basis(ring: &Ring) -> Basis {
    Basis::of_level(ring.set().working_level)
}
