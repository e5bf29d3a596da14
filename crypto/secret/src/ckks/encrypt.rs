//! Encryption and decryption under a secret key.

use cloakwork_ckks::{Basis, Ciphertext, CkksError, Complex, Plaintext, Ring, SeededCiphertext, key::masks};
use cloakwork_math::modulus;
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

    /// Returns the coefficients of the plaintext with its noise, as doubles. SECRET.
    pub fn coefficients_of(&self, ring: &Ring, ciphertext: &Ciphertext) -> Result<Vec<f64>, SecretError> {
        let integers = Zeroizing::new(self.integers_of(ring, ciphertext)?);
        Ok(integers.iter().map(|integer| to_double(*integer)).collect())
    }

    /// Returns the coefficients of the plaintext with its noise, modulo the first two primes of the
    /// chain, or modulo the only one. If the ciphertext has a third prime, coefficients that exceed
    /// this modulus are an error. SECRET.
    pub(super) fn integers_of(&self, ring: &Ring, ciphertext: &Ciphertext) -> Result<Vec<i128>, SecretError> {
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
            return Ok(phase.0.row(0).iter().map(|word| i128::from(first.to_signed(*word))).collect());
        }
        let second = ring.prime(1).modulus();
        let (inverse, in_second) =
            (second.factor(second.inverse(second.reduce(first.value()))), second.constant_time());
        let both = i128::from(first.value()) * i128::from(second.value());
        let third = (basis.level == 2).then(|| (ring.prime(2).modulus().constant_time(), phase.0.row(2)));
        let mut coefficients = Zeroizing::new(Vec::with_capacity(ring.size()));
        let mut differences = 0;
        for (at, (low, high)) in phase.0.row(0).iter().zip(phase.0.row(1)).enumerate() {
            let times = in_second.times(inverse, in_second.sub(*high, in_second.of_word(*low)));
            let number = i128::from(*low) + i128::from(first.value()) * i128::from(times);
            let number = number - (both & i128::from(modulus::mask(number > both / 2) as i64));
            if let Some((third, row)) = third {
                differences |= third.of_signed(number) ^ row[at];
            }
            coefficients.push(number);
        }
        if differences != 0 {
            return Err(too_large(ciphertext.scale, both as f64));
        }
        Ok(std::mem::take(&mut *coefficients))
    }
}

/// Converts a number of magnitude below 2^116 to a double within two roundings, in the same time
/// for every number. The conversion of the language counts leading zeros and branches on them.
pub(super) fn to_double(number: i128) -> f64 {
    debug_assert!(number.unsigned_abs() < 1 << 116);
    const LOW_BITS: u32 = 53;
    let (low, high) = (number & ((1 << LOW_BITS) - 1), number >> LOW_BITS);
    high as i64 as f64 * (1_u64 << LOW_BITS) as f64 + low as i64 as f64
}

/// The error for numbers that exceed the modulus that decryption reads them in.
fn too_large(scale: f64, modulus: f64) -> SecretError {
    CkksError::TooLarge { scale_log2: scale.log2(), modulus_log2: modulus.log2() }.into()
}
