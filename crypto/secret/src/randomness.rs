//! The two random sources of a client: one for secrets, one for public values.

use cloakwork_math::random::{MaskSeed, OsRandomError, SecretRng};
use cloakwork_params::KeyId;

/// Randomness for key generation and encryption.
///
/// Secret bits and noise come from a separate generator. Mask seeds and key ids are drawn from the
/// operating system one by one. Neither source is ever computed from the other.
///
/// Two ciphertexts with the same noise under different masks give a linear equation in the key. The
/// generator therefore mixes in fresh bytes of the operating system before each use, so that no
/// copy of a process draws the noise of another.
pub struct Randomness {
    secret: SecretRng,
    public: Public,
}

/// Source of public values.
enum Public {
    OperatingSystem,
    /// Repeatable source for tests.
    #[cfg(feature = "insecure-test-randomness")]
    Insecure(Box<SecretRng>),
}

impl Randomness {
    /// Creates both sources from the operating system.
    pub fn from_os() -> Result<Self, OsRandomError> {
        Ok(Self { secret: SecretRng::from_os()?, public: Public::OperatingSystem })
    }

    /// Creates two sources that anyone can repeat. For reproducible tests only: they protect
    /// nothing.
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

    /// Source of secret bits and noise in its current state. Drawing a mask seed first mixes fresh
    /// bytes of the operating system into this source.
    pub fn secret(&mut self) -> &mut SecretRng {
        &mut self.secret
    }

    /// Source of secret bits and noise, after mixing in fresh bytes of the operating system.
    pub(crate) fn renewed_secret(&mut self) -> Result<&mut SecretRng, OsRandomError> {
        match self.public {
            Public::OperatingSystem => self.secret.mix_from_os()?,
            // Tests must draw the same values on every run.
            #[cfg(feature = "insecure-test-randomness")]
            Public::Insecure(_) => {}
        }
        Ok(&mut self.secret)
    }

    /// Draws a mask seed that no other object has. Also mixes fresh bytes into the source of the
    /// noise that goes with the masks.
    pub fn mask_seed(&mut self) -> Result<MaskSeed, OsRandomError> {
        self.renewed_secret()?;
        match &mut self.public {
            Public::OperatingSystem => MaskSeed::fresh(),
            #[cfg(feature = "insecure-test-randomness")]
            Public::Insecure(rng) => Ok(MaskSeed { key: u128::from_le_bytes(take(rng)), block: 0, byte: 0 }),
        }
    }

    /// Draws a random identifier for a client key.
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cloakwork_params::table;

    use super::*;
    use crate::{ClientKey, KeyGenerator, encrypt_compact};

    /// Two equal sources, as both sides of a fork have them.
    fn copies() -> [Randomness; 2] {
        [1, 1].map(|seed| Randomness { secret: SecretRng::insecure_for_tests(seed), public: Public::OperatingSystem })
    }

    #[test]
    fn copies_of_a_source_draw_different_secrets_and_noise() {
        let toy = table::by_name("TOY_MESSAGE_2_CARRY_2").unwrap();
        let keys = copies().map(|mut randomness| ClientKey::generate(toy, &mut randomness).unwrap());
        assert_ne!(keys[0].big().bits(), keys[1].big().bits());
        let [client, _] = keys;

        // Noise takes one of 2^18 values here.
        let messages = [0; 200];
        let phases = copies().map(|mut randomness| {
            let list = client.encrypt::<u64>(toy, &messages, &mut randomness).unwrap();
            client.phases(toy, &list).unwrap()
        });
        let same = phases[0].iter().zip(&phases[1]).filter(|(one, two)| one == two).count();
        assert!(same < 5, "{same} of {} values of noise agree", messages.len());

        // With the same secret for the mask and the same noise, the two lists of masks would be
        // equal.
        let generator = KeyGenerator::new(&client, toy).unwrap();
        let public = generator.compact_public_key::<u64>(&mut Randomness::from_os().unwrap()).unwrap();
        let lists = copies().map(|mut randomness| encrypt_compact(toy, &public, &messages, &mut randomness).unwrap());
        let same = lists[0].masks().iter().zip(lists[1].masks()).filter(|(one, two)| one == two).count();
        assert!(same < 5, "{same} words of the masks agree");
    }

    #[test]
    fn parts_added_to_copies_of_a_client_key_differ() {
        let [first, second] = ["KS_PBS", "KS32_PBS"]
            .map(|kind| table::by_name(&format!("V1_8_PARAM_MESSAGE_2_CARRY_2_{kind}_TUNIFORM_2M128")).unwrap());
        let compression = table::compression_for(first).unwrap();
        let clients = copies().map(|mut randomness| {
            let mut client = ClientKey::generate(first, &mut Randomness::insecure_for_tests(3)).unwrap();
            client.add(second, &mut randomness).unwrap();
            client
        });
        let packing = copies().map(|mut randomness| {
            let mut client = ClientKey::generate(first, &mut Randomness::insecure_for_tests(3)).unwrap();
            client.add_compression(compression, &mut randomness).unwrap();
            client.packing(compression).unwrap().bits().to_vec()
        });
        assert_ne!(clients[0].small(second).unwrap().bits(), clients[1].small(second).unwrap().bits());
        assert_ne!(packing[0], packing[1]);
    }
}
