//! Encryption with a public key.

use cloakwork_params::{
    EnvelopeReader, KeyId, ObjectKind,
    ckks::{
        CkksSet,
        layout::{Expected, conform},
    },
};
use cloakwork_secret::{
    Randomness, SecretError,
    ckks::{
        Complex, PublicKey, Ring, SeededPublicKey,
        format::{decode, encode},
    },
};

use super::shape_of;
use crate::{Encrypted, Result};

/// A public key for CKKS. Only the secret key decrypts the numbers that it encrypts.
///
/// Clients that encrypt with a public key must not see the decrypted results: these clients know
/// more about the errors than others, and can send invalid ciphertexts.
pub struct CkksPublicKey {
    key: PublicKey,
    ring: Ring,
}

impl CkksPublicKey {
    /// Reads a key made by [`super::CkksKeys::public_key`], and checks it, including its digest.
    /// The bytes do not prove whose key it is: get it from the recipient of the numbers.
    pub fn read(envelope: &[u8]) -> Result<Self> {
        let header = EnvelopeReader::open(envelope)?.header().clone();
        let set = conform(&header, ObjectKind::SeededCkksPublicKey, &Expected::default())?;
        let ring = Ring::new(set);
        let decoded = decode::<SeededPublicKey>(envelope, &ring, None)?;
        Ok(Self { key: PublicKey::expand(&ring, decoded.key_id, decoded.object)?, ring })
    }

    /// Public identifier of the secret key.
    pub fn key_id(&self) -> KeyId {
        self.key.key_id()
    }

    /// Parameter set of the key.
    pub fn set(&self) -> &'static CkksSet {
        self.ring.set()
    }

    /// Encrypts like [`super::CkksKeys::encrypt`]. The ciphertext is twice as long and has more
    /// noise: the factor is sqrt(2N / 3 + the secret's weight), some 8 bits at N = 2^16.
    pub fn encrypt(&self, numbers: &[Complex], level: usize) -> Result<Encrypted> {
        let mut randomness = Randomness::from_os().map_err(SecretError::from)?;
        let ciphertext = self.key.encrypt(&self.ring, numbers, level, &mut randomness)?;
        let mut envelope = Vec::new();
        encode(&ciphertext, &self.ring, self.key_id(), &mut envelope)?;
        Ok(Encrypted { envelope: envelope.into(), shape: shape_of(&self.ring, numbers, level) })
    }
}
