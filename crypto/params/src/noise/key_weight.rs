//! Number of ones in a secret key. The noise depends on this number, not on the bits themselves.

use super::tail::log2_sum;
use crate::set::ParameterSet;

/// Properties of a secret key that determine its noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyWeight {
    /// Ones of the small key.
    pub small_ones: f64,
    /// Groups of the small key with at least one 1, if a blind-rotation step handles one group.
    /// Equal to `small_ones` for a classical set.
    pub small_groups: f64,
    /// Ones of the big key.
    pub big_ones: f64,
}

impl KeyWeight {
    /// The average over uniformly random binary keys.
    pub fn expected(set: &ParameterSet) -> Self {
        let small = set.lwe_dimension as f64;
        let group = set.grouping as i32;
        Self {
            small_ones: small / 2.0,
            small_groups: small / f64::from(group) * (1.0 - 0.5_f64.powi(group)),
            big_ones: set.big_dimension() as f64 / 2.0,
        }
    }

    /// A key whose two parts exceed the average number of ones by this many standard deviations.
    ///
    /// The groups stay average: the number of empty groups is part of the distribution of the
    /// modulus switch.
    pub fn beyond(set: &ParameterSet, small: f64, big: f64) -> Self {
        let ones = |bits: usize, deviations: f64| {
            let bits = bits as f64;
            (bits / 2.0 + deviations * bits.sqrt() / 2.0).clamp(0.0, bits)
        };
        Self {
            small_ones: ones(set.lwe_dimension, small),
            big_ones: ones(set.big_dimension(), big),
            ..Self::expected(set)
        }
    }

    /// log2 of a probability averaged over random keys. `log2_of` gives the probability for each
    /// key.
    pub fn averaged_log2(set: &ParameterSet, log2_of: impl Fn(Self) -> f64) -> f64 {
        // Whole deviations are enough: at such points, sums of a smooth function under a normal
        // density equal its integral to eight digits.
        let points = || (-DEVIATIONS_MAX..=DEVIATIONS_MAX).map(f64::from);
        let (mut sum, mut density) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        for (small, big) in points().flat_map(|small| points().map(move |big| (small, big))) {
            let log2_density = -(small * small + big * big) / 2.0 * std::f64::consts::LOG2_E;
            density = log2_sum(density, log2_density);
            sum = log2_sum(sum, log2_density + log2_of(Self::beyond(set, small, big)));
        }
        sum - density
    }
}

/// Maximum standard deviations of a key from the average. One key in 2^50 is beyond.
const DEVIATIONS_MAX: i32 = 8;

#[cfg(test)]
mod tests {
    use std::f64::consts::LN_2;

    use super::*;
    use crate::{set::SetId, table::find};

    #[test]
    fn an_average_over_keys_is_that_of_the_normal_distribution() {
        let set = find(SetId(2)).expect("2_2");
        let mean = KeyWeight::expected(set);
        let deviations = |key: KeyWeight| {
            let [small, big] = [set.lwe_dimension, set.big_dimension()].map(|bits| (bits as f64).sqrt() / 2.0);
            [(key.small_ones - mean.small_ones) / small, (key.big_ones - mean.big_ones) / big]
        };
        let averaged = |a: f64, b: f64| {
            KeyWeight::averaged_log2(set, |key| {
                let [small, big] = deviations(key);
                a * small + b * big - 200.0
            })
        };
        assert!((averaged(0.0, 0.0) + 200.0).abs() < 1e-9);
        // The mean of e^(c z) is e^(c^2 / 2).
        for (a, b) in [(1.5, 0.0), (0.0, -2.0), (1.0, 2.0)] {
            assert!((averaged(a, b) + 200.0 - LN_2 / 2.0 * (a * a + b * b)).abs() < 1e-6, "{a} {b}");
        }
    }
}
