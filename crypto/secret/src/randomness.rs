//! The two sources of a client: one for secrets, one for what everybody may see.

use cloakwork_math::random::{MaskSeed, OsRandomError, SecretRng};
use cloakwork_params::KeyId;

/// Randomness for key generation and encryption.
///
/// Secret bits and noise come from a generator of their own; mask seeds and key ids are drawn from the
/// operating system one by one. Neither is ever computed from the other.
pub struct Randomness {
    secret: SecretRng,
    public: Public,
}

/// Where public values come from.
enum Public {
    OperatingSystem,
    /// Repeatable, for tests.
    #[cfg(feature = "insecure-test-randomness")]
    Insecure(Box<SecretRng>),
}

impl Randomness {
    /// Both sources from the operating system.
    pub fn from_os() -> Result<Self, OsRandomError> {
        Ok(Self { secret: SecretRng::from_os()?, public: Public::OperatingSystem })
    }

    /// Two sources that anyone can repeat. For reproducible tests only: it protects nothing.
    #[cfg(feature = "insecure-test-randomness")]
    pub fn insecure_for_tests(seed: u64) -> Self {
        Self::insecure_parts_for_tests(seed, !seed)
    }

    /// As [`Self::insecure_for_tests`], with a seed for each source.
    #[cfg(feature = "insecure-test-randomness")]
    pub fn insecure_parts_for_tests(secret: u64, public: u64) -> Self {
        Self {
            secret: SecretRng::insecure_for_tests(secret),
            public: Public::Insecure(Box::new(SecretRng::insecure_for_tests(public))),
        }
    }

    /// The source of secret bits and noise.
    pub fn secret(&mut self) -> &mut SecretRng {
        &mut self.secret
    }

    /// A seed that no other object has.
    pub fn mask_seed(&mut self) -> Result<MaskSeed, OsRandomError> {
        match &mut self.public {
            Public::OperatingSystem => MaskSeed::fresh(),
            #[cfg(feature = "insecure-test-randomness")]
            Public::Insecure(rng) => Ok(MaskSeed { key: u128::from_le_bytes(take(rng)), block: 0, byte: 0 }),
        }
    }

    /// A random name for a client key.
    pub(crate) fn key_id(&mut self) -> Result<KeyId, OsRandomError> {
        Ok(KeyId(self.mask_seed()?.key.to_le_bytes()))
    }
}

#[cfg(feature = "insecure-test-randomness")]
fn take(rng: &mut SecretRng) -> [u8; 16] {
    let mut bytes = [0; 16];
    rng.fill_bytes(&mut bytes);
    bytes
}
