//! Uses of a key in a computation, and the keys that serve each use.

use std::fmt;

use super::{CkksSet, layout::Purpose};

/// A use of a key in a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyUse {
    /// Products.
    Multiplication,
    /// Conjugates.
    Conjugation,
    /// Rotations to the left of a vector.
    Rotation {
        /// Number of slots to rotate by, below the length of the vector.
        steps: usize,
        /// log2 of the length of the vector.
        slots_log2: u32,
    },
    /// The switch to the sparse secret of bootstraps.
    ToSparse,
    /// The switch back from the sparse secret.
    ToDense,
}

impl KeyUse {
    /// A rotation of a vector of 2^`slots_log2` numbers, to the right if `steps` is negative.
    pub fn rotation(steps: i64, slots_log2: u32) -> Self {
        Self::Rotation { steps: steps.rem_euclid(1 << slots_log2) as usize, slots_log2 }
    }

    /// A rotation of as many numbers as the ring of a set holds.
    pub fn rotation_of_all(set: &CkksSet, steps: i64) -> Self {
        Self::rotation(steps, set.size_log2 - 1)
    }

    /// The purposes of keys that serve this use. For a vector shorter than the ring, rotations to
    /// the left and to the right are different keys, and either key serves.
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

/// The power of X that rotates the slots by `steps` to the left, over all slots of the ring.
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
