//! Our side of a case: a server key expanded from tfhe-rs's own seeded key, and tfhe-rs's own
//! ciphertexts.

use std::any::Any;

use cloakwork_math::{GgswShape, Torus, random::MaskSeed};
use cloakwork_params::{KeyId, ParameterSet};
use cloakwork_secret::{ClientKey, GlweSecretKey, KeyGenerator, LweSecretKey, Randomness};
use cloakwork_tfhe::{
    Gate, Gates, Lut, LweList, Scratch, SeededBootstrapKey, SeededKeySwitchKey, ServerKey, ShapeError,
};
use peer_tfhe::{Peer, SeededKey, SeededPart, Words};

/// One operation under one key, on a fixed batch of inputs.
pub trait Ours: Send {
    /// Computes on this number of inputs.
    fn compute(&mut self, amount: Amount);

    /// Computes on all inputs, under an evaluation key that our library generates.
    fn compute_all_under_new_key(&mut self);

    /// Results of the last computation on all inputs.
    fn results(&self) -> Words;

    /// Results of the last computation on this number of inputs, decrypted.
    fn decrypted(&self, amount: Amount) -> Vec<u64>;

    /// Bytes of the bootstrap key, and the number of ciphertexts that share one read of it.
    fn bootstrap_key(&self) -> (usize, usize);

    /// Makes another seeded evaluation key for the same secret key, on all cores.
    fn generate_key(&self) -> Box<dyn Any>;

    /// Expands the seeded key again, on all cores.
    fn expand_key(&self) -> Box<dyn Any>;
}

/// Number of inputs to compute on, from the first.
#[derive(Clone, Copy, Debug)]
pub enum Amount {
    /// One input, in the calling thread.
    One,
    /// One input on each core.
    OnePerCore,
    /// All inputs, on all cores.
    All,
}

/// Builds our side of an operation of `set` from the peer's keys and operands.
pub fn from_peer(set: &'static ParameterSet, peer: &dyn Peer, table: &[u64], threads: usize) -> Box<dyn Ours> {
    let key = peer.key();
    match (&key.bootstrap.bodies, &key.key_switch.bodies) {
        (Words::U64(_), Words::U64(_)) => boxed::<u64, u64, _>(set, peer, key, Lookup::new(set, table), threads),
        (Words::U64(_), Words::U32(_)) => boxed::<u64, u32, _>(set, peer, key, Lookup::new(set, table), threads),
        (Words::U32(_), Words::U32(_)) => boxed::<u32, u32, _>(set, peer, key, Nand, threads),
        (Words::U32(_), Words::U64(_)) => panic!("no set has a small key of wider words than its big key"),
    }
}

/// Builds lookups in `table` on ciphertexts of `clear`, with keys and ciphertexts that our library
/// generates. Drops the seeded key.
pub fn own(set: &'static ParameterSet, clear: &[u64], table: &[u64], threads: usize) -> Box<dyn Ours> {
    let mut randomness = Randomness::from_os().expect("the operating system gives random bytes");
    let client = ClientKey::generate(set, &mut randomness).expect("the set is whole");
    let inputs = client.encrypt(set, clear, &mut randomness).expect("the values are of the set");
    let key = Seeded::<u64, u64>::generate(set, &client).expand(threads);
    Box::new(Batch::new(client, None, key, vec![inputs], Lookup::new(set, table), threads))
}

fn boxed<T: Word, S: Word, O: Operation<T, S> + 'static>(
    set: &'static ParameterSet,
    peer: &dyn Peer,
    key: SeededKey,
    operation: O,
    threads: usize,
) -> Box<dyn Ours> {
    let message = "tfhe-rs's secret key has the shape of its set";
    let secret = peer.secret_key();
    let big = GlweSecretKey::from_bits(set.polynomial_size, secret.big).expect(message);
    let small = LweSecretKey::from_bits(secret.small).expect(message);
    let client = ClientKey::from_parts(KeyId([1; 16]), set, big, small).expect(message);
    let list = |words| LweList::from_words(set.input_dimension(), T::from_words(words)).expect("whole ciphertexts");
    let operands = peer.operands().into_iter().map(list).collect();
    let seeded = Seeded::from_peer(set, key);
    let key = seeded.expand(threads);
    Box::new(Batch::new(client, Some(seeded), key, operands, operation, threads))
}

/// A word of the peer's word lists.
pub trait Word: Torus {
    /// Unwraps the words, which must have this width.
    fn from_words(words: Words) -> Vec<Self>;
    /// Wraps the words.
    fn to_words(words: &[Self]) -> Words;
}

impl Word for u32 {
    fn from_words(words: Words) -> Vec<Self> {
        let Words::U32(words) = words else { panic!("expected 32-bit words") };
        words
    }

    fn to_words(words: &[Self]) -> Words {
        Words::U32(words.to_vec())
    }
}

impl Word for u64 {
    fn from_words(words: Words) -> Vec<Self> {
        let Words::U64(words) = words else { panic!("expected 64-bit words") };
        words
    }

    fn to_words(words: &[Self]) -> Words {
        Words::U64(words.to_vec())
    }
}

/// A seeded key in our form.
pub struct Seeded<T, S> {
    set: &'static ParameterSet,
    /// Key-switch key, from the big key to the small key.
    pub key_switch: SeededKeySwitchKey<S>,
    /// Bootstrap key, from the small key to the big key.
    pub bootstrap: SeededBootstrapKey<T>,
}

impl<T: Word, S: Word> Seeded<T, S> {
    /// Converts a seeded key of tfhe-rs.
    pub fn from_peer(set: &'static ParameterSet, key: SeededKey) -> Self {
        let seed = |part: &SeededPart| MaskSeed { key: part.seed, block: 0, byte: 0 };
        let (key_switch_seed, bootstrap_seed) = (seed(&key.key_switch), seed(&key.bootstrap));
        let shape = GgswShape::of_set(set, set.bootstrap);
        let bodies = T::from_words(key.bootstrap.bodies);
        let bootstrap = SeededBootstrapKey::new(shape, set.ggsw_count(), bootstrap_seed, bodies);
        let key_switch = SeededKeySwitchKey::new(
            set.big_dimension(),
            set.lwe_dimension,
            set.key_switch,
            set.small_modulus_log2,
            key_switch_seed,
            S::from_words(key.key_switch.bodies),
        );
        let message = "tfhe-rs's key has the shape of its set";
        Self { set, key_switch: key_switch.expect(message), bootstrap: bootstrap.expect(message) }
    }

    /// Generates a seeded key from a client key of our library.
    pub fn generate(set: &'static ParameterSet, client: &ClientKey) -> Self {
        let mut randomness = Randomness::from_os().expect("the operating system gives random bytes");
        let generator = KeyGenerator::new(client, set).expect("the client key is of the set");
        let message = "the set's words fit";
        Self {
            set,
            key_switch: generator.key_switch_key(&mut randomness).expect(message),
            bootstrap: generator.bootstrap_key(&mut randomness).expect(message),
        }
    }

    /// Expands the key, so that it is ready for use.
    pub fn expand(&self, threads: usize) -> ServerKey<T, S> {
        ServerKey::expand(self.set, &self.key_switch, &self.bootstrap, threads).expect("the key has its set's shape")
    }
}

/// A computation on one ciphertext from each operand.
trait Operation<T, S>: Send {
    fn compute(
        &self,
        key: &ServerKey<T, S>,
        operands: &[LweList<T>],
        outputs: &mut LweList<T>,
        scratches: &mut [Scratch<T, S>],
    ) -> Result<(), ShapeError>;
}

/// Key switch and bootstrap with one lookup table.
struct Lookup(Lut<u64>);

impl Lookup {
    fn new(set: &ParameterSet, table: &[u64]) -> Self {
        Self(Lut::from_fn(set, |value| table[value as usize]).expect("the table has values of the set"))
    }
}

impl<S: Word> Operation<u64, S> for Lookup {
    fn compute(
        &self,
        key: &ServerKey<u64, S>,
        operands: &[LweList<u64>],
        outputs: &mut LweList<u64>,
        scratches: &mut [Scratch<u64, S>],
    ) -> Result<(), ShapeError> {
        key.bootstrap(&operands[0], &vec![&self.0; operands[0].len()], outputs, scratches)
    }
}

/// NAND of two bits.
struct Nand;

impl Operation<u32, u32> for Nand {
    fn compute(
        &self,
        key: &ServerKey<u32, u32>,
        operands: &[LweList<u32>],
        outputs: &mut LweList<u32>,
        scratches: &mut [Scratch<u32, u32>],
    ) -> Result<(), ShapeError> {
        let gates = vec![Gate::Nand; operands[0].len()];
        Gates::new(key).evaluate(&gates, &operands[0], &operands[1], outputs, scratches)
    }
}

/// An operation, its key, its inputs and its results.
struct Batch<T, S, O> {
    client: ClientKey,
    seeded: Option<Seeded<T, S>>,
    key: ServerKey<T, S>,
    operation: O,
    /// A part of the inputs for each [`Amount`].
    parts: [Part<T>; 3],
    scratches: Vec<Scratch<T, S>>,
}

/// A number of ciphertexts from each operand, and their results.
struct Part<T> {
    operands: Vec<LweList<T>>,
    outputs: LweList<T>,
}

impl<T: Torus> Part<T> {
    fn first(count: usize, operands: &[LweList<T>]) -> Self {
        let dimension = operands[0].dimension();
        let cut =
            |operand: &LweList<T>| LweList::from_words(dimension, operand.words()[..count * (dimension + 1)].to_vec());
        let operands = operands.iter().map(|operand| cut(operand).expect("whole ciphertexts")).collect();
        Self { operands, outputs: LweList::zeros(dimension, count) }
    }
}

impl<T: Word, S: Word, O: Operation<T, S>> Batch<T, S, O> {
    fn new(
        client: ClientKey,
        seeded: Option<Seeded<T, S>>,
        key: ServerKey<T, S>,
        operands: Vec<LweList<T>>,
        operation: O,
        threads: usize,
    ) -> Self {
        let all = operands[0].len();
        let parts = [1, threads.min(all), all].map(|count| Part::first(count, &operands));
        let scratches = (0..threads).map(|_| key.scratch()).collect();
        Self { client, seeded, key, operation, parts, scratches }
    }

    fn set(&self) -> &'static ParameterSet {
        self.key.set()
    }
}

impl<T: Word, S: Word, O: Operation<T, S>> Ours for Batch<T, S, O> {
    fn compute(&mut self, amount: Amount) {
        let Self { key, operation, parts, scratches, .. } = self;
        let Part { operands, outputs } = &mut parts[amount as usize];
        let threads = if matches!(amount, Amount::One) { 1 } else { scratches.len() };
        operation.compute(key, operands, outputs, &mut scratches[..threads]).expect("shapes fit");
    }

    fn compute_all_under_new_key(&mut self) {
        let key = Seeded::<T, S>::generate(self.set(), &self.client).expand(self.scratches.len());
        let Self { operation, parts, scratches, .. } = self;
        let Part { operands, outputs } = &mut parts[Amount::All as usize];
        operation.compute(&key, operands, outputs, scratches).expect("shapes fit");
    }

    fn results(&self) -> Words {
        Word::to_words(self.parts[Amount::All as usize].outputs.words())
    }

    fn decrypted(&self, amount: Amount) -> Vec<u64> {
        let outputs = &self.parts[amount as usize].outputs;
        self.client.decrypt(self.set(), outputs).expect("results have the set's shape")
    }

    fn bootstrap_key(&self) -> (usize, usize) {
        (self.key.bootstrap_key().bytes(), self.key.tile())
    }

    fn generate_key(&self) -> Box<dyn Any> {
        Box::new(Seeded::<T, S>::generate(self.set(), &self.client))
    }

    fn expand_key(&self) -> Box<dyn Any> {
        let seeded = self.seeded.as_ref().expect("a case with an expansion row keeps its seeded key");
        Box::new(seeded.expand(self.scratches.len()))
    }
}

/// Target features of our crates beyond the baseline of x86-64. There are none in shipped builds.
pub fn target_features() -> Vec<&'static str> {
    let features = [
        (cfg!(target_feature = "avx2"), "avx2"),
        (cfg!(target_feature = "avx512f"), "avx512f"),
        (cfg!(target_feature = "vaes"), "vaes"),
    ];
    features.into_iter().filter(|(present, _)| *present).map(|(_, name)| name).collect()
}
