//! Plaintexts: numbers that are encoded as polynomials but not encrypted.

use zeroize::Zeroizing;

use crate::{
    complex::Complex,
    error::CkksError,
    poly::{Basis, Poly},
    ring::Ring,
};

/// Some numbers as a polynomial.
#[derive(Clone)]
pub struct Plaintext {
    /// The polynomial, in its evaluated form.
    pub poly: Poly,
    /// Scale: the factor of the numbers in the polynomial.
    pub scale: f64,
    /// log2 of the number of slots.
    pub slots_log2: u32,
}

/// Maximum size of encoded coefficients, which become signed words of 128 bits. The remaining bits
/// leave room for values that are added to them.
const COEFFICIENT_BITS_MAX: f64 = 120.0;

impl Ring {
    /// Encodes a power of two of numbers, up to N / 2, modulo the primes of a basis.
    pub fn encode(&self, numbers: &[Complex], scale: f64, basis: Basis) -> Result<Plaintext, CkksError> {
        let max = self.set().slots();
        if !numbers.len().is_power_of_two() || numbers.len() > max {
            return Err(CkksError::WrongSlots { got: numbers.len(), max });
        }
        if basis.level > self.level_max() {
            return Err(CkksError::LevelTooHigh { what: self.set().name, got: basis.level, max: self.level_max() });
        }
        if basis.special > self.set().special.len() {
            let (got, max) = (basis.special, self.set().special.len());
            return Err(CkksError::LevelTooHigh { what: "the number of special primes", got, max });
        }
        if let Some(index) = numbers.iter().position(|number| !number.is_finite()) {
            return Err(CkksError::NotFinite { index });
        }
        let slots_log2 = numbers.len().ilog2();
        // On a client the numbers are secret, so all copies are wiped.
        let mut coefficients = Zeroizing::new(numbers.to_vec());
        self.embedding(slots_log2).coefficients(&mut coefficients);
        let magnitude = coefficients.iter().fold(0_f64, |max, number| max.max(number.re.abs()).max(number.im.abs()));
        let bits: f64 = self.primes(basis).map(|prime| (prime.modulus().value() as f64).log2()).sum();
        let room = (bits - 1.0).min(COEFFICIENT_BITS_MAX);
        if !scale.is_normal() || scale <= 0.0 || (magnitude > 0.0 && magnitude.log2() + scale.log2() >= room) {
            return Err(CkksError::TooLarge { scale_log2: scale.log2(), modulus_log2: bits });
        }
        let gap = max / numbers.len();
        let mut words = Zeroizing::new(vec![0_i128; self.size()]);
        for (place, coefficient) in coefficients.iter().enumerate() {
            words[place * gap] = (coefficient.re * scale).round() as i128;
            words[max + place * gap] = (coefficient.im * scale).round() as i128;
        }
        Ok(Plaintext { poly: self.of_coefficients(basis, &words), scale, slots_log2 })
    }

    /// Decodes coefficients to numbers.
    pub fn decode(&self, coefficients: &[f64], scale: f64, slots_log2: u32) -> Vec<Complex> {
        let (max, gap) = (self.set().slots(), self.set().slots() >> slots_log2);
        let mut numbers: Vec<Complex> = (0..1 << slots_log2)
            .map(|place| Complex::new(coefficients[place * gap], coefficients[max + place * gap]).scale(1.0 / scale))
            .collect();
        self.embedding(slots_log2).values(&mut numbers);
        numbers
    }
}
