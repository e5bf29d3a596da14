//! The noise of each operation, and the resulting failure probability of a bootstrap.
//!
//! Every figure is a variance as a fraction of the torus squared: a standard deviation of 2^-15 of
//! the modulus is 2^-30 here. `docs/noise.md` derives each term. The crate `tests/noise` compares
//! the terms with measurements.

mod bootstrap;
mod compression;
mod failure;
mod gadget;
mod key_switch;
mod key_weight;
mod modulus_switch;
mod tail;
mod transform;

pub use bootstrap::BootstrapNoise;
pub use compression::CompressionNoise;
pub use failure::Decision;
pub use key_switch::KeySwitchNoise;
pub use key_weight::KeyWeight;
pub use modulus_switch::ModulusSwitchNoise;
pub use tail::log2_upper_tail;
pub use transform::{external_product_error, transform_loss};

use crate::set::{Noise, Order, ParameterSet};

/// The noise of every operation of a set, term by term.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseBudget {
    /// Variance of a fresh encryption under the key of ciphertexts between operations.
    pub fresh: f64,
    /// Noise of a blind rotation's output, independent of the input's noise.
    pub bootstrap: BootstrapNoise,
    /// Noise that the key switch adds.
    pub key_switch: KeySwitchNoise,
    /// Noise that the modulus switch adds.
    pub modulus_switch: ModulusSwitchNoise,
    order: Order,
}

impl NoiseBudget {
    /// The budget under a key of average weight.
    pub fn of(set: &ParameterSet) -> Self {
        Self::with_key(set, KeyWeight::expected(set))
    }

    /// The budget under one key. A key that is 3% heavier than the average makes its rounding terms
    /// 3% larger.
    pub fn with_key(set: &ParameterSet, key: KeyWeight) -> Self {
        let fresh = match set.order {
            Order::KeySwitchFirst => variance(set.glwe_noise, set.torus.bits()),
            Order::BootstrapFirst => variance(set.lwe_noise, set.small_modulus_log2),
        };
        Self {
            fresh,
            bootstrap: BootstrapNoise::of(set, key),
            key_switch: KeySwitchNoise::of(set, key),
            modulus_switch: ModulusSwitchNoise::of(set, key),
            order: set.order,
        }
    }

    /// Variance of a ciphertext after a key switch and bootstrap: noise level 1.
    pub fn output(&self) -> f64 {
        match self.order {
            Order::KeySwitchFirst => self.bootstrap.total(),
            Order::BootstrapFirst => self.bootstrap.total() + self.key_switch.total(),
        }
    }

    /// Variance at the input of the modulus switch. `input` is the variance of the ciphertext at
    /// the input of the key switch and bootstrap.
    pub fn entering_switch(&self, input: f64) -> f64 {
        match self.order {
            Order::KeySwitchFirst => input + self.key_switch.total(),
            Order::BootstrapFirst => input,
        }
    }

    /// Variance at the decision of the blind rotation, for an equal `input`.
    pub fn at_decision(&self, input: f64) -> f64 {
        self.entering_switch(input) + self.modulus_switch.mask
    }
}

/// Variance of an error distribution on a modulus of `modulus_bits` bits.
pub fn variance(noise: Noise, modulus_bits: u32) -> f64 {
    match noise {
        Noise::Gaussian { std_dev } => std_dev * std_dev,
        // Both ends have half weight: (1 / 2^(b+1)) (2 sum of x^2 for x < 2^b, plus 2^2b) =
        // (2^(2b+1) + 1) / 6.
        Noise::TUniform { bound_log2 } => {
            ((2.0 * f64::from(bound_log2) + 1.0).exp2() + 1.0) / 6.0 * least_square(modulus_bits)
        }
    }
}

/// The squared least step of a modulus of `bits` bits.
fn least_square(bits: u32) -> f64 {
    (-2.0 * f64::from(bits)).exp2()
}

#[cfg(test)]
mod tests;
