//! A key pair and both sides of a computation, for tests that compare the core with the plaintext.

#![forbid(unsafe_code)]

use cloakwork_math::Torus;
use cloakwork_params::{Encoding, ParameterSet};
use cloakwork_secret::{ClientKey, KeyGenerator, Randomness};
use cloakwork_tfhe::{Scratch, ServerKey};

/// Number of threads that tests use.
pub const THREADS: usize = 2;

/// A client key, the matching server key, and working memory.
pub struct Pair<T, S> {
    /// The parameter set.
    pub set: &'static ParameterSet,
    /// The client's key.
    pub client: ClientKey,
    /// The server's key.
    pub server: ServerKey<T, S>,
    /// The client's generator, with a fixed seed so that a failing test fails again.
    pub randomness: Randomness,
    /// Scratch memory of each thread.
    pub scratches: Vec<Scratch<T, S>>,
}

impl<T: Torus, S: Torus> Pair<T, S> {
    /// Generates a key pair for the set of this name.
    pub fn generate(name: &str) -> Self {
        let set = cloakwork_params::table::by_name(name).expect("a set of that name");
        let mut randomness = Randomness::insecure_for_tests(0x5eed);
        let client = ClientKey::generate(set, &mut randomness).expect("a key");
        let generator = KeyGenerator::new(&client, set).expect("a generator").on_threads(THREADS);
        let key_switch = generator.key_switch_key::<S>(&mut randomness).expect("a key-switch key");
        let bootstrap = generator.bootstrap_key::<T>(&mut randomness).expect("a bootstrap key");
        let server = ServerKey::expand(set, &key_switch, &bootstrap, THREADS).expect("keys that fit their set");
        let scratches = (0..THREADS).map(|_| server.scratch()).collect();
        Self { set, client, server, randomness, scratches }
    }

    /// Number of values below the padding bit.
    pub fn values(&self) -> u64 {
        match self.set.encoding {
            Encoding::Shortint { message_modulus, carry_modulus, .. } => message_modulus * carry_modulus,
            Encoding::Boolean => 2,
        }
    }
}

/// Compiles and runs the code of docs/core.md as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/core.md")]
struct Documentation;
