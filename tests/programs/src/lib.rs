//! Programs for tests, with what they mean in the clear: random ones, and those that were stored once.

#![forbid(unsafe_code)]

pub mod golden;
mod random;
mod vectors;

pub use random::{RandomProgram, Seed, mask};
pub use vectors::{RandomVectors, evaluate};
