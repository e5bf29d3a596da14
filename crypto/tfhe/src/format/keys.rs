//! Evaluation keys: the payload holds the bodies, the header holds the seed of the masks.

use std::io::{Read, Write};

use cloakwork_math::{Torus, random::MaskSeed};
use cloakwork_params::{Decomposition, EnvelopeReader, EnvelopeWriter, ObjectKind, ParameterSet, envelope::Dimensions};

use super::{FormatError, WireObject, dimensions, mask_seed, packing::compression_of, words};
use crate::{GgswShape, SeededBootstrapKey, SeededDecompressionKey, SeededKeySwitchKey};

impl<T: Torus> WireObject for SeededBootstrapKey<T> {
    const KIND: ObjectKind = ObjectKind::SeededBootstrapKey;

    fn dimensions(&self) -> Result<Dimensions, FormatError> {
        let shape = self.shape();
        dimensions([
            ("GGSW ciphertexts", self.ggsw_count()),
            ("GLWE dimension", shape.glwe_dimension),
            ("polynomial size", shape.polynomial_size),
            ("log2 of the base", shape.gadget.base_log as usize),
            ("levels", shape.gadget.levels),
            ("log2 of the modulus", T::BITS as usize),
        ])
    }

    fn seed(&self) -> Option<MaskSeed> {
        Some(*SeededBootstrapKey::seed(self))
    }

    fn write_payload<W: Write>(&self, _: &ParameterSet, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError> {
        words::write(out, T::BITS, self.bodies())
    }

    fn read_payload<R: Read>(set: &ParameterSet, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError> {
        read_ggsws(set, set.bootstrap, set.ggsw_count(), input)
    }
}

impl WireObject for SeededDecompressionKey {
    const KIND: ObjectKind = ObjectKind::SeededDecompressionKey;

    fn dimensions(&self) -> Result<Dimensions, FormatError> {
        self.0.dimensions()
    }

    fn seed(&self) -> Option<MaskSeed> {
        WireObject::seed(&self.0)
    }

    fn write_payload<W: Write>(&self, set: &ParameterSet, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError> {
        self.0.write_payload(set, out)
    }

    fn read_payload<R: Read>(set: &ParameterSet, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError> {
        let packed = compression_of(set)?;
        Ok(Self(read_ggsws(set, packed.bootstrap, packed.packing_dimension(), input)?))
    }
}

/// Reads `count` seeded GGSW ciphertexts under the big key of `set`.
fn read_ggsws<T: Torus, R: Read>(
    set: &ParameterSet,
    gadget: Decomposition,
    count: usize,
    input: &mut EnvelopeReader<R>,
) -> Result<SeededBootstrapKey<T>, FormatError> {
    let shape = GgswShape::of_set(set, gadget);
    let bodies = words::read(input, words::modulus_of_set(set), count * shape.body_words())?;
    Ok(SeededBootstrapKey::new(shape, count, mask_seed(input), bodies)?)
}

impl<S: Torus> WireObject for SeededKeySwitchKey<S> {
    const KIND: ObjectKind = ObjectKind::SeededKeySwitchKey;

    fn dimensions(&self) -> Result<Dimensions, FormatError> {
        dimensions([
            ("input dimension", self.input_dimension()),
            ("output dimension", self.output_dimension()),
            ("log2 of the base", self.gadget().base_log as usize),
            ("levels", self.gadget().levels),
            ("log2 of the modulus", self.modulus_log2() as usize),
        ])
    }

    fn seed(&self) -> Option<MaskSeed> {
        Some(*SeededKeySwitchKey::seed(self))
    }

    fn write_payload<W: Write>(&self, _: &ParameterSet, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError> {
        words::write(out, self.modulus_log2(), self.bodies())
    }

    fn read_payload<R: Read>(set: &ParameterSet, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError> {
        let (input_dimension, gadget, modulus_log2) = (set.big_dimension(), set.key_switch, set.small_modulus_log2);
        let bodies = words::read(input, modulus_log2, input_dimension * gadget.levels)?;
        Ok(Self::new(input_dimension, set.lwe_dimension, gadget, modulus_log2, mask_seed(input), bodies)?)
    }
}
