//! Primes of a ring.

use cloakwork_math::{modulus::Modulus, ntt::Ntt, pointwise::Pointwise};

/// One prime of a ring.
pub struct Prime {
    /// Transform modulo the prime.
    pub ntt: Ntt,
    /// Sums and products modulo the prime.
    pub pointwise: Pointwise,
}

impl Prime {
    /// The prime itself.
    pub fn modulus(&self) -> Modulus {
        self.ntt.modulus()
    }
}
