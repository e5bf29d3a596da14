//! Conversion of keys and ciphertexts between the evaluation core and tfhe-rs, in both directions.
//!
//! A conversion recomputes nothing and only changes the wrapper, because both libraries lay words
//! out in the same order. The tests of this crate compare the core with tfhe-rs, which is the
//! oracle.

#![forbid(unsafe_code)]

pub mod boolean;
pub mod compression;
pub mod entity;
mod error;
pub mod integer;
pub mod parameters;
pub mod seed;
pub mod shortint;

use cloakwork_math::Torus;
use cloakwork_params::ParameterSet;
use cloakwork_tfhe::{SeededBootstrapKey, SeededKeySwitchKey, ServerKey, ShapeError};

pub use error::ConversionError;

/// The seeded evaluation keys of one parameter set, which a client gives to a server.
///
/// `T` is the word of the big key, `S` that of the small one, as in [`ServerKey`].
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluationKeys<T, S> {
    /// The parameter set.
    pub set: &'static ParameterSet,
    /// Key-switch key, from the big key to the small key.
    pub key_switch: SeededKeySwitchKey<S>,
    /// Bootstrap key, from the small key to the big key.
    pub bootstrap: SeededBootstrapKey<T>,
}

impl<T: Torus, S: Torus> EvaluationKeys<T, S> {
    /// Expands the keys on `threads` threads, which also checks that they fit the set.
    pub fn expand(&self, threads: usize) -> Result<ServerKey<T, S>, ShapeError> {
        ServerKey::expand(self.set, &self.key_switch, &self.bootstrap, threads)
    }
}
