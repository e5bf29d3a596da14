//! Compressed lists and the packing key that makes them.

use std::io::{Read, Write};

use cloakwork_math::{Torus, random::MaskSeed};
use cloakwork_params::{
    CompressionSet, EnvelopeError, EnvelopeReader, EnvelopeWriter, ObjectKind, ParameterSet, envelope::Dimensions,
    table,
};

use super::{FormatError, ListForm, WireObject, dimensions, mask_seed, words};
use crate::{CompressedList, SeededPackingKey};

impl ListForm for CompressedList {
    const KIND: ObjectKind = ObjectKind::CompressedGlweList;

    fn count(&self) -> usize {
        self.len()
    }

    fn dimensions(&self) -> Result<Dimensions, FormatError> {
        let set = self.set();
        dimensions([
            ("ciphertexts", self.len()),
            ("compression set", usize::from(set.id.0)),
            ("packing GLWE dimension", set.packing_glwe_dimension),
            ("packing polynomial size", set.packing_polynomial_size),
            ("ciphertexts per GLWE", set.lwe_per_glwe),
            ("log2 of the storage modulus", set.storage_modulus_log2 as usize),
        ])
    }

    fn seed(&self) -> Option<MaskSeed> {
        None
    }

    fn write<W: Write>(&self, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError> {
        let mut words = self.words();
        for bits in packed_bits(self.set(), self.len()) {
            let (packed, rest) = words.split_at(bits.div_ceil(64));
            check_unused(bits, packed, self.words().len() - words.len())?;
            words = rest;
        }
        words::write(out, 64, self.words())
    }

    fn read<R: Read>(set: &ParameterSet, count: usize, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError> {
        let set = compression_of(set)?;
        let mut words: Vec<u64> = Vec::new();
        for bits in packed_bits(set, count) {
            let packed: Vec<u64> = words::read(input, 64, bits.div_ceil(64))?;
            check_unused(bits, &packed, words.len())?;
            words.extend(packed);
        }
        Ok(Self::from_words(set, count, words)?)
    }
}

/// Number of bits in use of each packed ciphertext of a list.
fn packed_bits(set: &CompressionSet, count: usize) -> impl Iterator<Item = usize> {
    let bits = |bodies| (set.packing_dimension() + bodies) * set.storage_modulus_log2 as usize;
    let rest = count % set.lwe_per_glwe;
    let full = std::iter::repeat_n(bits(set.lwe_per_glwe), count / set.lwe_per_glwe);
    full.chain((rest > 0).then_some(bits(rest)))
}

/// Checks that the bits after the last value are zero. `start` is the word index of the packed
/// ciphertext in the payload.
fn check_unused(bits: usize, packed: &[u64], start: usize) -> Result<(), FormatError> {
    let used = bits % 64;
    match packed.last() {
        Some(last) if used != 0 && last >> used != 0 => {
            let index = (start + packed.len() - 1) as u64;
            Err(FormatError::UnusedBitsNotZero { index, used: used as u32 })
        }
        _ => Ok(()),
    }
}

impl<T: Torus> WireObject for SeededPackingKey<T> {
    const KIND: ObjectKind = ObjectKind::SeededPackingKey;

    fn dimensions(&self) -> Result<Dimensions, FormatError> {
        dimensions([
            ("input dimension", self.input_dimension()),
            ("packing GLWE dimension", self.glwe_dimension()),
            ("packing polynomial size", self.polynomial_size()),
            ("log2 of the base", self.gadget().base_log as usize),
            ("levels", self.gadget().levels),
            ("log2 of the modulus", T::BITS as usize),
        ])
    }

    fn seed(&self) -> Option<MaskSeed> {
        Some(*SeededPackingKey::seed(self))
    }

    fn write_payload<W: Write>(&self, _: &ParameterSet, out: &mut EnvelopeWriter<W>) -> Result<(), FormatError> {
        words::write(out, T::BITS, self.bodies())
    }

    fn read_payload<R: Read>(set: &ParameterSet, input: &mut EnvelopeReader<R>) -> Result<Self, FormatError> {
        let packed = compression_of(set)?;
        let (k, n) = (packed.packing_glwe_dimension, packed.packing_polynomial_size);
        let words = set.big_dimension() * packed.packing.levels * n;
        let bodies = words::read(input, words::modulus_of_set(set), words)?;
        Ok(Self::new(set.big_dimension(), k, n, packed.packing, mask_seed(input), bodies)?)
    }
}

/// The compression set for ciphertexts of `set`.
pub(super) fn compression_of(set: &ParameterSet) -> Result<&'static CompressionSet, EnvelopeError> {
    let expected = "a set with list compression";
    table::compression_for(set).ok_or(EnvelopeError::WrongParameterSet { expected, got: set.name })
}
