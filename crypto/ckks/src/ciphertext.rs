//! Ciphertexts of CKKS.

use crate::{
    error::CkksError,
    poly::{Basis, Poly},
};

/// Encrypted numbers under one secret: the body plus the mask times the secret approximates the
/// plaintext.
#[derive(Clone)]
pub struct Ciphertext {
    /// Body and mask.
    pub polys: [Poly; 2],
    /// Scale: the factor of the numbers in the plaintext.
    pub scale: f64,
    /// log2 of the number of slots.
    pub slots_log2: u32,
}

impl Ciphertext {
    /// Number of multiplications left.
    pub fn level(&self) -> usize {
        self.polys[0].basis().level
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        1 << self.slots_log2
    }

    /// Returns the same numbers at a lower level.
    pub fn at_level(&self, level: usize) -> Result<Self, CkksError> {
        if level > self.level() {
            return Err(CkksError::LevelTooHigh { what: "this ciphertext", got: level, max: self.level() });
        }
        let polys = self.polys.each_ref().map(|poly| poly.at_level(level));
        Ok(Self { polys, scale: self.scale, slots_log2: self.slots_log2 })
    }

    /// Moves the ciphertext to memory of its exact size. A ciphertext that has lost primes still
    /// occupies the memory for them. The copy frees this memory for others.
    #[must_use]
    pub fn fitted(self) -> Self {
        Self { polys: self.polys.map(Poly::fitted), ..self }
    }

    pub(crate) fn basis(&self) -> Basis {
        self.polys[0].basis()
    }
}
