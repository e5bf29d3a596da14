//! Public keys in their stored and sent form.

use cloakwork_math::random::MaskSeed;

use crate::poly::Poly;

/// An encryption of zero with a seeded mask, at the highest level that numbers are encrypted at.
/// With the key, anyone can encrypt and no one can decrypt.
pub struct SeededPublicKey {
    /// Body of the key.
    pub body: Poly,
    /// Seed of the mask, in the order of a fresh ciphertext.
    pub seed: MaskSeed,
}
