//! What a computation does with a key, and which keys serve it.

use std::fmt;

use super::{CkksSet, layout::Purpose};

/// What a computation does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyUse {
    /// Products.
    Multiplication,
    /// Conjugates.
    Conjugation,
    /// Turns to the left, of a vector of so many numbers.
    Rotation {
        /// By how many places: less than there are.
        steps: usize,
        /// log2 of the numbers.
        slots_log2: u32,
    },
    /// To the sparse secret of bootstraps.
    ToSparse,
    /// Back from there.
    ToDense,
}

impl KeyUse {
    /// Turns of so many numbers, to the right where `steps` is negative.
    pub fn rotation(steps: i64, slots_log2: u32) -> Self {
        Self::Rotation { steps: steps.rem_euclid(1 << slots_log2) as usize, slots_log2 }
    }

    /// Turns of as many numbers as the ring of a set holds.
    pub fn rotation_of_all(set: &CkksSet, steps: i64) -> Self {
        Self::rotation(steps, set.size_log2 - 1)
    }

    /// What a key may be for to serve. Of few numbers, turns to the left and to the right are two keys, either of which will
    /// do.
    pub fn purposes(self, set: &CkksSet) -> Vec<Purpose> {
        match self {
            Self::Multiplication => vec![Purpose::Relinearization],
            Self::ToSparse => vec![Purpose::ToSparse],
            Self::ToDense => vec![Purpose::ToDense],
            Self::Conjugation => vec![Purpose::Move { power: conjugation_power(set) }],
            Self::Rotation { steps, slots_log2 } => {
                let right = set.slots() - (1 << slots_log2) + steps;
                let mut purposes = vec![steps, right];
                purposes.dedup();
                purposes.into_iter().map(|steps| Purpose::Move { power: rotation_power(set, steps as i64) }).collect()
            }
        }
    }
}

impl fmt::Display for KeyUse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Multiplication => out.write_str("products"),
            Self::Conjugation => out.write_str("conjugates"),
            Self::Rotation { steps, slots_log2 } => write!(out, "turning {} numbers by {steps}", 1 << slots_log2),
            Self::ToSparse => out.write_str("the sparse secret of a bootstrap"),
            Self::ToDense => out.write_str("the way back from the sparse secret of a bootstrap"),
        }
    }
}

/// The power of X that turns numbers by `steps` places to the left, of as many as the ring holds.
pub fn rotation_power(set: &CkksSet, steps: i64) -> usize {
    let order = 2 * set.size();
    // Five has order N / 2.
    let steps = steps.rem_euclid(set.slots() as i64);
    (0..i64::BITS).rev().fold(1, |power, bit| {
        let square = power * power % order;
        if steps >> bit & 1 == 1 { square * 5 % order } else { square }
    })
}

/// The power of X that conjugates all numbers.
pub fn conjugation_power(set: &CkksSet) -> usize {
    2 * set.size() - 1
}
