//! Unencrypted properties that a list stores for each of its ciphertexts.

use crate::{Encoding, ParameterSet, layout::INFO_BYTES};

/// Degree and noise level of one ciphertext, as in tfhe-rs. Both are public: they follow from the
/// operations, not from the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CiphertextInfo {
    /// Largest value that the plaintext can have.
    pub degree: u32,
    /// Noise in multiples of a fresh bootstrap output's standard deviation; 0 for trivial
    /// ciphertexts.
    pub noise_level: u32,
}

/// A value above the limit of its parameter set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    /// Name of the value.
    pub what: &'static str,
    /// Largest value allowed.
    pub limit: u64,
    /// The value.
    pub got: u64,
}

impl CiphertextInfo {
    /// Properties of a fresh encryption: any message, nominal noise.
    pub fn fresh(set: &ParameterSet) -> Self {
        let degree = match set.encoding {
            Encoding::Shortint { message_modulus, .. } => message_modulus as u32 - 1,
            Encoding::Boolean => 1,
        };
        Self { degree, noise_level: 1 }
    }

    /// The largest degree and noise level that a ciphertext of `set` may have.
    pub fn limit(set: &ParameterSet) -> (u64, u64) {
        match set.encoding {
            Encoding::Shortint { message_modulus, carry_modulus, max_noise_level } => {
                (message_modulus * carry_modulus - 1, max_noise_level)
            }
            Encoding::Boolean => (1, 1),
        }
    }

    /// The first value above the limits of `set`, if there is any.
    pub fn excess(&self, set: &ParameterSet) -> Option<Excess> {
        let (degree, noise_level) = Self::limit(set);
        [("degree", degree, self.degree), ("noise level", noise_level, self.noise_level)]
            .into_iter()
            .map(|(what, limit, got)| Excess { what, limit, got: u64::from(got) })
            .find(|value| value.got > value.limit)
    }

    /// The binary form.
    pub fn to_bytes(self) -> [u8; INFO_BYTES as usize] {
        (u64::from(self.degree) | u64::from(self.noise_level) << 32).to_le_bytes()
    }

    /// Reads the binary form, without a check of limits.
    pub fn from_bytes(bytes: [u8; INFO_BYTES as usize]) -> Self {
        let both = u64::from_le_bytes(bytes);
        Self { degree: both as u32, noise_level: (both >> 32) as u32 }
    }
}
