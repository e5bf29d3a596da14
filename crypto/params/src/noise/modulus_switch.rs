use super::KeyWeight;
use super::gadget::rounding;
use crate::set::{ModulusSwitch, ParameterSet};

/// Noise that the switch from the small modulus to 2N adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModulusSwitchNoise {
    /// The rounding errors of the mask, multiplied by the small key.
    pub mask: f64,
    /// The rounding error of the body. The error shifts the boundaries between messages but does
    /// not blur them (see [`super::Decision`]). The error counts only if the switched phase is read
    /// as a number.
    pub body: f64,
}

impl ModulusSwitchNoise {
    pub(super) fn of(set: &ParameterSet, key: KeyWeight) -> Self {
        let error = rounding(set.small_modulus_log2, set.rotation_modulus_log2());
        let multiplicity = match set.modulus_switch {
            // A classical set rounds every word. A multi-bit set rounds the sum of the words that a
            // group's ones select.
            ModulusSwitch::Plain => key.small_groups,
            // The body subtracts half of every rounding error, so that each error is multiplied by
            // s - 1/2 = +-1/2.
            ModulusSwitch::CenteredMean => set.lwe_dimension as f64 / 4.0,
        };
        Self { mask: multiplicity * error, body: error }
    }
}

/// The distribution of a switch's error over random keys and ciphertexts. The error is a sum of
/// independent terms. Each term is uniform on [-half_width, half_width] with probability `active`,
/// and zero otherwise.
///
/// This error is most of the noise at the decision of a bootstrap. At thirteen standard deviations,
/// its tail is thinner than a normal tail by several bits. A failure probability must therefore
/// account for its shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct SwitchError {
    pub(super) terms: f64,
    pub(super) active: f64,
    pub(super) half_width: f64,
}

/// A cumulant generating function at one point, with its first two derivatives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cumulants {
    pub(super) value: f64,
    pub(super) slope: f64,
    pub(super) curvature: f64,
}

impl std::ops::Add for Cumulants {
    type Output = Self;

    /// Cumulants of the sum of independent errors.
    fn add(self, other: Self) -> Self {
        Self {
            value: self.value + other.value,
            slope: self.slope + other.slope,
            curvature: self.curvature + other.curvature,
        }
    }
}

impl SwitchError {
    pub(super) fn of(set: &ParameterSet) -> Self {
        let half_step = 0.25 / set.polynomial_size as f64;
        match set.modulus_switch {
            ModulusSwitch::Plain => Self {
                terms: set.rotation_steps() as f64,
                active: 1.0 - 0.5_f64.powi(set.grouping as i32),
                half_width: half_step,
            },
            ModulusSwitch::CenteredMean => {
                Self { terms: set.lwe_dimension as f64, active: 1.0, half_width: half_step / 2.0 }
            }
        }
    }

    /// Cumulants from ln E[e^(t error)] = terms * ln(1 - active + active * sinh(z)/z) with z = t *
    /// half_width.
    pub(super) fn cumulants(&self, t: f64) -> Cumulants {
        let z = t * self.half_width;
        // sinh(z)/z and its derivatives, all divided by e^z to avoid large values.
        let scale = (-z).exp();
        let [f, f1, f2] = if z < SERIES_BELOW {
            let q = z * z;
            let f = 1.0 + q / 6.0 * (1.0 + q / 20.0 * (1.0 + q / 42.0));
            let f1 = z / 3.0 * (1.0 + q / 10.0 * (1.0 + q / 28.0));
            let f2 = (1.0 + q * 0.3 * (1.0 + q * 5.0 / 84.0)) / 3.0;
            [f, f1, f2].map(|x| x * scale)
        } else {
            let twice = scale * scale;
            let (sinh, cosh) = ((1.0 - twice) / 2.0, (1.0 + twice) / 2.0);
            let f = sinh / z;
            let f1 = (cosh - f) / z;
            [f, f1, f - 2.0 * f1 / z]
        };
        let mean = (1.0 - self.active) * scale + self.active * f;
        let slope = self.active * self.half_width * f1 / mean;
        let square = self.active * self.half_width * self.half_width * f2 / mean;
        Cumulants {
            value: self.terms * (mean.ln() + z),
            slope: self.terms * slope,
            curvature: self.terms * (square - slope * slope),
        }
    }
}

const SERIES_BELOW: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::NoiseBudget;
    use crate::table::SETS;

    #[test]
    fn the_distribution_has_the_variance_of_the_budget() {
        for set in SETS {
            let curvature = SwitchError::of(set).cumulants(0.0).curvature;
            let mask = NoiseBudget::of(set).modulus_switch.mask;
            // The distribution is continuous, but the budget includes the grid of the small
            // modulus.
            assert!((curvature / mask - 1.0).abs() < 1e-4, "{}", set.name);
        }
    }

    #[test]
    fn derivatives_are_those_of_the_value() {
        let error = SwitchError { terms: 293.0, active: 0.875, half_width: 0.5 };
        for t in [1e-3, 0.09, 0.11, 0.5, 3.0, 60.0] {
            let h = t * 1e-4;
            let [below, here, above] = [t - h, t, t + h].map(|t| error.cumulants(t));
            assert!(((above.value - below.value) / (2.0 * h) / here.slope - 1.0).abs() < 1e-5, "{t}");
            assert!(((above.slope - below.slope) / (2.0 * h) / here.curvature - 1.0).abs() < 1e-5, "{t}");
        }
    }
}
