//! tfhe-rs behind an interface of plain words.
//!
//! No generic item of tfhe-rs is part of the interface. So this crate instantiates all of tfhe-rs
//! and compiles it for this machine.

#![forbid(unsafe_code)]

mod boolean;
#[cfg(feature = "integer")]
pub mod integer;
mod shortint;
mod workers;

use std::sync::Arc;

use tfhe::core_crypto::commons::math::random::CompressionSeed;
use tfhe_csprng::{generators::aes_ctr::AesCtrParams, seeders::SeedKind};

pub use workers::Workers;

/// The compared version.
pub const VERSION: &str = "1.8.2";

/// Torus words of one width.
#[derive(Clone, Debug, PartialEq)]
pub enum Words {
    /// Modulo 2^32.
    U32(Vec<u32>),
    /// Modulo 2^64.
    U64(Vec<u64>),
}

/// The transmitted half of a seeded key: the start of its masks, and its bodies.
pub struct SeededPart {
    /// AES key of the mask stream, which starts at block 0 and byte 0.
    pub seed: u128,
    /// Bodies in tfhe-rs's order.
    pub bodies: Words,
}

/// A seeded evaluation key.
pub struct SeededKey {
    /// Key-switch key, from the big key to the small key.
    pub key_switch: SeededPart,
    /// Bootstrap key, from the small key to the big key.
    pub bootstrap: SeededPart,
}

/// The secret key of a client, as one byte for each bit.
pub struct SecretKey {
    /// Key of GLWE ciphertexts, polynomial after polynomial.
    pub big: Vec<u8>,
    /// Key of LWE ciphertexts.
    pub small: Vec<u8>,
}

/// One operation of tfhe-rs under one parameter set, on inputs that it has encrypted.
pub trait Peer: Send + Sync {
    /// The client's secret key.
    fn secret_key(&self) -> SecretKey;

    /// The seeded evaluation key.
    fn key(&self) -> SeededKey;

    /// Operands of all inputs: the first operand of each, then the second operand of each if there
    /// are two.
    fn operands(&self) -> Vec<Words>;

    /// Results in the clear.
    fn expected(&self) -> Vec<u64>;

    /// Computes on input `index` in the calling thread.
    fn compute(&self, index: usize);

    /// Computes on all inputs and returns the words of the results.
    fn results(&self) -> Words;

    /// Decrypts results.
    fn decrypt(&self, results: &Words) -> Vec<u64>;

    /// Makes another seeded evaluation key for the same secret key, on all cores.
    fn generate_key(&self) -> Box<dyn std::any::Any>;

    /// Expands the seeded key on all cores. Dropping the returned value frees the memory.
    fn expand_key(&self) -> Box<dyn std::any::Any>;
}

/// Makes a key of the set with this name, and `count` inputs.
///
/// The clear result of an integer `x` is `table[x]`; boolean sets compute NAND.
pub fn peer(set: &str, table: &[u64], count: usize) -> Option<Arc<dyn Peer>> {
    shortint::Subject::new(set, table, count)
        .map(|subject| Arc::new(subject) as Arc<dyn Peer>)
        .or_else(|| boolean::Subject::new(set, count).map(|subject| Arc::new(subject) as Arc<dyn Peer>))
}

/// Makes a [`peer`] for integers without ever holding a seeded key, so that the peer cannot return
/// or expand one.
pub fn peer_without_seeded_key(set: &str, table: &[u64], count: usize) -> Option<Arc<dyn Peer>> {
    let subject = shortint::Subject::without_seeded_key(set, table, count)?;
    Some(Arc::new(subject))
}

/// Target features of this crate beyond the baseline of x86-64.
pub fn target_features() -> Vec<&'static str> {
    let features = [
        (cfg!(target_feature = "avx2"), "avx2"),
        (cfg!(target_feature = "avx512f"), "avx512f"),
        (cfg!(target_feature = "vaes"), "vaes"),
    ];
    features.into_iter().filter(|(present, _)| *present).map(|(_, name)| name).collect()
}

/// The AES key of a seed. The stream of a fresh seed starts at its beginning.
fn aes_key(seed: CompressionSeed) -> u128 {
    let SeedKind::Ctr(key) = seed.inner.seed.clone() else {
        panic!("a key is generated from a counter seed");
    };
    assert_eq!(AesCtrParams::from(key), seed.inner, "a fresh stream starts at its beginning");
    key.0
}

/// Converts a secret key's words, all 0 or 1, to bytes.
fn bits<S: Copy + Into<u64>>(words: &[S]) -> Vec<u8> {
    words.iter().map(|&word| word.into() as u8).collect()
}
