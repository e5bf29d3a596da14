//! Decryption whose results hide their errors.

use cloakwork_ckks::{Ciphertext, Complex, Ring};
use cloakwork_math::random::{SIGMA_MAX, SecretRng};
use zeroize::Zeroizing;

use super::{SecretKey, encrypt::to_double};
use crate::{Randomness, SecretError};

/// Noise that hides the errors of results from those who see the results.
///
/// Every coefficient of a result gets noise of the standard deviation sqrt(24 r) 2^(s/2) e, for r
/// results, s statistical bits and an error of norm e. An observer of the r results then faces s
/// bits of statistical security. The formula is that of Li, Micciancio, Schultz and Sorrell (CRYPTO
/// 2022, corollary 2) without its factor sqrt(2n), as OpenFHE corrects it, and with twice the
/// variance as a margin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flooding {
    error: f64,
    results: u32,
    statistical_bits: u32,
}

/// Largest number of results that a caller may state.
const RESULTS_MAX: u32 = 1 << 20;

/// Statistical bits that a caller may choose. OpenFHE asks for the same least number.
const STATISTICAL_BITS: std::ops::RangeInclusive<u32> = 30..=48;

/// log2 of the steps of the grid within the error. Noise is exact on this grid and uniform within
/// its steps. Over 2^16 coefficients, the steps add less than 2^-8 to the square of the error.
const GRID_LOG2: i32 = 12;

impl Flooding {
    /// Noise for results whose numbers have an error of at most `error` in the root mean square of
    /// its magnitude, for every input that an observer may know or choose. `results` is the number
    /// of results that others see over the life of the key. There are 30 statistical bits.
    pub fn new(error: f64, results: u32) -> Result<Self, SecretError> {
        let is_valid = error.is_normal() && error > 0.0 && (1..=RESULTS_MAX).contains(&results);
        let statistical_bits = *STATISTICAL_BITS.start();
        is_valid.then_some(Self { error, results, statistical_bits }).ok_or(SecretError::NoSuchFlooding)
    }

    /// This noise with another number of statistical bits, from 30 to 48.
    pub fn with_statistical_bits(self, bits: u32) -> Result<Self, SecretError> {
        let is_valid = STATISTICAL_BITS.contains(&bits);
        is_valid.then_some(Self { statistical_bits: bits, ..self }).ok_or(SecretError::NoSuchFlooding)
    }

    /// Root mean square of the noise in each of 2^`slots_log2` numbers.
    pub fn noise(&self, slots_log2: u32) -> f64 {
        self.factor() * self.error * f64::from(slots_log2 + 1).exp2().sqrt()
    }

    /// The noise of a coefficient over the norm of the error.
    fn factor(&self) -> f64 {
        (24.0 * f64::from(self.results)).sqrt() * f64::from(self.statistical_bits).exp2().sqrt()
    }
}

impl SecretKey {
    /// Decrypts a ciphertext, and adds noise that hides the error from those who see the numbers.
    pub fn decrypt_flooded(
        &self,
        ring: &Ring,
        ciphertext: &Ciphertext,
        flooding: &Flooding,
        randomness: &mut Randomness,
    ) -> Result<Vec<Complex>, SecretError> {
        let mut coefficients = Zeroizing::new(self.integers_of(ring, ciphertext)?);
        // The norm of the error in the coefficients that carry the numbers. In the embedding, the
        // norm of these coefficients is the root mean square of the numbers.
        let norm = flooding.error * ciphertext.scale;
        let grid_log2 = (norm.log2().floor().max(0.0) as i32 - GRID_LOG2).max(0);
        let sigma = (flooding.factor() * norm / f64::from(grid_log2).exp2()).ceil();
        if grid_log2 > 62 || sigma > SIGMA_MAX as f64 {
            return Err(SecretError::NoSuchFlooding);
        }
        // Only these coefficients carry numbers.
        let gap = ring.set().slots() >> ciphertext.slots_log2;
        let with_numbers = coefficients.iter_mut().step_by(gap);
        flood(with_numbers, sigma as u64, grid_log2 as u32, randomness.renewed_secret()?);
        let coefficients: Zeroizing<Vec<f64>> =
            Zeroizing::new(coefficients.iter().map(|one| to_double(*one)).collect());
        Ok(ring.decode(&coefficients, ciphertext.scale, ciphertext.slots_log2))
    }
}

/// Adds noise: Gaussian in steps of 2^`grid_log2`, and uniform within a step.
fn flood<'a>(coefficients: impl Iterator<Item = &'a mut i128>, sigma: u64, grid_log2: u32, secret: &mut SecretRng) {
    for coefficient in coefficients {
        let within = secret.word() & ((1 << grid_log2) - 1);
        *coefficient += (i128::from(secret.discrete_gaussian(sigma)) << grid_log2) + i128::from(within);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bit that the noise leaves alone would disclose a bit of the error.
    #[test]
    fn noise_reaches_every_bit_of_a_coefficient() {
        const COUNT: usize = 10_000;
        let mut coefficients = vec![0_i128; COUNT];
        flood(coefficients.iter_mut(), 1 << 30, 20, &mut SecretRng::insecure_for_tests(1));
        for bit in 0..48 {
            let ones = coefficients.iter().filter(|coefficient| **coefficient >> bit & 1 == 1).count() as f64;
            assert!((ones - COUNT as f64 / 2.0).abs() < 6.0 * (COUNT as f64).sqrt() / 2.0, "bit {bit}: {ones}");
        }
    }
}
