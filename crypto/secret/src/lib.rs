//! Secret keys and everything that needs one: key generation, encryption, decryption, noise measurement.
//!
//! Client side only. Nothing that an operator runs may depend on this crate.
//!
//! # What is wiped
//!
//! Keys, noise, plaintexts and what a computation leaves of them on the heap are overwritten when they are
//! dropped. Messages, phases and key bits that a caller asks for are the caller's from then on. Copies that the
//! compiler leaves on the stack and in registers when it moves a value are out of reach.
//!
//! # Copies
//!
//! A [`Randomness`] that is carried over a `fork(2)` or into a copy of a virtual machine would draw the same noise on both
//! sides, under fresh masks, and the difference of two such ciphertexts has none. So each key, part of a key and list of
//! ciphertexts begins with 32 fresh bytes of the operating system. What is under way while the copy is taken is not
//! helped by that, nor is a virtual machine whose system does not notice that it was copied, and gives both the same bytes.
//!
//! # Timing
//!
//! Products with a key, the rows of its encryptions and the noise added to them take the same time for every
//! key. Not so: the sign of a boolean plaintext is a branch, decoding divides a phase by the step of the
//! encoding, CKKS encodes by divisions and decodes with a branch for the sign, the places of a sparse secret are addresses, Gaussian samples go through `ln` and `sqrt`, and a refusal of key bits or messages comes at the
//! first bad one. None of it is seen from the network; who runs code on the client's processor is not held off.

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
/// What a client sends and receives, and the bytes of it.
pub use cloakwork_tfhe::{Gate, LweList, SeededLweList, format};
pub use error::SecretError;
pub use generate::{KeyGenerator, Report};
pub use key::{ClientKey, GlweSecretKey, LweSecretKey};
pub use public::encrypt_compact;
pub use randomness::Randomness;
