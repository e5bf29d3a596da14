//! What numbers are multiplied by, level by level.
//!
//! A product's scale is that of both operands over a prime, and primes are not powers of two: with every multiplication the
//! scale moves a little, and with each one after that twice as far. Two values of one level have one scale if as much has
//! been done to them from one start. Where they have not, whatever has a level to spare is brought to the other's scale by a
//! multiplication with 1.

use cloakwork_params::ckks::CkksSet;

/// Are two scales one? Sums of ciphertexts are off by this part of their numbers where they are not quite.
pub fn is_same(left: f64, right: f64) -> bool {
    (left - right).abs() <= left.abs() * SAME
}

/// Less than what sums bear.
const SAME: f64 = 1.0 / (1_u64 << 42) as f64;

/// How far a scale may move from the set's own, as a factor up or down. A bootstrap bears one that is twice as large.
const DRIFT_MAX: f64 = 1.25;

/// The scale that values have at each level, where there is a choice: the set's own at the working level, and below it
/// that of a product of two values of the level above.
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

    /// Is it near enough to the set's own to be worked with?
    pub(super) fn bears(&self, scale: f64) -> bool {
        scale.is_finite() && (self.own / DRIFT_MAX..=self.own * DRIFT_MAX).contains(&scale)
    }
}

/// The set's own.
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
