use super::gadget::{decomposition_error, digit_square};
use super::transform::external_product_error;
use super::{KeyWeight, variance};
use crate::set::ParameterSet;

/// What a blind rotation leaves on its output. Its accumulator starts without noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BootstrapNoise {
    /// The noise of the bootstrap key, multiplied by the digits of the accumulator.
    pub key: f64,
    /// The part of the accumulator below the gadget, multiplied by the big key.
    pub rounding: f64,
    /// The rounding error of the transform.
    pub transform: f64,
}

/// A blind rotation: the bootstrap's own, or the one that unpacks a compressed list.
pub(super) struct Rotation<'a> {
    pub(super) set: &'a ParameterSet,
    /// Steps in all.
    pub(super) steps: f64,
    /// Steps in which what the gadget cannot represent reaches the phase.
    pub(super) rounding_steps: f64,
    pub(super) big_ones: f64,
}

impl BootstrapNoise {
    pub(super) fn of(set: &ParameterSet, key: KeyWeight) -> Self {
        let steps = set.rotation_steps() as f64;
        // A classical step multiplies the selector bit into a difference of accumulators: a 0 forgets the rounding.
        // A multi-bit step multiplies the accumulator itself by a monomial.
        let rounding_steps = if set.grouping == 1 { key.small_ones } else { steps };
        Rotation { set, steps, rounding_steps, big_ones: key.big_ones }.noise()
    }

    /// All terms together.
    pub fn total(&self) -> f64 {
        self.key + self.rounding + self.transform
    }
}

impl Rotation<'_> {
    pub(super) fn noise(&self) -> BootstrapNoise {
        let set = self.set;
        let word = set.torus.bits();
        let products = (set.bootstrap.levels * set.glwe_size() * set.polynomial_size) as f64;
        // The selector of a multi-bit step is the sum of one rotated GGSW ciphertext per subset of the group.
        let ggsws = if set.grouping == 1 { 1.0 } else { f64::from(1_u32 << set.grouping) };
        // An error on each of the k + 1 polynomials of a GLWE ciphertext: the body's counts once, a mask's as often
        // as the key polynomial that it is multiplied by has ones.
        let on_phase = 1.0 + self.big_ones;
        BootstrapNoise {
            key: self.steps * ggsws * products * digit_square(set.bootstrap) * variance(set.glwe_noise, word),
            rounding: self.rounding_steps * on_phase * decomposition_error(set.bootstrap, word),
            transform: self.steps * on_phase * external_product_error(set),
        }
    }
}
