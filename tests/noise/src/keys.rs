//! Reproducible keys whose secrets the measurement may read. The keys protect nothing.

use cloakwork_math::{Torus, random::SecretRng};
use cloakwork_params::{ParameterSet, noise::KeyWeight};
use cloakwork_secret::{ClientKey, GlweSecretKey, KeyGenerator, LweSecretKey, Randomness};
use cloakwork_tfhe::{KeySwitchKey, ServerKey};

/// The secret keys of a set and the evaluation key made from them.
pub struct Keys<T, S> {
    /// Both secret keys.
    pub client: ClientKey,
    /// The server's key.
    pub server: ServerKey<T, S>,
}

impl<T: Torus, S: Torus> Keys<T, S> {
    /// Generates the keys of `set` from `seed`.
    pub fn generate(set: &'static ParameterSet, seed: u64) -> Self {
        let mut randomness = Randomness::insecure_for_tests(seed);
        let client = ClientKey::generate(set, &mut randomness).expect("test randomness never fails");
        let generator = KeyGenerator::new(&client, set).expect("the client key is the set's").on_threads(THREADS);
        let key_switch = generator.key_switch_key(&mut randomness).expect("the word is the set's");
        let bootstrap = generator.bootstrap_key(&mut randomness).expect("the word is the set's");
        let server = ServerKey::expand(set, &key_switch, &bootstrap, THREADS).expect("made for the set");
        Self { client, server }
    }

    /// The parameter set.
    pub fn set(&self) -> &'static ParameterSet {
        self.server.set()
    }

    /// The small key.
    pub fn small(&self) -> &LweSecretKey {
        self.client.small(self.set()).expect("the client key is the set's")
    }

    /// The big key.
    pub fn big(&self) -> &GlweSecretKey {
        self.client.big()
    }

    /// The weights of the keys, which the formula takes.
    pub fn weight(&self) -> KeyWeight {
        weight(self.set(), self.small(), self.big())
    }

    /// Mean square of the errors in the key-switch key. The errors number a few thousand, so their
    /// mean can miss its expectation by a percent or two.
    pub fn key_switch_square(&self) -> f64 {
        let key: &KeySwitchKey<S> = self.server.key_switch_key();
        let (gadget, small) = (key.gadget(), self.small());
        let mut row = vec![S::default(); key.output_dimension() + 1];
        let mut squares = 0.0;
        let bits = self.big().bits().iter().flat_map(|bit| std::iter::repeat_n(*bit, gadget.levels));
        for (index, bit) in bits.enumerate() {
            key.matrix().read_row(index, &mut row);
            let level = (gadget.levels - index % gadget.levels) as u32;
            let message = S::from_u64(u64::from(bit) << (S::BITS - gadget.base_log * level));
            let phase = small.phase(&row).expect("ciphertexts of the key's shape");
            squares += fraction(phase.wrapping_sub(message)).powi(2);
        }
        squares / (self.big().bits().len() * gadget.levels) as f64
    }
}

/// The weights of a pair of keys.
pub fn weight(set: &ParameterSet, small: &LweSecretKey, big: &GlweSecretKey) -> KeyWeight {
    let ones = |bits: &[u8]| bits.iter().map(|bit| f64::from(*bit)).sum();
    let groups = small.bits().chunks_exact(set.grouping);
    KeyWeight {
        small_ones: ones(small.bits()),
        small_groups: groups.filter(|group| group.contains(&1)).count() as f64,
        big_ones: ones(big.bits()),
    }
}

/// Converts a word to a signed fraction of the torus.
pub fn fraction<T: Torus>(word: T) -> f64 {
    word.to_i64() as f64 * (-f64::from(T::BITS)).exp2()
}

/// Uniform words of a modulus, in the top bits.
pub fn uniform<T: Torus>(rng: &mut SecretRng, modulus_log2: u32, count: usize) -> Vec<T> {
    (0..count).map(|_| T::from_u64(rng.word() << (T::BITS - modulus_log2))).collect()
}

/// Number of threads for making keys and measuring ciphertexts.
pub const THREADS: usize = 2;
