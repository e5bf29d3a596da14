//! Secret keys and everything that needs one: key generation, encryption, decryption, noise measurement.
//!
//! Client side only. Nothing that an operator runs may depend on this crate.

#![forbid(unsafe_code)]

mod encode;
mod encrypt;
mod error;
mod exact_product;
pub mod file;
mod generate;
pub mod key;
pub mod noise;
mod parallel;
mod public;
mod randomness;

pub use error::SecretError;
pub use generate::KeyGenerator;
pub use key::{ClientKey, GlweSecretKey, LweSecretKey};
pub use public::encrypt_compact;
pub use randomness::Randomness;
