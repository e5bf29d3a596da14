//! Generation of seeded evaluation keys on all cores.

mod bootstrap;
mod compact;
mod compression;
mod key_switch;

use cloakwork_math::Torus;
use cloakwork_params::ParameterSet;
use cloakwork_tfhe::{SeededBootstrapKey, SeededKeySwitchKey};

use crate::{ClientKey, LweSecretKey, Randomness, SecretError, parallel};

/// Generates the evaluation keys of one parameter set, with one thread per available core.
pub struct KeyGenerator<'a> {
    client: &'a ClientKey,
    set: &'static ParameterSet,
    small: &'a LweSecretKey,
    threads: usize,
    report: &'a Report<'a>,
}

/// Progress callback: receives the number of bytes of each piece of a key when the piece is
/// complete. Any thread of the generator may make the call.
pub type Report<'a> = dyn Fn(u64) + Sync + 'a;

impl<'a> KeyGenerator<'a> {
    /// Creates a generator for a set that the client key has a part for.
    pub fn new(client: &'a ClientKey, set: &'static ParameterSet) -> Result<Self, SecretError> {
        Ok(Self { client, set, small: client.small(set)?, threads: parallel::available_threads(), report: &|_| {} })
    }

    /// Sets the number of threads. The keys do not depend on it.
    pub fn on_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Sets a progress callback. The reported numbers depend on no secret.
    pub fn reporting(self, report: &'a Report<'a>) -> Self {
        Self { report, ..self }
    }

    /// Generates both halves of a server key: the key-switch key and the bootstrap key. `T` is the
    /// word of the set's ciphertexts, `S` that of its small modulus.
    pub fn server_key<T: Torus, S: Torus>(
        &self,
        randomness: &mut Randomness,
    ) -> Result<(SeededKeySwitchKey<S>, SeededBootstrapKey<T>), SecretError> {
        Ok((self.key_switch_key(randomness)?, self.bootstrap_key(randomness)?))
    }
}
