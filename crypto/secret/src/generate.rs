//! Evaluation keys, seeded, on all cores.

mod bootstrap;
mod compact;
mod compression;
mod key_switch;

use cloakwork_math::Torus;
use cloakwork_params::ParameterSet;
use cloakwork_tfhe::{SeededBootstrapKey, SeededKeySwitchKey};

use crate::{ClientKey, LweSecretKey, Randomness, SecretError, parallel};

/// Makes the evaluation keys of one parameter set, on as many threads as the machine runs at once.
pub struct KeyGenerator<'a> {
    client: &'a ClientKey,
    set: &'static ParameterSet,
    small: &'a LweSecretKey,
    threads: usize,
    report: &'a Report<'a>,
}

/// Told the number of bytes of a key, piece by piece as they are made, from whatever thread makes them.
pub type Report<'a> = dyn Fn(u64) + Sync + 'a;

impl<'a> KeyGenerator<'a> {
    /// A generator for a set that the client key has a part for.
    pub fn new(client: &'a ClientKey, set: &'static ParameterSet) -> Result<Self, SecretError> {
        Ok(Self { client, set, small: client.small(set)?, threads: parallel::available_threads(), report: &|_| {} })
    }

    /// The same on another number of threads. Keys do not depend on it.
    pub fn on_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// The same with somebody to be told how far it is. What is told depends on no secret.
    pub fn reporting(self, report: &'a Report<'a>) -> Self {
        Self { report, ..self }
    }

    /// Both halves of a server's key: what switches keys, and what bootstraps. `T` is the word of the set's
    /// ciphertexts, `S` that of its small modulus.
    pub fn server_key<T: Torus, S: Torus>(
        &self,
        randomness: &mut Randomness,
    ) -> Result<(SeededKeySwitchKey<S>, SeededBootstrapKey<T>), SecretError> {
        Ok((self.key_switch_key(randomness)?, self.bootstrap_key(randomness)?))
    }
}
