//! Exact samples of wide discrete Gaussians.

use super::SecretRng;

impl SecretRng {
    /// A sample of the discrete Gaussian on the integers, with weight exp(-x^2 / (2 `sigma`^2)).
    ///
    /// The sampler is that of Canonne, Kamath and Steinke (2020): it computes with integers only,
    /// so that each integer has exactly its probability. A rounded double would leave out some
    /// integers, and an observer of a sum with the sample could exclude some summands. The time
    /// depends on the sample.
    ///
    /// # Panics
    ///
    /// If `sigma` is 0 or above [`SIGMA_MAX`].
    pub fn discrete_gaussian(&mut self, sigma: u64) -> i64 {
        assert!((1..=SIGMA_MAX).contains(&sigma), "a standard deviation in range");
        let (sigma, variance) = (u128::from(sigma), u128::from(sigma) * u128::from(sigma));
        loop {
            let (magnitude, is_negative) = self.laplace(sigma);
            let distance = magnitude.abs_diff(sigma);
            if self.exp_event(distance * distance, 2 * variance) {
                let magnitude = magnitude as i64;
                return if is_negative { -magnitude } else { magnitude };
            }
        }
    }

    /// A sample of the discrete Laplace distribution, with weight exp(-|x| / `scale`).
    fn laplace(&mut self, scale: u128) -> (u128, bool) {
        loop {
            let rest = self.below(scale);
            if !self.exp_event(rest, scale) {
                continue;
            }
            let whole = (0..TAIL).take_while(|_| self.exp_event(1, 1)).count() as u128;
            let (magnitude, is_negative) = (rest + scale * whole, self.word() & 1 == 1);
            // Zero has one sign.
            if magnitude > 0 || !is_negative {
                return (magnitude, is_negative);
            }
        }
    }

    /// An event of probability exp(-`numerator` / `denominator`).
    fn exp_event(&mut self, mut numerator: u128, denominator: u128) -> bool {
        while numerator > denominator {
            if !self.exp_event(denominator, denominator) {
                return false;
            }
            numerator -= denominator;
        }
        // The alternating series of exp(-x): with probability x^k / k!, the first k of the events
        // of probabilities x, x / 2, x / 3, .. all happen.
        let happened = (1..).take_while(|step| self.below(denominator * step) < numerator).count();
        happened.is_multiple_of(2)
    }

    /// A uniform number below `end`.
    fn below(&mut self, end: u128) -> u128 {
        let mask = u128::MAX >> (end - 1).leading_zeros().min(127);
        loop {
            let high = if mask >> 64 == 0 { 0 } else { u128::from(self.word()) << 64 };
            let number = (high | u128::from(self.word())) & mask;
            if number < end {
                return number;
            }
        }
    }
}

/// The largest standard deviation. The squares of the samples, times some steps of a series, then
/// fit 128 bits.
pub const SIGMA_MAX: u64 = 1 << 56;

/// Bound of the whole multiples of the scale in a Laplace sample. The mass beyond is 2^-138.
const TAIL: u32 = 96;

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts of the samples from -`bound` to `bound`.
    fn counts(sigma: u64, bound: i64, samples: usize) -> Vec<f64> {
        let mut rng = SecretRng::insecure_for_tests(sigma);
        let mut counts = vec![0.0; 2 * bound as usize + 1];
        for _ in 0..samples {
            let sample = rng.discrete_gaussian(sigma);
            if sample.abs() <= bound {
                counts[(sample + bound) as usize] += 1.0;
            }
        }
        counts
    }

    /// Each bound is six standard deviations of a count.
    #[test]
    fn narrow_samples_have_their_probabilities() {
        const SAMPLES: usize = 200_000;
        for sigma in [1, 2, 3] {
            let weight = |x: i64| (-(x as f64).powi(2) / (2 * sigma * sigma) as f64).exp();
            let total: f64 = (-60..=60).map(weight).sum();
            for (count, x) in counts(sigma as u64, 12, SAMPLES).into_iter().zip(-12..) {
                let expected = SAMPLES as f64 * weight(x) / total;
                assert!(
                    (count - expected).abs() <= 6.0 * expected.sqrt() + 6.0,
                    "{sigma}: {x}: {count}, not {expected}"
                );
            }
        }
    }

    #[test]
    fn wide_samples_have_the_moments_of_a_normal() {
        const SAMPLES: usize = 20_000;
        for sigma in [1000, (1 << 40) + 12_345, SIGMA_MAX] {
            let mut rng = SecretRng::insecure_for_tests(7);
            let samples: Vec<f64> = (0..SAMPLES).map(|_| rng.discrete_gaussian(sigma) as f64 / sigma as f64).collect();
            let moment = |order: i32| samples.iter().map(|x| x.powi(order)).sum::<f64>() / SAMPLES as f64;
            let within =
                |value: f64, mean: f64, variance: f64| (value - mean).abs() < 6.0 * (variance / SAMPLES as f64).sqrt();
            assert!(within(moment(1), 0.0, 1.0) && within(moment(2), 1.0, 2.0), "{sigma}");
            assert!(within(moment(3), 0.0, 15.0) && within(moment(4), 3.0, 96.0), "{sigma}");
        }
    }

    /// Low bits of wide samples are uniform, so that no integer is left out.
    #[test]
    fn low_bits_of_wide_samples_are_uniform() {
        let mut rng = SecretRng::insecure_for_tests(11);
        let mut ones = [0_u32; 24];
        for _ in 0..10_000 {
            let sample = rng.discrete_gaussian(1 << 50);
            ones.iter_mut().enumerate().for_each(|(bit, ones)| *ones += (sample >> bit & 1) as u32);
        }
        assert!(ones.iter().all(|ones| (f64::from(*ones) - 5000.0).abs() < 6.0 * 50.0), "{ones:?}");
    }
}
