//! Encrypted numbers.

use crate::{
    error::CkksError,
    poly::{Basis, Poly},
};

/// Some numbers under one secret: body + mask times the secret is about their plaintext.
#[derive(Clone)]
pub struct Ciphertext {
    /// Body and mask.
    pub polys: [Poly; 2],
    /// What the numbers are multiplied by.
    pub scale: f64,
    /// log2 of how many there are.
    pub slots_log2: u32,
}

impl Ciphertext {
    /// Multiplications that are left.
    pub fn level(&self) -> usize {
        self.polys[0].basis().level
    }

    /// How many numbers there are.
    pub fn slots(&self) -> usize {
        1 << self.slots_log2
    }

    /// The same numbers at a lower level.
    pub fn at_level(&self, level: usize) -> Result<Self, CkksError> {
        if level > self.level() {
            return Err(CkksError::LevelTooHigh { what: "this ciphertext", got: level, max: self.level() });
        }
        let polys = self.polys.each_ref().map(|poly| poly.at_level(level));
        Ok(Self { polys, scale: self.scale, slots_log2: self.slots_log2 })
    }

    /// The same in no more memory than it needs: what has lost primes still has the room that it had with them, and is copied for
    /// others to have that.
    #[must_use]
    pub fn fitted(self) -> Self {
        Self { polys: self.polys.map(Poly::fitted), ..self }
    }

    pub(crate) fn basis(&self) -> Basis {
        self.polys[0].basis()
    }
}
