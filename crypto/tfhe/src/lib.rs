//! TFHE evaluation: everything a server computes on ciphertexts, and nothing that could decrypt one.

#![forbid(unsafe_code)]

pub mod format;
pub mod key;
pub mod lwe;

pub use key::{GgswShape, SeededBootstrapKey, SeededKeySwitchKey, ShapeError};
pub use lwe::LweList;
