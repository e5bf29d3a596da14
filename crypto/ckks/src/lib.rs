//! CKKS evaluation: all computation of a server on encrypted approximate numbers. No code in this
//! crate can decrypt.
//!
//! Start at [`Ring`], which holds the precomputed data of a parameter set, and at [`Evaluator`],
//! which computes on [`Ciphertext`]s with the keys of [`mod@key`]. [`mod@format`] converts all
//! objects to bytes and back.

#![forbid(unsafe_code)]

mod arithmetic;
pub mod bootstrap;
mod changes;
mod ciphertext;
pub mod complex;
mod constants;
pub mod diagonals;
mod digits;
mod embedding;
mod error;
mod evaluator;
pub mod format;
pub mod key;
mod key_switch;
pub mod linear;
mod lowering;
mod parts;
mod plaintext;
mod poly;
mod polynomial;
mod pool;
mod prime;
mod ring;
mod rotate;
mod rows;
mod seeded_ciphertext;
mod seeded_public_key;

pub use bootstrap::{Bootstrap, BootstrapKeys};
pub use ciphertext::Ciphertext;
pub use cloakwork_params::ckks::bootstrap::{BootstrapKind, BootstrapShape, KeySize, NoSuchBootstrap};
pub use complex::Complex;
pub use diagonals::Diagonals;
pub use embedding::Embedding;
pub use error::CkksError;
pub use evaluator::{BootstrapStep, Evaluator};
pub use key::{EvaluationKeys, Gadget, SwitchKey};
pub use linear::EncodedMatrix;
pub use parts::{KeyPart, KeyPlan};
pub use plaintext::Plaintext;
pub use poly::{Basis, Poly};
pub use pool::MemoryUse;
pub use ring::Ring;
pub use seeded_ciphertext::SeededCiphertext;
pub use seeded_public_key::SeededPublicKey;
