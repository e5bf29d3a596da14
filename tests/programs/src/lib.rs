//! Programs for tests, with their results in the clear: random programs, and stored programs.

#![forbid(unsafe_code)]

pub mod golden;
mod random;
mod vectors;

pub use random::{RandomProgram, Seed, mask};
pub use vectors::{RandomVectors, evaluate};
