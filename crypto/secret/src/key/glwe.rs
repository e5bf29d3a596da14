//! The secret key of GLWE ciphertexts.

use std::{fmt, ops::RangeInclusive};

use cloakwork_math::{Torus, random::SecretRng};
use cloakwork_tfhe::ShapeError;
use zeroize::Zeroizing;

use super::LweSecretKey;
use crate::{SecretError, exact_product::ExactProduct};

/// k secret polynomials of N bits. Flattened, they are the key of LWE ciphertexts extracted from a
/// GLWE ciphertext.
#[derive(Clone)]
pub struct GlweSecretKey {
    flattened: LweSecretKey,
    polynomial_size: usize,
}

/// Allowed numbers of coefficients of a polynomial.
const POLYNOMIAL_SIZES: RangeInclusive<usize> = 2..=1 << 16;

/// Allowed numbers of polynomials.
const GLWE_DIMENSIONS: RangeInclusive<usize> = 1..=4;

impl GlweSecretKey {
    /// Generates fresh bits if the error bound of exact products is proved for the shape.
    pub fn generate(glwe_dimension: usize, polynomial_size: usize, rng: &mut SecretRng) -> Result<Self, ShapeError> {
        check(glwe_dimension, polynomial_size)?;
        Ok(Self { flattened: LweSecretKey::generate(glwe_dimension * polynomial_size, rng), polynomial_size })
    }

    /// Takes over a key from elsewhere, one bit per byte, polynomial after polynomial. SECRET.
    pub fn from_bits(polynomial_size: usize, bits: Vec<u8>) -> Result<Self, SecretError> {
        Self::from_flattened(polynomial_size, LweSecretKey::from_bits(bits)?)
    }

    /// Builds one polynomial from the bits of an LWE key in reverse order.
    pub(crate) fn reversed(bits: &[u8]) -> Result<Self, SecretError> {
        Self::from_bits(bits.len(), bits.iter().rev().copied().collect())
    }

    fn from_flattened(polynomial_size: usize, flattened: LweSecretKey) -> Result<Self, SecretError> {
        let got = flattened.dimension();
        check(got.checked_div(polynomial_size).unwrap_or(0), polynomial_size)?;
        if !got.is_multiple_of(polynomial_size) {
            let what = "bits of a GLWE secret key (a multiple of its polynomial's)";
            return Err(ShapeError { what, expected: got.next_multiple_of(polynomial_size), got }.into());
        }
        Ok(Self { flattened, polynomial_size })
    }

    /// The key bits, one per byte, polynomial after polynomial. SECRET.
    pub fn bits(&self) -> &[u8] {
        self.flattened.bits()
    }

    /// The key bits as the key of extracted LWE ciphertexts.
    pub fn flattened(&self) -> &LweSecretKey {
        &self.flattened
    }

    /// The GLWE dimension k.
    pub fn glwe_dimension(&self) -> usize {
        self.flattened.dimension() / self.polynomial_size
    }

    /// The polynomial size N.
    pub fn polynomial_size(&self) -> usize {
        self.polynomial_size
    }

    /// Computes `B - sum A_i S_i` of each ciphertext, which has k mask polynomials and a body.
    /// SECRET.
    pub fn phases<T: Torus>(&self, ciphertexts: &[T]) -> Result<Vec<T>, ShapeError> {
        let words = self.flattened.dimension() + self.polynomial_size;
        if !ciphertexts.len().is_multiple_of(words) {
            let (expected, got) = (ciphertexts.len().next_multiple_of(words), ciphertexts.len());
            return Err(ShapeError { what: "words of whole GLWE ciphertexts", expected, got });
        }
        let product = ExactProduct::new::<T>(self);
        let mut scratch = product.scratch();
        let mut phases = Vec::with_capacity(ciphertexts.len() / words * self.polynomial_size);
        for ciphertext in ciphertexts.chunks_exact(words) {
            let (mask, body) = ciphertext.split_at(self.flattened.dimension());
            let mut sum = Zeroizing::new(vec![T::default(); self.polynomial_size]);
            product.add_product(mask, &mut sum, &mut scratch);
            phases.extend(body.iter().zip(sum.iter()).map(|(body, sum)| body.wrapping_sub(*sum)));
        }
        Ok(phases)
    }
}

/// Checks that a shape is in the allowed range, for which the error bound of exact products holds.
/// All parameter sets are well within this range.
fn check(glwe_dimension: usize, polynomial_size: usize) -> Result<(), ShapeError> {
    if !POLYNOMIAL_SIZES.contains(&polynomial_size) || !polynomial_size.is_power_of_two() {
        let what = "coefficients of a GLWE secret key's polynomial (a power of two from 2 to 65536)";
        let expected = polynomial_size.clamp(*POLYNOMIAL_SIZES.start(), *POLYNOMIAL_SIZES.end()).next_power_of_two();
        return Err(ShapeError { what, expected, got: polynomial_size });
    }
    if !GLWE_DIMENSIONS.contains(&glwe_dimension) {
        let what = "polynomials of a GLWE secret key (1 to 4)";
        let expected = glwe_dimension.clamp(*GLWE_DIMENSIONS.start(), *GLWE_DIMENSIONS.end());
        return Err(ShapeError { what, expected, got: glwe_dimension });
    }
    Ok(())
}

impl fmt::Debug for GlweSecretKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "GlweSecretKey({} x {} bits)", self.glwe_dimension(), self.polynomial_size)
    }
}
