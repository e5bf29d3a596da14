//! Evaluation keys: as they travel, seeded and in tfhe-rs's order, and expanded, as they are used.

mod expanded;
mod packing;
mod seeded;

use std::ops::RangeInclusive;

pub use cloakwork_math::GgswShape;
use cloakwork_math::decomposition::BASE_LOG_MAX;
use cloakwork_params::Decomposition;

pub use expanded::{BootstrapKey, KeySwitchKey, expand_ggsw};
pub(crate) use expanded::{GROUPING_MAX, Ggsws, Groups};
pub use packing::{PackingKey, SeededPackingKey};
pub use seeded::{SeededBootstrapKey, SeededDecompressionKey, SeededKeySwitchKey};

/// Numbers that do not fit each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: expected {expected}, got {got}")]
pub struct ShapeError {
    /// What was counted.
    pub what: &'static str,
    /// What it must be.
    pub expected: usize,
    /// What it was.
    pub got: usize,
}

impl ShapeError {
    pub(crate) fn check(what: &'static str, expected: usize, got: usize) -> Result<(), Self> {
        if expected == got { Ok(()) } else { Err(Self { what, expected, got }) }
    }

    /// Names the bound that was overstepped.
    pub(crate) fn within(what: &'static str, range: RangeInclusive<usize>, got: usize) -> Result<(), Self> {
        let (least, most) = range.into_inner();
        if got < least {
            return Err(Self { what, expected: least, got });
        }
        Self::check(what, got.min(most), got)
    }
}

/// Most mask polynomials of a packed ciphertext.
const GLWE_DIMENSION_MAX: usize = 4;
/// Longest key; twice what the largest set has.
pub(crate) const DIMENSION_MAX: usize = 1 << 17;

/// Can words of so many bits be decomposed?
fn check_gadget(gadget: Decomposition, bits: u32) -> Result<(), ShapeError> {
    let base_log = gadget.base_log as usize;
    ShapeError::within("log2 of the base", 1..=BASE_LOG_MAX.min(bits - 1) as usize, base_log)?;
    ShapeError::within("levels", 1..=(bits as usize - 1) / base_log, gadget.levels)
}
