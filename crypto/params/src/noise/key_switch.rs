use super::gadget::{balanced_digit_squares, decomposition_error, rounding};
use super::{KeyWeight, torus_bits, variance};
use crate::set::ParameterSet;

/// What the key switch from the big to the small key adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeySwitchNoise {
    /// The noise of the key-switch key, multiplied by the digits.
    pub key: f64,
    /// The part of the mask words below the gadget, multiplied by the big key.
    pub rounding: f64,
    /// The body's rounding to the small modulus; nothing where the modulus stays.
    pub body: f64,
}

impl KeySwitchNoise {
    pub(super) fn of(set: &ParameterSet, key: KeyWeight) -> Self {
        let (gadget, word) = (set.key_switch, torus_bits(set));
        let digits = set.big_dimension() as f64 * balanced_digit_squares(gadget);
        Self {
            key: digits * variance(set.lwe_noise, set.small_modulus_log2),
            rounding: key.big_ones * decomposition_error(gadget, word),
            body: rounding(word, set.small_modulus_log2),
        }
    }

    /// All terms together.
    pub fn total(&self) -> f64 {
        self.key + self.rounding + self.body
    }
}
