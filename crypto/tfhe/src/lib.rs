//! TFHE evaluation: all computation of a server on ciphertexts. No code in this crate can decrypt.
//!
//! Start at [`ServerKey`]: it expands a seeded evaluation key and bootstraps lists of ciphertexts
//! ([`LweList`]) through lookup tables ([`Lut`]), any number at a time. [`Gates`] are boolean gates
//! on top of it. [`CompressionKey`] and [`DecompressionKey`] store lists in a few bits per
//! ciphertext, and [`mod@format`] converts all objects to bytes and back.

#![forbid(unsafe_code)]

pub mod blind_rotation;
pub mod bootstrap;
pub mod compact;
pub mod format;
pub mod gates;
pub mod key;
pub mod key_switch;
pub mod lut;
pub mod lwe;
pub mod modulus_switch;
pub mod packing;
pub mod sample_extract;
pub mod seeded_lwe;

/// Word types of ciphertexts.
pub use cloakwork_math::Torus;
/// Facts about this machine that decide its speed: the instruction set, and the cache that a tile
/// fills.
pub use cloakwork_math::{cache, simd::Level};

pub use bootstrap::{Scratch, ServerKey, StageTimes};
pub use compact::{CompactList, CompactPublicKey};
pub use gates::{Gate, Gates};
pub use key::{
    BootstrapKey, GgswShape, KeySwitchKey, PackingKey, SeededBootstrapKey, SeededDecompressionKey, SeededKeySwitchKey,
    SeededPackingKey, ShapeError,
};
pub use lut::{Lut, LutError};
pub use lwe::LweList;
pub use packing::{CompressedList, CompressionError, CompressionKey, DecompressionKey};
pub use seeded_lwe::SeededLweList;
