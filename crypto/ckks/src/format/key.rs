//! Parts of a client's keys. The header holds the purpose of a part and the seed of its masks, the
//! payload holds its bodies.

use std::io::{Read, Write};

use cloakwork_math::random::MaskSeed;
use cloakwork_params::{
    EnvelopeReader, EnvelopeWriter, ObjectKind,
    ckks::{CkksSet, layout::KeyShape},
    envelope::Dimensions,
};

use super::{FormatError, WireObject, mask_seed, residues};
use crate::{
    error::CkksError,
    key::{Gadget, SeededSwitchKey},
    parts::KeyPart,
    poly::Basis,
    ring::Ring,
};

impl WireObject for KeyPart {
    const KIND: ObjectKind = ObjectKind::SeededCkksSwitchKey;

    fn dimensions(&self, set: &CkksSet) -> Result<Dimensions, FormatError> {
        let (shape, SeededSwitchKey { basis, gadget, bodies, .. }) = (self.shape(), &self.key);
        let dimensions = shape.to_dimensions(set)?;
        if (basis.special, *gadget, bodies.len()) != (shape.special(set), gadget_of(shape), shape.bodies(set)) {
            return Err(
                CkksError::MalformedKey { what: "its special primes, gadget or parts do not fit its purpose" }.into()
            );
        }
        Ok(dimensions)
    }

    fn seed(&self) -> Option<MaskSeed> {
        Some(self.key.seed)
    }

    fn write_payload<W: Write>(&self, ring: &Ring, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError> {
        self.key.bodies.iter().try_for_each(|body| residues::write(out, ring, self.key.basis, body))
    }

    fn read_payload<R: Read>(ring: &Ring, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError> {
        let shape = KeyShape::of(ring.set(), &input.header().dimensions)?;
        let basis = Basis { level: shape.level, special: shape.special(ring.set()) };
        let bodies = (0..shape.bodies(ring.set())).map(|_| residues::read(input, ring, ring.blank_to_keep(basis)));
        let bodies = bodies.collect::<Result<_, _>>()?;
        let key = SeededSwitchKey { basis, gadget: gadget_of(shape), seed: mask_seed(input), bodies };
        Ok(Self { purpose: shape.purpose, key })
    }
}

fn gadget_of(shape: KeyShape) -> Gadget {
    if shape.is_whole() { Gadget::Whole } else { Gadget::Digits }
}
