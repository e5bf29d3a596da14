//! The errors of a generated key, compared with the distribution that they must follow.

use std::collections::HashSet;

use cloakwork_math::Torus;
use cloakwork_params::{Noise, noise::variance};

/// Errors of one key in the order of the key, in units of the smallest step of their modulus.
pub(crate) struct Errors {
    modulus_log2: u32,
    steps: Vec<i64>,
}

/// Number of following items that each item is compared with: more than the number of threads.
const NEIGHBOURS: usize = 32;

/// Length of a run of consecutive errors. No run may occur twice in a key.
const RUN_LEN: usize = 32;

impl Errors {
    pub(crate) fn new(modulus_log2: u32) -> Self {
        Self { modulus_log2, steps: vec![] }
    }

    /// Adds the difference of each phase and its plaintext.
    pub(crate) fn extend<T: Torus>(&mut self, phases: &[T], plaintexts: &[T]) {
        assert_eq!(phases.len(), plaintexts.len());
        let unused = T::BITS - self.modulus_log2;
        let errors = phases.iter().zip(plaintexts).map(|(phase, plain)| phase.wrapping_sub(*plain).to_i64());
        self.steps.extend(errors.map(|error| {
            assert_eq!(error & ((1 << unused) - 1), 0, "below the least step of the modulus");
            error >> unused
        }));
    }

    /// Checks that all errors follow `noise`. Each group of `item` errors comes from one fork of
    /// the generator.
    ///
    /// Mean and variance are allowed six standard deviations of their own, to either side: a
    /// correct sampler fails with probability 2^-29 each. The correlation of two items is allowed
    /// eight. Independent items exceed this with probability below 2^-36 from 128 errors on
    /// (Chernoff bound of a sum of products of normal values). Seeds are fixed, so a test that
    /// passes once passes again.
    pub(crate) fn assert_follow(&self, noise: Noise, item: usize, key: &str) {
        let count = self.steps.len() as f64;
        assert!(count >= 1000.0 && item >= 128, "{key}: too few errors to tell");
        let expected = self.variance(noise);
        // The fourth moment in units of the squared variance is 3 for normal values and 9/5 for
        // uniform ones. The relative variance of the sample variance is one less, over the count.
        let spread = match noise {
            Noise::Gaussian { .. } => (2.0 / count).sqrt(),
            Noise::TUniform { .. } => (0.8 / count).sqrt(),
        };
        let mean = self.steps.iter().map(|&step| step as f64).sum::<f64>() / count;
        assert!(mean.abs() < 6.0 * (expected / count).sqrt(), "{key}: errors have a mean of {mean} steps");
        let ratio = self.steps.iter().map(|&step| (step as f64).powi(2)).sum::<f64>() / count / expected;
        assert!((ratio - 1.0).abs() < 6.0 * spread, "{key}: variance is {ratio} of the set's, +-{}", 6.0 * spread);
        self.assert_no_run_twice(key);
        self.assert_uncorrelated(expected, item, key);
    }

    /// Checks for repeated output: a generator used twice repeats itself, at any position.
    fn assert_no_run_twice(&self, key: &str) {
        // The content decides where a run starts, so that equal runs are either all compared or all
        // skipped.
        let runs = self.steps.windows(RUN_LEN).filter(|run| run[0].rem_euclid(4) == 0);
        let mut seen = HashSet::new();
        for run in runs {
            assert!(seen.insert(run), "{key}: a run of {RUN_LEN} errors occurs twice");
        }
        assert!(!seen.is_empty(), "{key}: no run looked at");
    }

    fn assert_uncorrelated(&self, variance: f64, item: usize, key: &str) {
        let items: Vec<&[i64]> = self.steps.chunks_exact(item).collect();
        let limit = 8.0 / (item as f64).sqrt();
        for (index, one) in items.iter().enumerate() {
            for (distance, other) in items[index + 1..].iter().enumerate().take(NEIGHBOURS) {
                let sum: f64 = one.iter().zip(*other).map(|(&one, &other)| one as f64 * other as f64).sum();
                let correlation = sum / (item as f64 * variance);
                let place = (index, index + 1 + distance);
                assert!(correlation.abs() < limit, "{key}: items {place:?} correlate by {correlation}");
            }
        }
    }

    fn variance(&self, noise: Noise) -> f64 {
        let steps = variance(noise, self.modulus_log2) * 4_f64.powi(self.modulus_log2 as i32);
        match noise {
            // Rounding to a whole step adds 1/12.
            Noise::Gaussian { .. } => steps + 1.0 / 12.0,
            Noise::TUniform { .. } => steps,
        }
    }
}
