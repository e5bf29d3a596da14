//! The shape of a bootstrap: what follows from its kind alone. Whoever computes one, plans one or makes keys for one finds
//! levels, matrices and keys here, and nowhere else.

mod course;

use std::collections::BTreeMap;

pub use self::course::{Course, MatrixShape, Turn, stages_of_transform};
use super::{CkksSet, key_use::KeyUse, offsets::Way};

/// A bootstrap of ciphertexts of some number of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BootstrapShape {
    /// log2 of the numbers of a ciphertext.
    pub slots_log2: u32,
    /// Matrices in each direction.
    pub stages: usize,
    /// Keys.
    pub size: KeySize,
    /// Which matrices come first.
    pub kind: BootstrapKind,
}

/// How many keys for rotations a bootstrap has: more keys make it faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeySize {
    /// Two for each pair of matrices: rotations go one step after the other.
    Small,
    /// About as many baby steps as giant ones.
    Medium,
    /// Twice as many baby steps, which are cheaper.
    Large,
}

/// Which matrices come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BootstrapKind {
    /// Those from coefficients to numbers come last: it takes ciphertexts of any level.
    #[default]
    Regular,
    /// They come first, at the lowest levels, and take levels beforehand, not afterwards.
    Lossy,
}

/// A bootstrap that a set does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchBootstrap {
    /// Not of so many numbers.
    #[error("2^{slots_log2} numbers: bootstraps of {set} are of two and more, up to 2^{slots_log2_max}")]
    Slots {
        /// The set.
        set: &'static str,
        /// log2 of how many.
        slots_log2: u32,
        /// log2 of the most there are.
        slots_log2_max: u32,
    },
    /// Not with so many matrices.
    #[error("{stages} stages: a bootstrap of {slots} numbers has 1 to {stages_max}")]
    Stages {
        /// How many.
        stages: usize,
        /// Of how many numbers.
        slots: usize,
        /// The most there are.
        stages_max: usize,
    },
}

/// Levels that taking a remainder takes, however often the angle is doubled.
pub const REMAINDER_DEPTH: usize = 8;

impl BootstrapShape {
    /// Is it one that the set has?
    pub fn check(self, set: &CkksSet) -> Result<(), NoSuchBootstrap> {
        let slots_log2_max = set.size_log2 - 1;
        if !(1..=slots_log2_max).contains(&self.slots_log2) {
            return Err(NoSuchBootstrap::Slots { set: set.name, slots_log2: self.slots_log2, slots_log2_max });
        }
        let stages_max = set.bootstrap.raised.len().min(self.slots_log2 as usize);
        if !(1..=stages_max).contains(&self.stages) {
            return Err(NoSuchBootstrap::Stages { stages: self.stages, slots: self.slots(), stages_max });
        }
        Ok(())
    }

    /// Numbers of a ciphertext.
    pub fn slots(self) -> usize {
        1 << self.slots_log2
    }

    /// The level that ciphertexts have at least beforehand, and that it begins at.
    pub fn level_in(self) -> usize {
        match self.kind {
            BootstrapKind::Regular => 0,
            BootstrapKind::Lossy => self.stages,
        }
    }

    /// The level that ciphertexts are raised to: keys go up to it.
    pub fn raised_level(self, set: &CkksSet) -> usize {
        set.bootstrap.raised[self.stages - 1]
    }

    /// The level that remainders are taken at, after the matrices to coefficients: keys for products and conjugates go up to
    /// it.
    pub fn remainder_level(self, set: &CkksSet) -> usize {
        self.raised_level(set) - self.stages
    }

    /// The level of the first matrix from coefficients to numbers.
    pub fn values_level(self, set: &CkksSet) -> usize {
        match self.kind {
            BootstrapKind::Regular => self.remainder_level(set) - REMAINDER_DEPTH,
            BootstrapKind::Lossy => self.level_in(),
        }
    }

    /// The level that ciphertexts have afterwards.
    pub fn level_out(self, set: &CkksSet) -> usize {
        let taken = match self.kind {
            BootstrapKind::Regular => self.stages,
            BootstrapKind::Lossy => 0,
        };
        self.remainder_level(set) - REMAINDER_DEPTH - taken
    }

    /// Are both parts of the coefficients side by side in one ciphertext? There is room for them but in a full one, and
    /// afterwards a matrix brings them together.
    pub fn is_packed(self, set: &CkksSet) -> bool {
        self.slots() < set.slots() && self.kind == BootstrapKind::Regular
    }

    /// How products with its matrices turn the numbers.
    pub fn way(self) -> Way {
        match self.size {
            KeySize::Small => Way::Walked,
            KeySize::Medium => Way::Apart { more: 0 },
            KeySize::Large => Way::Apart { more: 1 },
        }
    }

    /// All keys that it takes, each once, with the highest level that it is needed at.
    pub fn keys(self, set: &CkksSet) -> BTreeMap<KeyUse, usize> {
        let course = Course::of(self, set);
        let mut keys = BTreeMap::from([
            (KeyUse::Multiplication, self.remainder_level(set)),
            (KeyUse::Conjugation, self.remainder_level(set)),
            (KeyUse::ToSparse, 0),
            (KeyUse::ToDense, self.raised_level(set)),
        ]);
        for Turn { steps, level } in course.rotations() {
            let highest = keys.entry(KeyUse::rotation_of_all(set, steps)).or_default();
            *highest = level.max(*highest);
        }
        keys
    }

    /// Bytes of its matrices: of each diagonal a polynomial, with the special primes unless turns are walked.
    pub fn matrix_bytes(self, set: &CkksSet) -> u64 {
        let special = if self.way() == Way::Walked { 0 } else { set.special.len() };
        let (raised, values) = (self.raised_level(set), self.values_level(set));
        let of_stage = |(index, [first, last]): (usize, [u32; 2])| {
            let steps = last - first + 1;
            // Around the end, turns to the left and to the right by half of all places are one.
            let diagonals = if last == self.slots_log2 { 1 << steps } else { (2_u64 << steps) - 1 };
            // The stage is the last one of those to coefficients that it is the first one of those to values.
            let levels = [raised + 1 + index - self.stages, values - index];
            diagonals * levels.map(|level| (level + 1 + special) as u64).iter().sum::<u64>()
        };
        let rows: u64 = stages_of_transform(self.slots_log2, self.stages).into_iter().enumerate().map(of_stage).sum();
        rows * 8 * set.size() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ckks::{CKKS_SETS, offsets::Offsets};

    /// Every shape that a set has.
    fn shapes(set: &CkksSet) -> Vec<BootstrapShape> {
        let mut shapes = Vec::new();
        for slots_log2 in 0..=set.size_log2 {
            for stages in 0..=6 {
                for size in [KeySize::Small, KeySize::Medium, KeySize::Large] {
                    shapes.extend([BootstrapKind::Regular, BootstrapKind::Lossy].map(|kind| BootstrapShape {
                        slots_log2,
                        stages,
                        size,
                        kind,
                    }));
                }
            }
        }
        shapes.retain(|shape| shape.check(set).is_ok());
        shapes
    }

    #[test]
    fn there_are_shapes_for_all_numbers_of_slots_but_no_more_stages_than_steps() {
        for set in CKKS_SETS {
            let stages: u32 = (1..set.size_log2).map(|slots_log2| slots_log2.min(5)).sum();
            assert_eq!(shapes(set).len(), 2 * 3 * stages as usize, "{}", set.name);
        }
    }

    #[test]
    fn what_matrices_take_is_what_their_offsets_come_to() {
        let toys = CKKS_SETS.iter().filter(|set| set.size_log2 == 10);
        for set in toys {
            for shape in shapes(set) {
                let course = Course::of(shape, set);
                let matrices: Vec<&MatrixShape> = course.matrices().collect();
                assert_eq!(matrices.len(), 2 * shape.stages);
                let special = if shape.size == KeySize::Small { 0 } else { set.special.len() };
                let rows = matrices.iter().map(|matrix| matrix.offsets.count() * (matrix.level + 1 + special));
                assert_eq!(shape.matrix_bytes(set), 8 * (set.size() * rows.sum::<usize>()) as u64, "{shape:?}");
            }
        }
    }

    /// Two for each pair of matrices, up to one for each power of two of places, and what makes up for turns that all go left.
    #[test]
    fn small_keys_are_few() {
        let set = crate::ckks::by_name("CKKS_45_60_50").expect("a set");
        for (stages, most) in [(3, 7), (4, 9), (5, 11)] {
            for kind in [BootstrapKind::Regular, BootstrapKind::Lossy] {
                let rotations = |size| {
                    let keys = BootstrapShape { slots_log2: 15, stages, size, kind }.keys(set);
                    keys.keys().filter(|key| matches!(key, KeyUse::Rotation { .. })).count()
                };
                assert!(rotations(KeySize::Small) <= most, "{stages} {kind:?}: {}", rotations(KeySize::Small));
                assert!(rotations(KeySize::Medium) > 2 * most && rotations(KeySize::Large) > 2 * most);
            }
        }
    }

    /// What a walk passes is what it has to reach.
    #[test]
    fn a_walk_reaches_every_offset() {
        for offsets in [vec![0], vec![0, 1, 2, 3, 4, 5, 6], vec![0, 8, 16, 24, 40], vec![4, 12], vec![0, 1, 15, 16, 17]]
        {
            let matrix = Offsets::new(64, offsets.clone());
            let steps = matrix.steps(Way::Walked);
            let ([babies, giants], [baby, giant]) = (matrix.turns(Way::Walked), steps.lengths());
            for offset in offsets {
                let (of_baby, of_giant) = steps.cut(offset);
                assert_eq!((of_baby + of_giant) as usize, offset);
                assert!(of_baby % baby == 0 && of_baby <= baby * babies as i64);
                assert!(of_giant % giant == 0 && of_giant <= giant * giants as i64);
            }
        }
    }
}
