//! Scales, level by level. A ciphertext holds numbers multiplied by its scale.
//!
//! A product's scale is the product of both operands' scales divided by a prime, and primes are not
//! powers of two. With every multiplication the scale drifts a little, and each further
//! multiplication doubles the drift. Two values of one level have one scale if equal
//! multiplications led there from an equal start. Otherwise the value with a level to spare is
//! brought to the other's scale by a multiplication with 1.

use cloakwork_params::ckks::CkksSet;

/// Whether two scales count as equal. The sum of ciphertexts with such scales has this relative
/// error.
pub fn is_same(left: f64, right: f64) -> bool {
    (left - right).abs() <= left.abs() * SCALE_TOLERANCE
}

/// Relative tolerance of [`is_same`], below the error that sums tolerate.
const SCALE_TOLERANCE: f64 = 1.0 / (1_u64 << 42) as f64;

/// Largest factor, up or down, between a scale and the set's own. A bootstrap bears a scale twice
/// as large.
const DRIFT_MAX: f64 = 1.25;

/// The scale of values at each level, where there is a choice. The working level has the set's own
/// scale. Each lower level has the scale of a product of two values of the level above.
#[derive(Clone, Debug)]
pub(super) struct Scales {
    by_level: Vec<f64>,
    own: f64,
}

impl Scales {
    pub(super) fn of(set: &CkksSet) -> Self {
        let own = own(set);
        let mut by_level = vec![own; set.working_level + 1];
        for level in (1..=set.working_level).rev() {
            by_level[level - 1] = by_level[level] * by_level[level] / set.chain[level] as f64;
        }
        Self { by_level, own }
    }

    pub(super) fn at(&self, level: usize) -> f64 {
        self.by_level[level]
    }

    pub(super) fn own(&self) -> f64 {
        self.own
    }

    /// Whether a scale is near enough to the set's own to compute with.
    pub(super) fn bears(&self, scale: f64) -> bool {
        scale.is_finite() && (self.own / DRIFT_MAX..=self.own * DRIFT_MAX).contains(&scale)
    }
}

/// The set's own scale.
pub(super) fn own(set: &CkksSet) -> f64 {
    2_f64.powi(set.scale_log2 as i32)
}

#[cfg(test)]
mod tests {
    use cloakwork_params::ckks::CKKS_SETS;

    use super::*;

    #[test]
    fn from_the_working_level_down_no_scale_moves_too_far() {
        for set in CKKS_SETS {
            let scales = Scales::of(set);
            assert_eq!(scales.at(set.working_level), scales.own());
            assert!((0..=set.working_level).all(|level| scales.bears(scales.at(level))), "{}", set.name);
        }
    }
}
