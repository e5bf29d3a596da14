//! Evaluation keys in two forms: seeded and in the order of tfhe-rs on the wire, expanded in use.

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

/// A number that does not fit the others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: expected {expected}, got {got}")]
pub struct ShapeError {
    /// Name of the number.
    pub what: &'static str,
    /// Required value.
    pub expected: usize,
    /// Actual value.
    pub got: usize,
}

impl ShapeError {
    pub(crate) fn check(what: &'static str, expected: usize, got: usize) -> Result<(), Self> {
        if expected == got { Ok(()) } else { Err(Self { what, expected, got }) }
    }

    /// Checks that a number lies in a range. The error reports the violated bound.
    pub(crate) fn within(what: &'static str, range: RangeInclusive<usize>, got: usize) -> Result<(), Self> {
        let (least, most) = range.into_inner();
        if got < least {
            return Err(Self { what, expected: least, got });
        }
        Self::check(what, got.min(most), got)
    }
}

/// Maximum number of mask polynomials of a packed ciphertext.
const GLWE_DIMENSION_MAX: usize = 4;
/// Maximum length of a key: twice that of the largest parameter set.
pub(crate) const DIMENSION_MAX: usize = 1 << 17;

/// Checks that words of `bits` bits can be decomposed with this gadget.
fn check_gadget(gadget: Decomposition, bits: u32) -> Result<(), ShapeError> {
    let base_log = gadget.base_log as usize;
    ShapeError::within("log2 of the base", 1..=BASE_LOG_MAX.min(bits - 1) as usize, base_log)?;
    ShapeError::within("levels", 1..=(bits as usize - 1) / base_log, gadget.levels)
}
