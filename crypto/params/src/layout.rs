//! Dimensions and payload length of each kind, with one match arm per kind.
//!
//! All dimensions except the counts of lists follow from the parameter set. A header is therefore
//! checked against the table before any allocation that depends on it. Encoders pass through the
//! equivalent check.

use crate::{
    any_set::AnySet,
    ckks,
    envelope::{DIMENSIONS, Dimensions, EnvelopeError, Header},
    kind::{KeyId, ObjectKind},
    set::{CompressionSet, Decomposition, ParameterSet},
    table,
};

/// Known properties of an object, which its header must match.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected {
    /// Parameter set of the object.
    pub set: Option<&'static ParameterSet>,
    /// The key under which the object was made. Lookup tables belong to no key.
    pub key_id: Option<KeyId>,
}

/// Bytes of a list's properties of each ciphertext, degree and noise level, which precede the
/// ciphertexts.
pub const INFO_BYTES: u64 = 8;

/// The dimensions of one object and the length of its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Name and value of each dimension of the kind.
    pub dimensions: Vec<(&'static str, u64)>,
    /// Bytes of the payload.
    pub payload_len: u64,
}

/// Checks all of a header except the kind's own payload, and returns the parameter set.
pub fn conform(header: &Header, kind: ObjectKind, expected: &Expected) -> Result<&'static ParameterSet, EnvelopeError> {
    if header.kind != kind {
        return Err(EnvelopeError::WrongKind { expected: kind, got: header.kind });
    }
    let set = table::find(header.set).ok_or(EnvelopeError::UnknownParameterSet { got: header.set })?;
    if let Some(wanted) = expected.set.filter(|wanted| wanted.id != set.id) {
        return Err(EnvelopeError::WrongParameterSet { expected: wanted.name, got: set.name });
    }
    let wanted = if kind == ObjectKind::Lut { Some(KeyId::NONE) } else { expected.key_id };
    if let Some(wanted) = wanted.filter(|wanted| *wanted != header.key_id) {
        return Err(EnvelopeError::WrongKeyId { expected: wanted, got: header.key_id });
    }
    let layout = Layout::of(kind, set, &header.dimensions)?;
    layout.check(&header.dimensions)?;
    if layout.payload_len != header.payload_len {
        return Err(EnvelopeError::WrongPayloadLength { expected: layout.payload_len, got: header.payload_len });
    }
    Ok(set)
}

/// Like [`conform`], for an object of either scheme without known properties. Servers use this
/// function for headers.
pub fn conform_any(header: &Header) -> Result<AnySet, EnvelopeError> {
    if header.kind.is_ckks() {
        ckks::layout::conform(header, header.kind, &ckks::layout::Expected::default()).map(AnySet::Ckks)
    } else {
        conform(header, header.kind, &Expected::default()).map(AnySet::Tfhe)
    }
}

impl Layout {
    /// The layout of an object of `set`. Of `given`, only the count of a list is used.
    pub fn of(kind: ObjectKind, set: &ParameterSet, given: &Dimensions) -> Result<Self, EnvelopeError> {
        let shape = Shape::of(set);
        let count = u64::from(given[0]);
        // No product below can overflow: counts are below 2^32, and all other factors come from the
        // table.
        let (dimensions, payload_len) = match kind {
            ObjectKind::LweList => {
                (shape.list(count), count * (INFO_BYTES + (shape.input_dimension + 1) * shape.word_bytes))
            }
            ObjectKind::SeededLweList => (shape.list(count), count * (INFO_BYTES + shape.word_bytes)),
            ObjectKind::CompactList => {
                let masks = count.div_ceil(shape.compact_dimension(set)?) * shape.input_dimension;
                (shape.list(count), count * (INFO_BYTES + shape.word_bytes) + masks * shape.word_bytes)
            }
            ObjectKind::CompressedGlweList => {
                let packed = compression_of(set)?;
                let full = count / packed.lwe_per_glwe as u64;
                let rest = count % packed.lwe_per_glwe as u64;
                let words = full * packed_words(packed, packed.lwe_per_glwe as u64) + packed_words(packed, rest);
                let dimensions = vec![
                    ("ciphertexts", count),
                    ("compression set", u64::from(packed.id.0)),
                    ("packing GLWE dimension", packed.packing_glwe_dimension as u64),
                    ("packing polynomial size", packed.packing_polynomial_size as u64),
                    ("ciphertexts per GLWE", packed.lwe_per_glwe as u64),
                    ("log2 of the storage modulus", u64::from(packed.storage_modulus_log2)),
                ];
                (dimensions, count * INFO_BYTES + words * 8)
            }
            ObjectKind::Lut => {
                let dimensions = vec![
                    ("outputs", count),
                    ("polynomial size", set.polynomial_size as u64),
                    ("log2 of the modulus", shape.modulus_log2),
                ];
                (dimensions, count * 8 + set.polynomial_size as u64 * shape.word_bytes)
            }
            ObjectKind::SeededBootstrapKey => {
                let dimensions = shape.ggsws(set, set.ggsw_count(), set.bootstrap);
                let words = set.ggsw_count() * set.bootstrap.levels * set.glwe_size() * set.polynomial_size;
                (dimensions, words as u64 * shape.word_bytes)
            }
            ObjectKind::SeededDecompressionKey => {
                let packed = compression_of(set)?;
                let dimensions = shape.ggsws(set, packed.packing_dimension(), packed.bootstrap);
                let words =
                    packed.packing_dimension() * packed.bootstrap.levels * set.glwe_size() * set.polynomial_size;
                (dimensions, words as u64 * shape.word_bytes)
            }
            ObjectKind::SeededKeySwitchKey => {
                let dimensions = vec![
                    ("input dimension", set.big_dimension() as u64),
                    ("output dimension", set.lwe_dimension as u64),
                    ("log2 of the base", u64::from(set.key_switch.base_log)),
                    ("levels", set.key_switch.levels as u64),
                    ("log2 of the modulus", u64::from(set.small_modulus_log2)),
                ];
                let small_word_bytes = u64::from(set.small_word_bits() / 8);
                (dimensions, (set.big_dimension() * set.key_switch.levels) as u64 * small_word_bytes)
            }
            ObjectKind::SeededPackingKey => {
                let packed = compression_of(set)?;
                let dimensions = vec![
                    ("input dimension", set.big_dimension() as u64),
                    ("packing GLWE dimension", packed.packing_glwe_dimension as u64),
                    ("packing polynomial size", packed.packing_polynomial_size as u64),
                    ("log2 of the base", u64::from(packed.packing.base_log)),
                    ("levels", packed.packing.levels as u64),
                    ("log2 of the modulus", shape.modulus_log2),
                ];
                let words = set.big_dimension() * packed.packing.levels * packed.packing_polynomial_size;
                (dimensions, words as u64 * shape.word_bytes)
            }
            ObjectKind::CompactPublicKey => {
                let dimension = shape.compact_dimension(set)?;
                let dimensions = vec![("LWE dimension", dimension), ("log2 of the modulus", shape.modulus_log2)];
                (dimensions, dimension * shape.word_bytes)
            }
            ObjectKind::CkksCiphertext
            | ObjectKind::SeededCkksCiphertext
            | ObjectKind::SeededCkksSwitchKey
            | ObjectKind::SeededCkksPublicKey => {
                return Err(EnvelopeError::WrongParameterSet { expected: "a set of CKKS", got: set.name });
            }
            // The client alone defines the layout of its keys.
            ObjectKind::ClientKey | ObjectKind::CkksClientKey => {
                return Err(EnvelopeError::SecretKeyRefused { got: kind.number() });
            }
        };
        Ok(Self { dimensions, payload_len })
    }

    /// Compares `given` with the layout, dimension by dimension.
    pub fn check(&self, given: &Dimensions) -> Result<(), EnvelopeError> {
        for index in 0..DIMENSIONS {
            let (which, expected) = self.dimensions.get(index).copied().unwrap_or(("unused dimension", 0));
            let got = u64::from(given[index]);
            if expected != got {
                return Err(EnvelopeError::WrongDimension { which, expected, got });
            }
        }
        Ok(())
    }
}

/// Parameters of a set that several kinds share.
struct Shape {
    input_dimension: u64,
    modulus_log2: u64,
    word_bytes: u64,
}

impl Shape {
    fn of(set: &ParameterSet) -> Self {
        let modulus_log2 = u64::from(set.torus.bits());
        Self { input_dimension: set.input_dimension() as u64, modulus_log2, word_bytes: modulus_log2 / 8 }
    }

    fn list(&self, count: u64) -> Vec<(&'static str, u64)> {
        vec![
            ("ciphertexts", count),
            ("LWE dimension", self.input_dimension),
            ("log2 of the modulus", self.modulus_log2),
        ]
    }

    fn ggsws(&self, set: &ParameterSet, count: usize, gadget: Decomposition) -> Vec<(&'static str, u64)> {
        vec![
            ("GGSW ciphertexts", count as u64),
            ("GLWE dimension", set.glwe_dimension as u64),
            ("polynomial size", set.polynomial_size as u64),
            ("log2 of the base", u64::from(gadget.base_log)),
            ("levels", gadget.levels as u64),
            ("log2 of the modulus", self.modulus_log2),
        ]
    }

    /// Shared masks are rotated as polynomials, which requires a key whose length is a power of
    /// two.
    fn compact_dimension(&self, set: &ParameterSet) -> Result<u64, EnvelopeError> {
        let expected = "a set whose ciphertexts have a power of two as dimension";
        match self.input_dimension.is_power_of_two() {
            true => Ok(self.input_dimension),
            false => Err(EnvelopeError::WrongParameterSet { expected, got: set.name }),
        }
    }
}

fn compression_of(set: &ParameterSet) -> Result<&'static CompressionSet, EnvelopeError> {
    let expected = "a set with list compression";
    table::compression_for(set).ok_or(EnvelopeError::WrongParameterSet { expected, got: set.name })
}

/// 64-bit words of one compressed GLWE ciphertext: its masks and `bodies` coefficients, packed
/// without gaps between bits.
fn packed_words(packed: &CompressionSet, bodies: u64) -> u64 {
    if bodies == 0 {
        return 0;
    }
    ((packed.packing_dimension() as u64 + bodies) * u64::from(packed.storage_modulus_log2)).div_ceil(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_lengths_do_not_overflow_and_keys_ignore_header_counts() {
        for set in table::SETS {
            for kind in ObjectKind::all() {
                let Ok(layout) = Layout::of(kind, set, &[u32::MAX; DIMENSIONS]) else { continue };
                assert!(layout.payload_len < 1 << 60, "{kind} of {}", set.name);
                assert!(layout.dimensions.len() <= DIMENSIONS);
                assert!(layout.dimensions.iter().all(|(_, value)| *value <= u64::from(u32::MAX)));
                assert!(layout.check(&[u32::MAX; DIMENSIONS]).is_err());
            }
        }
    }

    #[test]
    fn lengths_of_known_objects() {
        // Seeded 2_2 keys, from the facts sheet of tfhe-rs, and one ciphertext with its eight
        // bytes.
        let set = table::by_name("V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128").expect("a row");
        let bytes = |kind, count: u32| {
            Layout::of(kind, set, &[count, 0, 0, 0, 0, 0, 0, 0]).expect("the set has the kind").payload_len
        };
        assert_eq!(bytes(ObjectKind::SeededBootstrapKey, 0), 30_081_024);
        assert_eq!(bytes(ObjectKind::SeededKeySwitchKey, 0), 65_536);
        assert_eq!(bytes(ObjectKind::LweList, 1), 16_392 + 8);
        assert_eq!(bytes(ObjectKind::SeededPackingKey, 0), 2048 * 3 * 256 * 8);
        // 256 ciphertexts: (1024 + 256) 12-bit numbers in 240 words. 257 ciphertexts: one more GLWE
        // ciphertext of 1025 numbers.
        assert_eq!(bytes(ObjectKind::CompressedGlweList, 256), 256 * 8 + 240 * 8);
        assert_eq!(bytes(ObjectKind::CompressedGlweList, 257), 257 * 8 + (240 + 193) * 8);
        assert_eq!(bytes(ObjectKind::CompactList, 2049), 2049 * 16 + 2 * 2048 * 8);
    }

    #[test]
    fn kinds_that_a_set_lacks_are_refused() {
        let set = table::by_name("DEFAULT_PARAMETERS").expect("a row");
        for kind in [ObjectKind::CompactList, ObjectKind::CompactPublicKey, ObjectKind::SeededPackingKey] {
            let error = Layout::of(kind, set, &[1; DIMENSIONS]).expect_err("no such object");
            assert!(matches!(error, EnvelopeError::WrongParameterSet { got: "DEFAULT_PARAMETERS", .. }), "{error}");
        }
    }
}
