//! Public masks from a seed, and secret randomness from the operating system.

mod mask;

pub use mask::{MaskSeed, MaskStream};
