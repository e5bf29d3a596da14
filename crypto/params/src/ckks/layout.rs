//! Dimensions and payload length of each kind of CKKS object.
//!
//! A server decides by the header alone. The header gives purpose and highest level of a key, or
//! level, slots and scale of a ciphertext. Each number is checked against the parameter set before
//! any allocation that depends on it.

use std::fmt;

use super::CkksSet;
use crate::{
    envelope::{Dimensions, EnvelopeError, Header},
    kind::{KeyId, ObjectKind},
    table,
};

/// Known properties of an object, which its header must match.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected {
    /// Parameter set of the object.
    pub set: Option<&'static CkksSet>,
    /// The key under which the object was made.
    pub key_id: Option<KeyId>,
}

/// The parameters of a ciphertext.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CiphertextShape {
    /// The level, up to the set's working level.
    pub level: usize,
    /// log2 of the number of slots.
    pub slots_log2: u32,
    /// The factor by which the numbers are multiplied.
    pub scale: f64,
}

/// The parameters of a key from one secret to another. The purpose determines the special primes
/// and the split into digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyShape {
    /// Purpose of the key.
    pub purpose: Purpose,
    /// Highest level of ciphertexts that the key can switch.
    pub level: usize,
}

/// The purpose of a key from one secret to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// Products: from the square of the secret to the secret.
    Relinearization,
    /// Rotations and conjugates: X becomes X to this power.
    Move {
        /// An odd power, above 1 and below 2N.
        power: usize,
    },
    /// The switch into a bootstrap: to a sparse secret, modulo the first prime and the first
    /// special prime only.
    ToSparse,
    /// The switch back from the sparse secret, without a split into digits.
    ToDense,
}

/// log2 of the upper bound of a scale, for every modulus. Products of several numbers then stay
/// finite.
pub const SCALE_LOG2_MAX: u32 = 256;

/// Checks all of a header except the kind's own payload, and returns the parameter set.
pub fn conform(header: &Header, kind: ObjectKind, expected: &Expected) -> Result<&'static CkksSet, EnvelopeError> {
    if header.kind != kind {
        return Err(EnvelopeError::WrongKind { expected: kind, got: header.kind });
    }
    let set = match super::find(header.set) {
        Some(set) => set,
        None => return Err(no_set_of_ckks(header)),
    };
    if let Some(wanted) = expected.set.filter(|wanted| wanted.id != set.id) {
        return Err(EnvelopeError::WrongParameterSet { expected: wanted.name, got: set.name });
    }
    if let Some(wanted) = expected.key_id.filter(|wanted| *wanted != header.key_id) {
        return Err(EnvelopeError::WrongKeyId { expected: wanted, got: header.key_id });
    }
    let expected = payload_len(kind, set, &header.dimensions)?;
    if expected != header.payload_len {
        return Err(EnvelopeError::WrongPayloadLength { expected, got: header.payload_len });
    }
    Ok(set)
}

/// Payload bytes of an object of `set` with these dimensions, if the set allows them.
pub fn payload_len(kind: ObjectKind, set: &'static CkksSet, given: &Dimensions) -> Result<u64, EnvelopeError> {
    match kind {
        ObjectKind::CkksCiphertext => Ok(2 * set.packed_bytes(CiphertextShape::of(set, given)?.level, 0)),
        ObjectKind::SeededCkksCiphertext => Ok(set.packed_bytes(CiphertextShape::of(set, given)?.level, 0)),
        ObjectKind::SeededCkksSwitchKey => {
            let shape = KeyShape::of(set, given)?;
            Ok(shape.bodies(set) as u64 * set.packed_bytes(shape.level, shape.special(set)))
        }
        ObjectKind::SeededCkksPublicKey => {
            let [level, ref unused @ ..] = *given;
            exactly("level", set.working_level as u64, level.into())?;
            zeros(unused)?;
            Ok(set.packed_bytes(set.working_level, 0))
        }
        // The client alone defines the layout of its keys.
        ObjectKind::CkksClientKey => Err(EnvelopeError::SecretKeyRefused { got: kind.number() }),
        _ => Err(EnvelopeError::WrongParameterSet { expected: "a set of TFHE", got: set.name }),
    }
}

/// The header's dimensions of a public key: the highest level at which numbers are encrypted.
pub fn public_key_dimensions(set: &CkksSet) -> Dimensions {
    [set.working_level as u32, 0, 0, 0, 0, 0, 0, 0]
}

fn no_set_of_ckks(header: &Header) -> EnvelopeError {
    match table::find(header.set) {
        Some(set) => EnvelopeError::WrongParameterSet { expected: "a set of CKKS", got: set.name },
        None => EnvelopeError::UnknownParameterSet { got: header.set },
    }
}

impl CiphertextShape {
    /// Reads the header's dimensions of a ciphertext: level, log2 of the slots, and both halves of
    /// the scale's bits.
    pub fn of(set: &CkksSet, given: &Dimensions) -> Result<Self, EnvelopeError> {
        let [level, slots_log2, scale_low, scale_high, ref unused @ ..] = *given;
        zeros(unused)?;
        let scale = f64::from_bits(u64::from(scale_low) | u64::from(scale_high) << 32);
        let shape = Self { level: level as usize, slots_log2, scale };
        shape.check(set)?;
        Ok(shape)
    }

    /// The dimensions for a header. Fails if the set has no such ciphertext.
    pub fn to_dimensions(self, set: &CkksSet) -> Result<Dimensions, EnvelopeError> {
        self.check(set)?;
        let scale = self.scale.to_bits();
        Ok([self.level as u32, self.slots_log2, scale as u32, (scale >> 32) as u32, 0, 0, 0, 0])
    }

    fn check(&self, set: &CkksSet) -> Result<(), EnvelopeError> {
        at_most("level", set.working_level as u64, self.level as u64)?;
        at_most("log2 of the slots", u64::from(set.size_log2) - 1, self.slots_log2.into())?;
        let modulus_log2: u32 = set.chain[..=self.level].iter().map(|prime| prime.ilog2()).sum();
        let below = 2_f64.powi(modulus_log2.min(SCALE_LOG2_MAX) as i32);
        if (1.0..below).contains(&self.scale) {
            Ok(())
        } else {
            Err(EnvelopeError::ScaleOutOfRange { bits: self.scale.to_bits() })
        }
    }
}

impl KeyShape {
    /// Reads the header's dimensions of a key: purpose, power of X, level, special primes, and the
    /// split into digits.
    pub fn of(set: &CkksSet, given: &Dimensions) -> Result<Self, EnvelopeError> {
        let [purpose, power, level, special, gadget, ref unused @ ..] = *given;
        zeros(unused)?;
        let purpose = match purpose {
            0 => Purpose::Relinearization,
            1 => Purpose::Move { power: power as usize },
            2 => Purpose::ToSparse,
            3 => Purpose::ToDense,
            got => return Err(EnvelopeError::DimensionTooLarge { which: "purpose", max: 3, got: got.into() }),
        };
        let shape = Self { purpose, level: level as usize };
        let wanted = shape.to_dimensions(set)?;
        exactly("power of X", wanted[1].into(), power.into())?;
        exactly("special primes", wanted[3].into(), special.into())?;
        exactly("gadget", wanted[4].into(), gadget.into())?;
        Ok(shape)
    }

    /// The dimensions for a header. Fails if the set has no such key.
    pub fn to_dimensions(self, set: &CkksSet) -> Result<Dimensions, EnvelopeError> {
        at_most("level", set.level_max() as u64, self.level as u64)?;
        let (purpose, power) = match self.purpose {
            Purpose::Relinearization => (0, 0),
            Purpose::Move { power } => {
                at_most("power of X", 2 * set.size() as u64 - 1, power as u64)?;
                if power <= 1 || power.is_multiple_of(2) {
                    return Err(EnvelopeError::WrongPower { got: power as u64 });
                }
                (1, power as u32)
            }
            Purpose::ToSparse => {
                // A sparse secret is weak under a large modulus.
                exactly("level of a key to a sparse secret", 0, self.level as u64)?;
                (2, 0)
            }
            Purpose::ToDense => (3, 0),
        };
        let gadget = u32::from(self.is_whole());
        Ok([purpose, power, self.level as u32, self.special(set) as u32, gadget, 0, 0, 0])
    }

    /// Number of special primes in the modulus of the key.
    pub fn special(self, set: &CkksSet) -> usize {
        match self.purpose {
            Purpose::ToSparse => 1,
            Purpose::Relinearization | Purpose::Move { .. } | Purpose::ToDense => set.special.len(),
        }
    }

    /// Whether one ciphertext holds all of the old secret. Otherwise the key has one ciphertext for
    /// each of the set's digits.
    pub fn is_whole(self) -> bool {
        self.purpose == Purpose::ToDense
    }

    /// Number of ciphertexts in the key, each a body and its mask.
    pub fn bodies(self, set: &CkksSet) -> usize {
        if self.is_whole() {
            return 1;
        }
        set.digits().take_while(|digit| digit.start <= self.level).count()
    }
}

/// The name in `keys ls` and in refusals.
impl fmt::Display for Purpose {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relinearization => out.write_str("products"),
            Self::Move { power } => write!(out, "X to X^{power}"),
            Self::ToSparse => out.write_str("the sparse secret"),
            Self::ToDense => out.write_str("the way back from the sparse secret"),
        }
    }
}

fn at_most(which: &'static str, max: u64, got: u64) -> Result<(), EnvelopeError> {
    if got <= max { Ok(()) } else { Err(EnvelopeError::DimensionTooLarge { which, max, got }) }
}

fn exactly(which: &'static str, expected: u64, got: u64) -> Result<(), EnvelopeError> {
    if expected == got { Ok(()) } else { Err(EnvelopeError::WrongDimension { which, expected, got }) }
}

fn zeros(unused: &[u32]) -> Result<(), EnvelopeError> {
    unused.iter().try_for_each(|value| exactly("unused dimension", 0, u64::from(*value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ckks::{CKKS_SETS, by_name};

    const PURPOSES: [Purpose; 4] =
        [Purpose::Relinearization, Purpose::Move { power: 5 }, Purpose::ToSparse, Purpose::ToDense];

    fn shape(set: &CkksSet) -> CiphertextShape {
        CiphertextShape { level: set.working_level, slots_log2: 3, scale: 1.5e10 }
    }

    #[test]
    fn dimensions_round_trip() {
        for set in CKKS_SETS {
            let of_ciphertext = shape(set).to_dimensions(set).expect("such a ciphertext");
            assert_eq!(CiphertextShape::of(set, &of_ciphertext), Ok(shape(set)));
            for purpose in PURPOSES {
                let level = if purpose == Purpose::ToSparse { 0 } else { set.level_max() };
                let key = KeyShape { purpose, level };
                assert_eq!(KeyShape::of(set, &key.to_dimensions(set).expect("such a key")), Ok(key));
            }
        }
    }

    #[test]
    fn lengths_of_known_objects() {
        let set = by_name("CKKS_45_60_50_H4096").expect("a set");
        let bytes = |purpose, level| {
            let dimensions = KeyShape { purpose, level }.to_dimensions(set).expect("such a key");
            payload_len(ObjectKind::SeededCkksSwitchKey, set, &dimensions).expect("such a key")
        };
        // One prime of 54 bits, three of 45 and eleven of 46, four of 60 and four of 61, five of 50
        // and six special primes.
        let bits = 54 + 3 * 45 + 11 * 46 + 4 * 60 + 4 * 61 + 11 * 50;
        assert_eq!(bytes(Purpose::Relinearization, 27), 6 * (1 << 16) / 8 * bits);
        assert_eq!(bytes(Purpose::ToSparse, 0), (1 << 16) / 8 * (54 + 50));
        assert_eq!(bytes(Purpose::ToDense, 27), (1 << 16) / 8 * bits);
        // In millions, as in docs/ckks.md.
        assert_eq!([27, 14].map(|level| bytes(Purpose::Relinearization, level) / 1_000_000), [84, 24]);
    }

    #[test]
    fn headers_beyond_their_set_are_refused() {
        for set in CKKS_SETS {
            let good = shape(set).to_dimensions(set).expect("such a ciphertext");
            let spoilt = |index: usize, value: u32| {
                let mut dimensions = good;
                dimensions[index] = value;
                CiphertextShape::of(set, &dimensions).expect_err("no such ciphertext")
            };
            let too_large = |which, max| EnvelopeError::DimensionTooLarge { which, max, got: u32::MAX.into() };
            assert_eq!(spoilt(0, u32::MAX), too_large("level", set.working_level as u64));
            assert_eq!(spoilt(1, u32::MAX), too_large("log2 of the slots", u64::from(set.size_log2) - 1));
            for index in 4..8 {
                assert!(matches!(spoilt(index, 1), EnvelopeError::WrongDimension { which: "unused dimension", .. }));
            }
            let key = KeyShape { purpose: Purpose::Move { power: 3 }, level: 4 }.to_dimensions(set).expect("a key");
            let spoilt = |index: usize, value: u32| {
                let mut dimensions = key;
                dimensions[index] = value;
                KeyShape::of(set, &dimensions).expect_err("no such key")
            };
            assert_eq!(spoilt(0, 4), EnvelopeError::DimensionTooLarge { which: "purpose", max: 3, got: 4 });
            assert!(matches!(spoilt(0, 0), EnvelopeError::WrongDimension { which: "power of X", .. }));
            assert!(matches!(spoilt(0, 2), EnvelopeError::WrongDimension { expected: 0, got: 4, .. }));
            assert!(matches!(spoilt(0, 3), EnvelopeError::WrongDimension { which: "power of X", .. }));
            assert_eq!(
                [0, 1, 2, 4].map(|power| spoilt(1, power)),
                [0, 1, 2, 4].map(|got| EnvelopeError::WrongPower { got })
            );
            assert_eq!(spoilt(1, u32::MAX), too_large("power of X", 2 * set.size() as u64 - 1));
            assert_eq!(spoilt(2, u32::MAX), too_large("level", set.level_max() as u64));
            assert!(matches!(spoilt(3, 0), EnvelopeError::WrongDimension { which: "special primes", .. }));
            assert!(matches!(spoilt(4, 1), EnvelopeError::WrongDimension { which: "gadget", .. }));
            assert!(matches!(spoilt(7, 1), EnvelopeError::WrongDimension { which: "unused dimension", .. }));
        }
    }

    #[test]
    fn scales_are_numbers_between_one_and_the_modulus() {
        let set = by_name("CKKS_45_60_50_H4096").expect("a set");
        let scale = |scale, level| CiphertextShape { level, slots_log2: 0, scale }.to_dimensions(set);
        for bad in [f64::NAN, f64::INFINITY, -f64::INFINITY, 0.0, -0.0, -1.0, 0.999, 5e-324, 2_f64.powi(53), 1e300] {
            assert_eq!(scale(bad, 0), Err(EnvelopeError::ScaleOutOfRange { bits: bad.to_bits() }), "{bad}");
        }
        assert!(scale(2_f64.powi(53), 1).is_ok() && scale(2_f64.powi(52), 0).is_ok() && scale(1.0, 0).is_ok());
        assert!(scale(2_f64.powi(255), 14).is_ok());
        assert!(scale(2_f64.powi(256), 14).is_err());
    }

    #[test]
    fn a_public_key_has_the_level_of_encrypted_numbers_and_nothing_else() {
        for set in CKKS_SETS {
            let dimensions = public_key_dimensions(set);
            let length = |dimensions| payload_len(ObjectKind::SeededCkksPublicKey, set, &dimensions);
            assert_eq!(length(dimensions), Ok(set.packed_bytes(set.working_level, 0)));
            for index in 0..dimensions.len() {
                let mut spoilt = dimensions;
                spoilt[index] ^= 1;
                assert!(matches!(length(spoilt), Err(EnvelopeError::WrongDimension { .. })), "{index}");
            }
        }
    }

    #[test]
    fn kinds_of_the_other_scheme_are_refused() {
        let toy = by_name("TOY_CKKS_54_60").expect("a set");
        for kind in ObjectKind::all() {
            let length = payload_len(kind, toy, &[0, 0, 0, 0x3ff0_0000, 0, 0, 0, 0]);
            match kind.is_ckks() {
                true => assert!(!matches!(length, Err(EnvelopeError::WrongParameterSet { .. })), "{kind}"),
                false => assert!(matches!(length, Err(EnvelopeError::WrongParameterSet { .. })), "{kind}"),
            }
        }
    }
}
