//! Comparison of a measured mean with a predicted mean.

/// A measured mean next to its prediction.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// Mean of the samples.
    pub measured: f64,
    /// Prediction of the formula.
    pub predicted: f64,
    /// Largest allowed difference between the two.
    pub tolerance: f64,
}

/// Number of standard deviations that a measurement may be off, which gives a two-sided false alarm
/// in a million.
pub const DEVIATIONS: f64 = 4.9;

impl Comparison {
    /// Compares the mean of independent samples. The formula may be wrong by `model_error`.
    ///
    /// The mean of some hundred samples is normal, and the samples determine its deviation.
    pub fn of_mean(samples: &[f64], predicted: f64, model_error: f64) -> Self {
        let count = samples.len() as f64;
        let measured = samples.iter().sum::<f64>() / count;
        let spread = samples.iter().map(|sample| (sample - measured).powi(2)).sum::<f64>() / (count - 1.0);
        Self { measured, predicted, tolerance: DEVIATIONS * (spread / count).sqrt() + model_error }
    }

    /// Compares the mean square of independent samples around `centre`.
    pub fn of_variance(samples: &[f64], centre: f64, predicted: f64, model_error: f64) -> Self {
        let squares: Vec<f64> = samples.iter().map(|sample| (sample - centre).powi(2)).collect();
        Self::of_mean(&squares, predicted, model_error)
    }

    /// Compares the variance of `count` independent normal samples.
    pub fn of_normal_variance(measured: f64, count: usize, predicted: f64, model_error: f64) -> Self {
        Self { measured, predicted, tolerance: DEVIATIONS * measured * (2.0 / count as f64).sqrt() + model_error }
    }

    /// Whether the measurement agrees with the prediction.
    pub fn holds(&self) -> bool {
        (self.measured - self.predicted).abs() <= self.tolerance
    }

    /// Returns the same measurement next to another prediction.
    pub fn against(self, predicted: f64) -> Self {
        Self { predicted, ..self }
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_math::random::SecretRng;

    use super::*;

    /// Uniform samples on [-1/2, 1/2), whose variance is 1/12.
    fn samples(count: usize) -> Vec<f64> {
        let mut rng = SecretRng::insecure_for_tests(1);
        (0..count).map(|_| rng.word() as i64 as f64 * (-64.0_f64).exp2()).collect()
    }

    #[test]
    fn a_true_variance_holds_and_one_off_by_a_tenth_does_not() {
        let comparison = Comparison::of_variance(&samples(10_000), 0.0, 1.0 / 12.0, 0.0);
        assert!(comparison.holds(), "{comparison:?}");
        assert!(!comparison.against(1.1 / 12.0).holds());
        assert!(!comparison.against(0.9 / 12.0).holds());
    }

    #[test]
    fn a_shifted_mean_does_not_hold() {
        let comparison = Comparison::of_mean(&samples(10_000), 0.0, 0.0);
        assert!(comparison.holds(), "{comparison:?}");
        assert!(!comparison.against(0.03).holds());
        assert!(comparison.against(0.01).holds(), "well within the tolerance");
    }

    #[test]
    fn few_samples_tolerate_more_than_many() {
        let tolerance = |count| Comparison::of_normal_variance(1.0, count, 1.0, 0.0).tolerance;
        assert!((tolerance(100) / tolerance(10_000) - 10.0).abs() < 1e-9);
    }
}
