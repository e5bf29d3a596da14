//! Evaluation keys, seeded, on all cores.

mod bootstrap;
mod compact;
mod compression;
mod key_switch;

use cloakwork_params::ParameterSet;

use crate::{ClientKey, LweSecretKey, SecretError, parallel};

/// Makes the evaluation keys of one parameter set, on as many threads as the machine runs at once.
pub struct KeyGenerator<'a> {
    client: &'a ClientKey,
    set: &'static ParameterSet,
    small: &'a LweSecretKey,
    threads: usize,
}

impl<'a> KeyGenerator<'a> {
    /// A generator for a set that the client key has a part for.
    pub fn new(client: &'a ClientKey, set: &'static ParameterSet) -> Result<Self, SecretError> {
        Ok(Self { client, set, small: client.small(set)?, threads: parallel::available_threads() })
    }

    /// The same on another number of threads. Keys do not depend on it.
    pub fn on_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }
}
