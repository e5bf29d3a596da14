//! Encryption by those who have no secret key.

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

use crate::{Encrypted, Result};

/// A public key for CKKS: numbers that it encrypts only the secret key decrypts. Those who encrypt with it must not see what is
/// decrypted: they know more of the errors than others, and can make up ciphertexts that are none.
pub struct CkksPublicKey {
    key: PublicKey,
    ring: Ring,
}

impl CkksPublicKey {
    /// Reads what [`super::CkksKeys::public_key`] has made, checked down to its digest. Whose it is its bytes do not prove: get
    /// them from whoever you encrypt for.
    pub fn read(envelope: &[u8]) -> Result<Self> {
        let header = EnvelopeReader::open(envelope)?.header().clone();
        let set = conform(&header, ObjectKind::SeededCkksPublicKey, &Expected::default())?;
        let ring = Ring::new(set);
        let decoded = decode::<SeededPublicKey>(envelope, &ring, None)?;
        Ok(Self { key: PublicKey::expand(&ring, decoded.key_id, decoded.object)?, ring })
    }

    /// The public name of the secret key.
    pub fn key_id(&self) -> KeyId {
        self.key.key_id()
    }

    /// Its set.
    pub fn set(&self) -> &'static CkksSet {
        self.ring.set()
    }

    /// Encrypts as [`super::CkksKeys::encrypt`] does. What comes out is twice as long, and has more noise: sqrt(2N / 3 + the
    /// secret's weight) times as much, some 8 bits at N = 2^16.
    pub fn encrypt(&self, numbers: &[Complex], level: usize) -> Result<Encrypted> {
        let mut randomness = Randomness::from_os().map_err(SecretError::from)?;
        let ciphertext = self.key.encrypt(&self.ring, numbers, level, &mut randomness)?;
        let mut envelope = Vec::new();
        encode(&ciphertext, &self.ring, self.key_id(), &mut envelope)?;
        Ok(Encrypted { envelope: envelope.into(), count: numbers.len() })
    }
}
