//! Secret keys and all operations that need one: key generation, encryption, decryption, noise
//! measurement.
//!
//! This crate is for clients only. No program that an operator runs may depend on it.
//!
//! # Zeroization
//!
//! Keys, noise, plaintexts and heap memory that computations derive from them are overwritten on
//! drop. Messages, phases and key bits that a caller requests are the caller's responsibility.
//! Copies that the compiler leaves on the stack and in registers when it moves a value are out of
//! reach.
//!
//! # Forks and copies of virtual machines
//!
//! After a `fork(2)` or a copy of a virtual machine, both copies of a [`Randomness`] would draw the
//! same noise under fresh masks. The difference of two such ciphertexts has no noise. Therefore
//! each key, part of a key and list of ciphertexts begins with 32 fresh bytes of the operating
//! system.
//!
//! This measure does not protect operations that run while the copy is taken. Nor does it protect a
//! virtual machine whose system does not notice the copy and returns the same bytes to both.
//!
//! # Timing
//!
//! Key generation, encryption and decryption have no branch and no address that depends on a
//! secret, with these exceptions:
//!
//! - CKKS encodes numbers with a library routine that branches on their magnitude.
//! - Gaussian samples use `ln` and `sqrt` of the platform. Like uniform ternary samples they
//!   discard some draws, which tells nothing of the others. Wide discrete Gaussian samples, which
//!   hide the errors of results, take a number of steps that depends on the sample.
//! - A refusal of key bits or messages comes at the first invalid one.
//!
//! `tests/timing` compares times of fixed and of random secrets, in the manner of dudect. The
//! test finds dependences above a printed size, and excludes none. None of the exceptions is
//! visible from the network. Code that runs on the client's processor can observe them.

#![forbid(unsafe_code)]

pub mod ckks;
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

pub use cloakwork_math::Torus;
/// Types that a client sends and receives, and their byte formats.
pub use cloakwork_tfhe::{Gate, LweList, SeededLweList, format};
pub use error::SecretError;
pub use generate::{KeyGenerator, Report};
pub use key::{ClientKey, GlweSecretKey, LweSecretKey};
pub use public::encrypt_compact;
pub use randomness::Randomness;
