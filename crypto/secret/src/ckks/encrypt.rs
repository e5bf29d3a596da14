//! Encryption and decryption under a secret key.

use cloakwork_ckks::{Basis, Ciphertext, CkksError, Complex, Plaintext, Ring, SeededCiphertext, key::masks};
use zeroize::Zeroizing;

use super::{SecretKey, generate::body_of_zero, key::SecretPoly};
use crate::{Randomness, SecretError};

/// A plaintext to encrypt.
pub(super) struct Plain {
    pub(super) poly: SecretPoly,
    pub(super) scale: f64,
    pub(super) slots_log2: u32,
}

impl Plain {
    /// Encodes numbers at the set's own scale, at a level that numbers may be encrypted at.
    pub(super) fn of(ring: &Ring, numbers: &[Complex], level: usize) -> Result<Self, SecretError> {
        let max = ring.set().working_level;
        if level > max {
            return Err(CkksError::LevelTooHigh { what: "encryption under this set", got: level, max }.into());
        }
        let Plaintext { poly, scale, slots_log2 } = ring.encode(numbers, ring.scale(), Basis::of_level(level))?;
        // Decryption reads coefficients modulo two primes, so larger numbers would not come back.
        let largest = numbers.iter().map(|number| number.magnitude()).fold(0.0, f64::max);
        let modulus: f64 =
            ring.primes(Basis::of_level(level.min(1))).map(|prime| prime.modulus().value() as f64).product();
        if largest * scale >= modulus / 2.0 {
            return Err(too_large(scale, modulus));
        }
        Ok(Self { poly: SecretPoly(poly), scale, slots_log2 })
    }
}

impl SecretKey {
    /// Encrypts a power of two of numbers, up to N / 2, at the given level and the set's own scale.
    /// The mask is a seed, which halves the size of the ciphertext on the wire.
    pub fn encrypt_seeded(
        &self,
        ring: &Ring,
        numbers: &[Complex],
        level: usize,
        randomness: &mut Randomness,
    ) -> Result<SeededCiphertext, SecretError> {
        self.check(ring)?;
        let Plain { poly, scale, slots_log2 } = Plain::of(ring, numbers, level)?;
        let (basis, seed) = (poly.0.basis(), randomness.mask_seed()?);
        let mask = masks(ring, &seed, basis, 0);
        let mut body = body_of_zero(ring, &mask, &self.values(ring, basis), randomness);
        poly.add_to(ring, &mut body);
        Ok(SeededCiphertext { body, seed, scale, slots_log2 })
    }

    /// As [`Self::encrypt_seeded`], with the mask expanded for computation.
    pub fn encrypt(
        &self,
        ring: &Ring,
        numbers: &[Complex],
        level: usize,
        randomness: &mut Randomness,
    ) -> Result<Ciphertext, SecretError> {
        Ok(self.encrypt_seeded(ring, numbers, level, randomness)?.expand(ring)?)
    }

    /// Decrypts a ciphertext to approximate numbers.
    pub fn decrypt(&self, ring: &Ring, ciphertext: &Ciphertext) -> Result<Vec<Complex>, SecretError> {
        let coefficients = Zeroizing::new(self.coefficients_of(ring, ciphertext)?);
        Ok(ring.decode(&coefficients, ciphertext.scale, ciphertext.slots_log2))
    }

    /// Returns the coefficients of the plaintext with its noise, modulo the first two primes of the
    /// chain, or modulo the only one. If the ciphertext has a third prime, coefficients that exceed
    /// this modulus are an error. SECRET.
    pub fn coefficients_of(&self, ring: &Ring, ciphertext: &Ciphertext) -> Result<Vec<f64>, SecretError> {
        self.check(ring)?;
        let lower = ciphertext.at_level(ciphertext.level().min(2))?;
        let basis = lower.polys[0].basis();
        let secret = self.values(ring, basis);
        let [body, mask] = lower.polys;
        let mut phase = SecretPoly(body);
        for (row, prime) in ring.primes(basis).enumerate() {
            let mut product = Zeroizing::new(mask.row(row).to_vec());
            prime.pointwise.multiply(&mut product, secret.0.row(row));
            prime.pointwise.add(phase.0.row_mut(row), &product);
        }
        ring.inverse(&mut phase.0);
        let first = ring.prime(0).modulus();
        if basis.level == 0 {
            return Ok(phase.0.row(0).iter().map(|word| first.to_signed(*word) as f64).collect());
        }
        let second = ring.prime(1).modulus();
        let inverse = second.factor(second.inverse(second.reduce(first.value())));
        let both = i128::from(first.value()) * i128::from(second.value());
        let third = (basis.level == 2).then(|| (ring.prime(2).modulus(), phase.0.row(2)));
        let mut coefficients = Zeroizing::new(Vec::with_capacity(ring.size()));
        for (at, (low, high)) in phase.0.row(0).iter().zip(phase.0.row(1)).enumerate() {
            let times = inverse.times(second.sub(*high, second.reduce(*low)));
            let number = i128::from(*low) + i128::from(first.value()) * i128::from(times);
            let number = if number > both / 2 { number - both } else { number };
            if third.is_some_and(|(third, row)| third.of_signed(number) != row[at]) {
                return Err(too_large(ciphertext.scale, both as f64));
            }
            coefficients.push(number as f64);
        }
        Ok(std::mem::take(&mut *coefficients))
    }
}

/// The error for numbers that exceed the modulus that decryption reads them in.
fn too_large(scale: f64, modulus: f64) -> SecretError {
    CkksError::TooLarge { scale_log2: scale.log2(), modulus_log2: modulus.log2() }.into()
}
