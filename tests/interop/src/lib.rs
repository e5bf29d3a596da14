//! Keys and ciphertexts moved between the evaluation core and tfhe-rs, in both directions.
//!
//! Nothing is recomputed on the way: both libraries lay words out in the same order, so that a conversion is
//! a change of wrapper. The tests of this crate hold the core against tfhe-rs, which is the oracle.

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

/// The seeded evaluation keys of one parameter set: what a client hands to a server.
///
/// `T` is the word of the big key, `S` that of the small one, as in [`ServerKey`].
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluationKeys<T, S> {
    /// The parameter set.
    pub set: &'static ParameterSet,
    /// From the big key to the small one.
    pub key_switch: SeededKeySwitchKey<S>,
    /// From the small key to the big one.
    pub bootstrap: SeededBootstrapKey<T>,
}

impl<T: Torus, S: Torus> EvaluationKeys<T, S> {
    /// Expands the keys on `threads` threads, which also checks that they fit the set.
    pub fn expand(&self, threads: usize) -> Result<ServerKey<T, S>, ShapeError> {
        ServerKey::expand(self.set, &self.key_switch, &self.bootstrap, threads)
    }
}
