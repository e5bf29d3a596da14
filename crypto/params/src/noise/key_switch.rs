use super::gadget::{balanced_digit_squares, decomposition_error, digit_square, rounding};
use super::modulus_switch::Cumulants;
use super::{KeyWeight, variance};
use crate::set::{Noise, ParameterSet};

/// Noise that the key switch from the big to the small key adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeySwitchNoise {
    /// The noise of the key-switch key, multiplied by the digits.
    pub key: f64,
    /// The part of the mask words below the gadget, multiplied by the big key.
    pub rounding: f64,
    /// The rounding of the body to the small modulus, or zero if the modulus stays.
    pub body: f64,
}

impl KeySwitchNoise {
    pub(super) fn of(set: &ParameterSet, key: KeyWeight) -> Self {
        let (gadget, word) = (set.key_switch, set.torus.bits());
        let digits = set.big_dimension() as f64 * balanced_digit_squares(gadget);
        Self {
            key: digits * variance(set.lwe_noise, set.small_modulus_log2),
            rounding: key.big_ones * decomposition_error(gadget, word),
            body: rounding(word, set.small_modulus_log2),
        }
    }

    /// The sum of all terms.
    pub fn total(&self) -> f64 {
        self.key + self.rounding + self.body
    }
}

/// The distribution of the key switch's key term over random keys and ciphertexts: a sum of digits
/// times key errors.
///
/// A product of two random factors has a thicker tail than a normal error. If the key switch is
/// most of the noise, this costs a third of a bit at thirteen standard deviations.
pub(super) struct KeyError {
    products: f64,
    digits: std::ops::RangeInclusive<u32>,
    noise: Noise,
    deviation: f64,
}

impl KeyError {
    /// Scales the distribution to `variance`, which accounts for ties between digits.
    pub(super) fn of(set: &ParameterSet, variance: f64) -> Self {
        let products = (set.big_dimension() * set.key_switch.levels) as f64;
        let half = 1 << (set.key_switch.base_log - 1);
        let mean_square = variance / products;
        Self {
            products,
            digits: 1..=half,
            noise: set.lwe_noise,
            deviation: (mean_square / digit_square(set.key_switch)).sqrt(),
        }
    }

    /// Cumulants from ln E[e^(t error)] = products * ln(1 + mean of m(d t) - 1), where m is the
    /// moment generating function of the key error.
    pub(super) fn cumulants(&self, t: f64) -> Cumulants {
        let half = *self.digits.end();
        let (mut excess, mut first, mut second) = (0.0, 0.0, 0.0);
        for digit in self.digits.clone() {
            // Both signs of a digit have weight 1/B each. The two ends share one such weight.
            let weight = if digit == half { 0.5 } else { 1.0 } / f64::from(half);
            let digit = f64::from(digit);
            let [m, m1, m2] = self.error(digit * t);
            excess += weight * m;
            first += weight * digit * m1;
            second += weight * digit * digit * m2;
        }
        let slope = first / (1.0 + excess);
        Cumulants {
            value: self.products * excess.ln_1p(),
            slope: self.products * slope,
            curvature: self.products * (second / (1.0 + excess) - slope * slope),
        }
    }

    /// E[e^(z error)] - 1 of one key error, and its first two derivatives. The product z error
    /// stays below one.
    fn error(&self, z: f64) -> [f64; 3] {
        let s = self.deviation;
        match self.noise {
            Noise::Gaussian { .. } => {
                let q = z * z * s * s;
                let m = (q / 2.0).exp();
                [(q / 2.0).exp_m1(), z * s * s * m, s * s * (1.0 + q) * m]
            }
            // Uniform on [-h, h], of deviation h / sqrt(3): sinh(w)/w with w = z h, as a series.
            Noise::TUniform { .. } => {
                let h = s * 3_f64.sqrt();
                let w = z * h;
                let q = w * w;
                [
                    q / 6.0 * (1.0 + q / 20.0 * (1.0 + q / 42.0 * (1.0 + q / 72.0))),
                    h * w / 3.0 * (1.0 + q / 10.0 * (1.0 + q / 28.0 * (1.0 + q / 54.0))),
                    h * h / 3.0 * (1.0 + q * 0.3 * (1.0 + q * 5.0 / 84.0 * (1.0 + q * 7.0 / 270.0))),
                ]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uniform_key_error_has_the_moments_of_a_uniform_variable() {
        let key = KeyError { products: 1.0, digits: 1..=1, noise: Noise::TUniform { bound_log2: 1 }, deviation: 0.5 };
        for z in [0.1, 0.5, 1.0] {
            let w = z * 0.5 * 3_f64.sqrt();
            assert!((key.error(z)[0] / (w.sinh() / w - 1.0) - 1.0).abs() < 1e-6, "{z}");
        }
    }

    #[test]
    fn derivatives_are_those_of_the_moments() {
        for noise in [Noise::TUniform { bound_log2: 1 }, Noise::Gaussian { std_dev: 1.0 }] {
            let key = KeyError { products: 1.0, digits: 1..=1, noise, deviation: 0.5 };
            for z in [0.1, 0.5, 1.0] {
                let h = 1e-4;
                let [below, here, above] = [z - h, z, z + h].map(|z| key.error(z));
                for order in [1, 2] {
                    let slope = (above[order - 1] - below[order - 1]) / (2.0 * h);
                    assert!((slope / here[order] - 1.0).abs() < 1e-6, "order {order} at {z}");
                }
            }
        }
    }
}
