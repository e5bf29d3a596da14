//! The secret key of LWE ciphertexts.

use std::fmt;

use cloakwork_math::{Torus, random::SecretRng};
use cloakwork_tfhe::ShapeError;
use zeroize::Zeroizing;

use crate::SecretError;

/// Secret bits s of LWE ciphertexts `[a, b]` with phase `b - <a, s>`.
#[derive(Clone)]
pub struct LweSecretKey {
    bits: Zeroizing<Vec<u8>>,
}

impl LweSecretKey {
    /// Generates fresh bits.
    pub fn generate(dimension: usize, rng: &mut SecretRng) -> Self {
        let mut bits = Zeroizing::new(vec![0; dimension]);
        rng.fill_binary(&mut bits);
        Self { bits }
    }

    /// Takes over a key from elsewhere, one bit per byte. SECRET; a refused key is wiped as well.
    pub fn from_bits(bits: Vec<u8>) -> Result<Self, SecretError> {
        let bits = Zeroizing::new(bits);
        match bits.iter().position(|&bit| bit > 1) {
            None => Ok(Self { bits }),
            Some(index) => Err(SecretError::NotABit { index }),
        }
    }

    /// The key bits, one per byte. SECRET: for export to another library, never for a server.
    pub fn bits(&self) -> &[u8] {
        &self.bits
    }

    /// Number of bits.
    pub fn dimension(&self) -> usize {
        self.bits.len()
    }

    /// Computes `b - <a, s>` of one ciphertext: the plaintext with its noise. SECRET.
    pub fn phase<T: Torus>(&self, ciphertext: &[T]) -> Result<T, ShapeError> {
        match ciphertext.split_at_checked(self.dimension()) {
            Some((mask, [body])) => Ok(body.wrapping_sub(self.product(mask))),
            _ => {
                let (expected, got) = (self.dimension() + 1, ciphertext.len());
                Err(ShapeError { what: "words of an LWE ciphertext", expected, got })
            }
        }
    }

    /// Computes `<a, s>` in time that does not depend on the key.
    pub(crate) fn product<T: Torus>(&self, mask: &[T]) -> T {
        debug_assert_eq!(mask.len(), self.dimension());
        mask.iter()
            .zip(self.bits.iter())
            .fold(T::default(), |sum, (word, &bit)| sum.wrapping_add(word.wrapping_mul(T::from_u64(u64::from(bit)))))
    }
}

impl fmt::Debug for LweSecretKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "LweSecretKey({} bits)", self.dimension())
    }
}
