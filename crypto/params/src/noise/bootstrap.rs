use super::gadget::{decomposition_error, digit_square};
use super::transform::external_product_error;
use super::{KeyWeight, variance};
use crate::set::ParameterSet;

/// Noise of a blind rotation's output. The accumulator starts without noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BootstrapNoise {
    /// The noise of the bootstrap key, multiplied by the digits of the accumulator.
    pub key: f64,
    /// The part of the accumulator below the gadget, multiplied by the big key.
    pub rounding: f64,
    /// The rounding error of the transform.
    pub transform: f64,
}

/// A blind rotation: the rotation of the bootstrap, or the rotation that unpacks a compressed list.
pub(super) struct Rotation<'a> {
    pub(super) set: &'a ParameterSet,
    /// Number of all steps.
    pub(super) steps: f64,
    /// Number of steps in which the gadget's rounding error reaches the phase.
    pub(super) rounding_steps: f64,
    pub(super) big_ones: f64,
}

impl BootstrapNoise {
    pub(super) fn of(set: &ParameterSet, key: KeyWeight) -> Self {
        let steps = set.rotation_steps() as f64;
        // A classical step multiplies a selector bit by a difference of accumulators. A selector
        // bit 0 thus discards the rounding error. A multi-bit step multiplies the accumulator
        // itself by a monomial.
        let rounding_steps = if set.grouping == 1 { key.small_ones } else { steps };
        Rotation { set, steps, rounding_steps, big_ones: key.big_ones }.noise()
    }

    /// The sum of all terms.
    pub fn total(&self) -> f64 {
        self.key + self.rounding + self.transform
    }
}

impl Rotation<'_> {
    pub(super) fn noise(&self) -> BootstrapNoise {
        let set = self.set;
        let word = set.torus.bits();
        let products = (set.bootstrap.levels * set.glwe_size() * set.polynomial_size) as f64;
        // The selector of a multi-bit step is the sum of one rotated GGSW ciphertext per subset of
        // the group.
        let ggsws = if set.grouping == 1 { 1.0 } else { f64::from(1_u32 << set.grouping) };
        // Each of the k + 1 polynomials of a GLWE ciphertext has an error. The body's error counts
        // once. A mask's error counts as often as the key polynomial, by which the mask is
        // multiplied, has ones.
        let on_phase = 1.0 + self.big_ones;
        BootstrapNoise {
            key: self.steps * ggsws * products * digit_square(set.bootstrap) * variance(set.glwe_noise, word),
            rounding: self.rounding_steps * on_phase * decomposition_error(set.bootstrap, word),
            transform: self.steps * on_phase * external_product_error(set),
        }
    }
}
