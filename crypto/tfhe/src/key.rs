//! Evaluation keys as they travel: seeded, in the standard domain, in tfhe-rs's order.

mod expanded;
mod packing;
mod seeded;

pub use cloakwork_math::GgswShape;
pub use expanded::{BootstrapKey, KeySwitchKey, expand_ggsw};
pub(crate) use expanded::{GROUPING_MAX, Ggsws};
pub use packing::{PackingKey, SeededPackingKey};
pub use seeded::{SeededBootstrapKey, SeededKeySwitchKey};

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

    /// Are there as many as the product of `factors`? A product beyond every length is none.
    pub(crate) fn check_product(what: &'static str, factors: &[usize], got: usize) -> Result<(), Self> {
        Self::check(what, factors.iter().fold(1, |product: usize, factor| product.saturating_mul(*factor)), got)
    }

    /// Refuses zero, where a length would be divided by it.
    pub(crate) fn check_positive(what: &'static str, got: usize) -> Result<(), Self> {
        if got > 0 { Ok(()) } else { Err(Self { what, expected: 1, got }) }
    }
}
