//! Encrypted numbers whose mask comes from a seed: half the size.

use cloakwork_math::random::MaskSeed;

use crate::{ciphertext::Ciphertext, error::CkksError, key::masks, poly::Poly, ring::Ring};

/// A ciphertext that is fresh from the secret key.
pub struct SeededCiphertext {
    /// Its body.
    pub body: Poly,
    /// Where the mask comes from: prime by prime, as those of a key's first part.
    pub seed: MaskSeed,
    /// What the numbers are multiplied by.
    pub scale: f64,
    /// log2 of how many there are.
    pub slots_log2: u32,
}

impl SeededCiphertext {
    /// Multiplications that are left.
    pub fn level(&self) -> usize {
        self.body.basis().level
    }

    /// Computes the mask, if the ciphertext is one of the ring.
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
