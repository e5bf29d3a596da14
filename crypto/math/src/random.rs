//! Public masks from a seed, and secret randomness from the operating system.
//!
//! The two are separate: a mask seed is drawn from the operating system on its own. No secret or
//! noise is ever computed from a mask seed, and no mask from secret randomness.

mod discrete_gaussian;
mod fast_masks;
mod mask;
mod noise;
mod secret;
mod uniform;

pub use discrete_gaussian::SIGMA_MAX;
pub use fast_masks::FastMasks;
pub use mask::{MaskSeed, MaskStream};
pub use secret::SecretRng;
pub use uniform::fill_residues;

/// Fills `bytes` from the operating system's generator.
pub fn fill_from_os(bytes: &mut [u8]) -> Result<(), OsRandomError> {
    getrandom::fill(bytes).map_err(OsRandomError)
}

/// The operating system refused to give random bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gave no random bytes: {0}")]
pub struct OsRandomError(getrandom::Error);
