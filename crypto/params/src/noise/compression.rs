use super::bootstrap::{BootstrapNoise, Rotation};
use super::failure::Decision;
use super::gadget::{balanced_digit_squares, decomposition_error, rounding};
use super::modulus_switch::SwitchError;
use super::{NoiseBudget, variance};
use crate::set::{CompressionSet, Encoding, ParameterSet};

/// Noise that the packing and unpacking of a list add, under keys of average weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompressionNoise {
    /// The packing key's noise, multiplied by the digits of every ciphertext of a full list.
    pub packing_key: f64,
    /// The part of the mask words below the packing gadget, multiplied by the big key.
    pub packing_rounding: f64,
    /// The rounding of the packed mask to the storage modulus, multiplied by the packing key.
    pub storage: f64,
    /// Noise of an unpacked ciphertext.
    pub unpacked: BootstrapNoise,
}

impl CompressionNoise {
    /// The noise of `compression` on ciphertexts of `set`.
    pub fn of(set: &ParameterSet, compression: &CompressionSet) -> Self {
        let word = set.torus.bits();
        let gadget = compression.packing;
        let packed_dimension = compression.packing_glwe_dimension * compression.packing_polynomial_size;
        // Each listed ciphertext is switched to a coefficient of its own, but the key noise of all
        // of them affects every coefficient.
        let words = (set.big_dimension() * compression.lwe_per_glwe) as f64;
        let steps = packed_dimension as f64;
        let unpacking = ParameterSet { bootstrap: compression.bootstrap, ..*set };
        let rotation = Rotation {
            set: &unpacking,
            steps,
            rounding_steps: steps / 2.0,
            big_ones: set.big_dimension() as f64 / 2.0,
        };
        Self {
            packing_key: words * balanced_digit_squares(gadget) * variance(compression.packing_noise, word),
            packing_rounding: set.big_dimension() as f64 / 2.0 * decomposition_error(gadget, word),
            storage: steps / 2.0 * rounding(word, compression.storage_modulus_log2),
            unpacked: rotation.noise(),
        }
    }

    /// log2 of the probability that one ciphertext of noise level 1 and empty carry leaves the list
    /// with a wrong value.
    pub fn unpacking_failure_log2(&self, set: &ParameterSet, compression: &CompressionSet) -> f64 {
        self.unpacking_failure_log2_of(set, compression, NoiseBudget::of(set).output())
    }

    /// Like [`Self::unpacking_failure_log2`], for a ciphertext of any given variance.
    pub fn unpacking_failure_log2_of(&self, set: &ParameterSet, compression: &CompressionSet, packed: f64) -> f64 {
        let Encoding::Shortint { message_modulus, carry_modulus, .. } = set.encoding else {
            return f64::NEG_INFINITY;
        };
        // The carry is empty, so the message is first shifted up by its own width.
        let shift = message_modulus as f64;
        let half_box = 0.25 / carry_modulus as f64;
        let half_step = 0.5 * (-f64::from(compression.storage_modulus_log2)).exp2();
        let decision =
            Decision { below: half_box + half_step, above: half_box - half_step, input_factor: shift * shift };
        let packed_dimension = compression.packing_glwe_dimension * compression.packing_polynomial_size;
        let switch = SwitchError { terms: packed_dimension as f64, active: 0.5, half_width: half_step };
        let input = decision.input_factor * packed;
        decision.failure_log2(input + self.packing_key + self.packing_rounding, |t| switch.cumulants(t))
    }

    /// The noise budget of unpacked ciphertexts. Their noise level 1 is that of the unpacking
    /// bootstrap, which has more steps than the set's own bootstrap.
    pub fn after_unpacking(&self, set: &ParameterSet) -> NoiseBudget {
        NoiseBudget { bootstrap: self.unpacked, ..NoiseBudget::of(set) }
    }
}
