use std::f64::consts::LOG2_E;

use super::key_switch::KeyError;
use super::modulus_switch::{Cumulants, SwitchError};
use super::tail::{log2_sum, log2_upper_tail};
use super::{KeyWeight, NoiseBudget};
use crate::set::{Encoding, ModulusSwitch, Order, ParameterSet};

/// The decision of a blind rotation: the distances by which its phase may deviate before it reads
/// the neighbouring entry of the lookup table. Distances are fractions of the torus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// Distance to the boundary below.
    pub below: f64,
    /// Distance to the boundary above.
    pub above: f64,
    /// Largest input variance, in multiples of a bootstrap output's variance.
    pub input_factor: f64,
}

impl NoiseBudget {
    /// log2 of the probability, over ciphertexts and keys of this weight, that one key switch and
    /// bootstrap reads a wrong entry. The input has the largest noise that the set allows.
    pub fn failure_log2(&self, set: &ParameterSet) -> f64 {
        self.failure_log2_for(set, Decision::of(set).input_factor)
    }

    /// Like [`Self::failure_log2`], for an input with a variance of `input_factor` bootstrap
    /// outputs.
    pub fn failure_log2_for(&self, set: &ParameterSet, input_factor: f64) -> f64 {
        self.failure_log2_of(set, input_factor * self.output())
    }

    /// Like [`Self::failure_log2`], for an input of any given variance.
    pub fn failure_log2_of(&self, set: &ParameterSet, input: f64) -> f64 {
        let decision = Decision::of(set);
        let entering = self.entering_switch(input);
        let switch = SwitchError::of(set);
        match set.order {
            Order::KeySwitchFirst => {
                let key = KeyError::of(set, self.key_switch.key);
                decision.failure_log2(entering - self.key_switch.key, |t| switch.cumulants(t) + key.cumulants(t))
            }
            // Here the key switch is part of the input's noise level: one gate has several key
            // switches.
            Order::BootstrapFirst => decision.failure_log2(entering, |t| switch.cumulants(t)),
        }
    }

    /// Like [`Self::failure_log2_for`], over random keys of every weight. A heavy key rounds worse.
    /// In the tail, heavy keys cost more than light keys save: half a bit if the rounding of
    /// bootstraps is most of the noise.
    pub fn failure_log2_over_keys(set: &ParameterSet, input_factor: f64) -> f64 {
        KeyWeight::averaged_log2(set, |key| Self::with_key(set, key).failure_log2_for(set, input_factor))
    }

    /// [`Self::failure_log2`] under the assumption of published figures that the modulus switch's
    /// error is normal as well.
    pub fn normal_failure_log2(&self, set: &ParameterSet) -> f64 {
        let decision = Decision::of(set);
        decision.normal_failure_log2(self.at_decision(decision.input_factor * self.output()))
    }
}

impl Decision {
    /// The hardest decision that the set allows.
    pub fn of(set: &ParameterSet) -> Self {
        let (half_box, input_factor) = match set.encoding {
            Encoding::Shortint { message_modulus, carry_modulus, max_noise_level } => {
                let level = max_noise_level as f64;
                (0.25 / (message_modulus * carry_modulus) as f64, level * level)
            }
            // An AND-like gate reads the sum of both inputs at an eighth from the boundary. At
            // worst, both inputs are one ciphertext, which doubles the deviation, and this
            // ciphertext comes from a MUX, the sum of two bootstraps. XOR-like gates double the
            // sum, but also the distance, and the modulus switch then counts for less.
            Encoding::Boolean => (BOOLEAN_DISTANCE, 4.0 * 2.0),
        };
        // Entries begin at whole steps. Flooring the body therefore changes no decision. Rounding
        // it to the nearest step moves every boundary down by half a step. The centered switch
        // floors.
        let half_step = match set.modulus_switch {
            ModulusSwitch::Plain => 0.25 / set.polynomial_size as f64,
            ModulusSwitch::CenteredMean => 0.0,
        };
        Self { below: half_box + half_step, above: half_box - half_step, input_factor }
    }

    /// log2 of the probability that a centred normal error of this variance leaves the entry.
    pub fn normal_failure_log2(&self, variance: f64) -> f64 {
        let deviation = variance.sqrt();
        log2_sum(log2_upper_tail(self.below / deviation), log2_upper_tail(self.above / deviation))
    }

    /// Like [`Self::normal_failure_log2`], for the sum of a normal error and an error with the
    /// given cumulants.
    pub(super) fn failure_log2(&self, normal: f64, shaped: impl Fn(f64) -> Cumulants) -> f64 {
        log2_sum(exact_tail(self.below, normal, &shaped), exact_tail(self.above, normal, &shaped))
    }
}

/// log2 of the probability that the sum of a normal error and a shaped error exceeds `x`, by the
/// saddle-point method. The method tilts the distribution by e^(t error) until its mean is x, and
/// approximates it there as normal.
fn exact_tail(x: f64, normal: f64, shaped: &impl Fn(f64) -> Cumulants) -> f64 {
    let slope = |t: f64| shaped(t).slope + normal * t;
    // Errors are centred, so the slope grows at least as fast as the slope of the normal part. This
    // brackets the saddle point.
    let (mut low, mut high) = (0.0, x / normal);
    for _ in 0..BISECTIONS {
        let middle = (low + high) / 2.0;
        if slope(middle) < x { low = middle } else { high = middle }
    }
    let t = low;
    let at = shaped(t);
    let value = at.value + normal * t * t / 2.0;
    let width = t * (at.curvature + normal).sqrt();
    (value - t * x + width * width / 2.0) * LOG2_E + log2_upper_tail(width)
}

const BOOLEAN_DISTANCE: f64 = 0.125;
const BISECTIONS: u32 = 80;
