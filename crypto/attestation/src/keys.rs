//! Keys that sign, and the public keys that verify.

use std::fmt;

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use zeroize::Zeroizing;

/// Bytes of a signature.
pub(crate) const SIGNATURE_BYTES: usize = 64;

/// A signature by Ed25519.
pub(crate) type SignatureBytes = [u8; SIGNATURE_BYTES];

/// A public key. Its text form is `ed25519:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// Prefix of the text form, which names the scheme.
    const PREFIX: &str = "ed25519:";

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(Self::PREFIX)?.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = (digit(0)? * 16 + digit(1)?) as u8;
        }
        Some(Self(bytes))
    }

    /// Whether `signature` signs `message` under this key. Keys of small order sign everything, so
    /// they verify nothing.
    pub(crate) fn verifies(&self, message: &[u8], signature: &SignatureBytes) -> bool {
        let Ok(key) = VerifyingKey::from_bytes(&self.0) else { return false };
        key.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }
}

impl PublicKey {
    /// The id of the worker whose key this is. The id follows from the key, so that no worker can
    /// take the id of another.
    pub fn worker_id(&self) -> [u8; 16] {
        let digest = blake3::derive_key("cloakwork 2026-11-28 id of a worker", &self.0);
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        id
    }

    /// Whether `proof` shows that its maker has the secret part of this key
    /// ([`WorkerKey::proof_of_possession`]).
    pub fn is_proved_by(&self, proof: &[u8]) -> bool {
        proof.try_into().is_ok_and(|proof| self.verifies(&possession(self), proof))
    }
}

/// The message of a proof of possession.
fn possession(key: &PublicKey) -> [u8; 40] {
    let mut message = [0; 40];
    // Claims and statements begin with other bytes.
    message[..8].copy_from_slice(b"CWKHOLD1");
    message[8..].copy_from_slice(&key.0);
    message
}

impl fmt::Display for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(Self::PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// Defines a secret key with its own type, so that no key signs for another purpose.
macro_rules! secret_key {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        pub struct $name(SigningKey);

        impl $name {
            /// A new key from the operating system's randomness.
            pub fn generate() -> Result<Self, getrandom::Error> {
                let mut seed = Zeroizing::new([0; 32]);
                getrandom::fill(seed.as_mut_slice())?;
                Ok(Self::from_seed(&seed))
            }

            /// The key with this seed, which must be secret.
            pub fn from_seed(seed: &[u8; 32]) -> Self {
                Self(SigningKey::from_bytes(seed))
            }

            /// The public key.
            pub fn public(&self) -> PublicKey {
                PublicKey(self.0.verifying_key().to_bytes())
            }

            pub(crate) fn sign(&self, message: &[u8]) -> SignatureBytes {
                self.0.sign(message).to_bytes()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, concat!(stringify!($name), "({}, secret)"), self.public())
            }
        }
    };
}

secret_key! {
    /// The key of an installation, which signs certificates. Its memory is wiped on drop.
    InstallationKey
}

secret_key! {
    /// The key of a worker process, which signs statements. Its memory is wiped on drop.
    WorkerKey
}

impl WorkerKey {
    /// A signature that shows the server that this process has the secret part of its key. Only the
    /// server sees the signature, so no other worker can attach with this key.
    pub fn proof_of_possession(&self) -> [u8; 64] {
        self.sign(&possession(&self.public()))
    }
}

impl InstallationKey {
    /// The seed, from which the same key can be made.
    pub fn seed(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }
}
