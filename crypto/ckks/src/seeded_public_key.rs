//! A public key as it is stored and sent.

use cloakwork_math::random::MaskSeed;

use crate::poly::Poly;

/// An encryption of zero at the highest level that numbers are encrypted at, whose mask comes from a seed: whoever has it
/// encrypts, and nobody decrypts with it.
pub struct SeededPublicKey {
    /// Its body.
    pub body: Poly,
    /// Where the mask comes from, as that of a fresh ciphertext.
    pub seed: MaskSeed,
}
