//! A client with keys for bootstraps.

use cloakwork_ckks::{Basis, Bootstrap, BootstrapKeys, Ciphertext, Complex, Evaluator, KeySize, Ring};
use cloakwork_params::ckks;
use cloakwork_secret::{
    Randomness,
    ckks::{KeyGenerator, SecretKey},
};

/// A client with its keys for one kind of bootstrap.
pub(crate) struct Client<'r> {
    pub(crate) ring: &'r Ring,
    pub(crate) key: SecretKey,
    pub(crate) bootstrap: Bootstrap<'r>,
    pub(crate) keys: BootstrapKeys,
    pub(crate) randomness: Randomness,
}

impl<'r> Client<'r> {
    pub(crate) fn new(ring: &'r Ring, slots_log2: u32, stages: usize, size: KeySize) -> Self {
        Self::with(Bootstrap::new(ring, slots_log2, stages, size).expect("a bootstrap"))
    }

    pub(crate) fn with(bootstrap: Bootstrap<'r>) -> Self {
        Self::seeded(bootstrap, 7)
    }

    pub(crate) fn seeded(bootstrap: Bootstrap<'r>, seed: u64) -> Self {
        let ring = bootstrap.ring();
        let mut randomness = Randomness::insecure_for_tests(seed);
        let key = SecretKey::generate(ring.set(), &mut randomness).expect("a key");
        let seeded = KeyGenerator::new(&key, ring).bootstrap(&bootstrap, &mut randomness).expect("keys");
        // A sparse secret is weak under a large modulus, so its ciphertexts are modulo two primes.
        assert_eq!((seeded.to_sparse.basis, seeded.to_sparse.bodies.len()), (Basis { level: 0, special: 1 }, 1));
        let keys = BootstrapKeys::expand(ring, seeded).expect("keys of the ring");
        Self { ring, key, bootstrap, keys, randomness }
    }

    pub(crate) fn encrypt(&mut self, numbers: &[Complex], level: usize) -> Ciphertext {
        self.key.encrypt(self.ring, numbers, level, &mut self.randomness).expect("encryption")
    }

    pub(crate) fn bootstrap(&self, ciphertext: &Ciphertext, threads: usize) -> Ciphertext {
        let evaluator = Evaluator::new(self.ring, threads);
        evaluator.bootstrap(ciphertext, &self.bootstrap, &self.keys).expect("a bootstrap")
    }

    /// Performs the first step of a bootstrap.
    pub(crate) fn raise(&self, ciphertext: &Ciphertext) -> Ciphertext {
        Evaluator::new(self.ring, 2).raise(ciphertext, self.bootstrap.shape().raised_level(self.ring.set()), &self.keys)
    }

    /// Number of correct bits after the binary point: of the mean error, and of the greatest one.
    pub(crate) fn precision(&self, ciphertext: &Ciphertext, expected: &[Complex]) -> (f64, f64) {
        let got = self.key.decrypt(self.ring, ciphertext).expect("decryption");
        let errors: Vec<f64> = got.iter().zip(expected).map(|(a, b)| (*a - *b).magnitude()).collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        (-mean.log2(), -errors.iter().copied().fold(0.0, f64::max).log2())
    }
}

/// Numbers in the unit disc without a pattern.
pub(crate) fn numbers(count: usize, seed: usize) -> Vec<Complex> {
    let number = |at: usize| Complex::at_turn((at * at) as f64 * 0.618_034).scale((at as f64 * 0.754_877).fract());
    (seed..seed + count).map(number).collect()
}

pub(crate) fn ring(set: &str) -> Ring {
    Ring::new(ckks::by_name(set).expect("a set"))
}
