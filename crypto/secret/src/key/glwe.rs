//! The secret key of GLWE ciphertexts.

use std::fmt;

use cloakwork_math::{Torus, random::SecretRng};
use cloakwork_tfhe::ShapeError;

use super::LweSecretKey;
use crate::{SecretError, exact_product::ExactProduct};

/// k secret polynomials of N bits; flattened, the key of the LWE ciphertexts extracted from a GLWE one.
#[derive(Clone)]
pub struct GlweSecretKey {
    flattened: LweSecretKey,
    polynomial_size: usize,
}

impl GlweSecretKey {
    /// Most bits of a key: far above every set, and well within the reach of exact products.
    const DIMENSION_MAX: usize = 1 << 20;

    /// Fresh bits.
    pub fn generate(glwe_dimension: usize, polynomial_size: usize, rng: &mut SecretRng) -> Self {
        Self { flattened: LweSecretKey::generate(glwe_dimension * polynomial_size, rng), polynomial_size }
    }

    /// Takes over a key from elsewhere, one bit a byte, polynomial after polynomial. SECRET.
    pub fn from_bits(polynomial_size: usize, bits: Vec<u8>) -> Result<Self, SecretError> {
        Self::from_flattened(polynomial_size, LweSecretKey::from_bits(bits)?)
    }

    /// One polynomial with the bits of an LWE key, the last first.
    pub(crate) fn reversed(bits: &[u8]) -> Result<Self, SecretError> {
        Self::from_bits(bits.len(), bits.iter().rev().copied().collect())
    }

    fn from_flattened(polynomial_size: usize, flattened: LweSecretKey) -> Result<Self, SecretError> {
        let got = flattened.dimension();
        if !(2..=Self::DIMENSION_MAX).contains(&polynomial_size) || !polynomial_size.is_power_of_two() {
            let what = "coefficients of a GLWE secret key's polynomial (a power of two)";
            return Err(ShapeError { what, expected: polynomial_size.next_power_of_two(), got: polynomial_size }.into());
        }
        if got == 0 || got > Self::DIMENSION_MAX || !got.is_multiple_of(polynomial_size) {
            let what = "bits of a GLWE secret key (a multiple of its polynomial's)";
            return Err(ShapeError { what, expected: polynomial_size, got }.into());
        }
        Ok(Self { flattened, polynomial_size })
    }

    /// The key itself, one bit a byte, polynomial after polynomial. SECRET.
    pub fn bits(&self) -> &[u8] {
        self.flattened.bits()
    }

    /// The same bits as the key of extracted LWE ciphertexts.
    pub fn flattened(&self) -> &LweSecretKey {
        &self.flattened
    }

    /// k.
    pub fn glwe_dimension(&self) -> usize {
        self.flattened.dimension() / self.polynomial_size
    }

    /// N.
    pub fn polynomial_size(&self) -> usize {
        self.polynomial_size
    }

    /// `B - sum A_i S_i` of each ciphertext, k mask polynomials and a body each. SECRET.
    pub fn phases<T: Torus>(&self, ciphertexts: &[T]) -> Vec<T> {
        let product = ExactProduct::new::<T>(self);
        let mut scratch = product.scratch();
        let mut phases = Vec::with_capacity(ciphertexts.len() / (self.glwe_dimension() + 1));
        for ciphertext in ciphertexts.chunks_exact(self.flattened.dimension() + self.polynomial_size) {
            let (mask, body) = ciphertext.split_at(self.flattened.dimension());
            let mut sum = vec![T::default(); self.polynomial_size];
            product.add_product(mask, &mut sum, &mut scratch);
            phases.extend(body.iter().zip(&sum).map(|(body, sum)| body.wrapping_sub(*sum)));
        }
        phases
    }
}

impl fmt::Debug for GlweSecretKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "GlweSecretKey({} x {} bits)", self.glwe_dimension(), self.polynomial_size)
    }
}
