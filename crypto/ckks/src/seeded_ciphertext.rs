//! Ciphertexts whose mask comes from a seed, at half the size.

use cloakwork_math::random::MaskSeed;

use crate::{ciphertext::Ciphertext, error::CkksError, key::masks, poly::Poly, ring::Ring};

/// A fresh ciphertext made with the secret key.
pub struct SeededCiphertext {
    /// Body of the ciphertext.
    pub body: Poly,
    /// Seed of the mask, prime by prime, as in the first part of a key.
    pub seed: MaskSeed,
    /// Scale: the factor of the numbers in the plaintext.
    pub scale: f64,
    /// log2 of the number of slots.
    pub slots_log2: u32,
}

impl SeededCiphertext {
    /// Number of multiplications left.
    pub fn level(&self) -> usize {
        self.body.basis().level
    }

    /// Expands the mask if the ciphertext belongs to the ring.
    pub fn expand(self, ring: &Ring) -> Result<Ciphertext, CkksError> {
        let Self { body, seed, scale, slots_log2 } = self;
        let (basis, max) = (body.basis(), ring.level_max());
        if basis.level > max {
            return Err(CkksError::LevelTooHigh { what: ring.set().name, got: basis.level, max });
        }
        let mask = masks(ring, &seed, basis, 0);
        Ok(Ciphertext { polys: [body, mask], scale, slots_log2 })
    }
}
