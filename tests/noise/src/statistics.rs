//! Comparing a measured mean with a predicted one.

/// A measured mean next to its prediction.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// Mean of the samples.
    pub measured: f64,
    /// What the formula says.
    pub predicted: f64,
    /// How far the two may be apart.
    pub tolerance: f64,
}

/// Normal quantile of a two-sided false alarm in a million.
pub const DEVIATIONS: f64 = 4.9;

/// What the formula leaves out: the constants of the transform's error hold to 3% where that error is a third of the
/// variance, and the first steps of a blind rotation see an accumulator that is not random yet.
pub const MODEL_ERROR: f64 = 0.02;

/// Compares the mean of independent samples with `predicted`, where the formula may be wrong by `model_error` of itself.
///
/// The sample mean of some hundred samples is normal, with a deviation that the samples themselves tell.
pub fn compare(samples: &[f64], predicted: f64, model_error: f64) -> Comparison {
    let count = samples.len() as f64;
    let measured = samples.iter().sum::<f64>() / count;
    let spread = samples.iter().map(|sample| (sample - measured).powi(2)).sum::<f64>() / (count - 1.0);
    let tolerance = DEVIATIONS * (spread / count).sqrt() + model_error * predicted.abs();
    Comparison { measured, predicted, tolerance }
}

/// The squares of the samples, whose mean is the variance of samples without a mean.
pub fn squares(samples: &[f64]) -> Vec<f64> {
    samples.iter().map(|sample| sample * sample).collect()
}

impl Comparison {
    /// Does the measurement agree with the prediction?
    pub fn holds(&self) -> bool {
        (self.measured - self.predicted).abs() <= self.tolerance
    }

    /// Would it also have agreed with a prediction `factor` times as large?
    pub fn would_hold_for(&self, factor: f64) -> bool {
        (self.measured - factor * self.predicted).abs() <= self.tolerance
    }
}
