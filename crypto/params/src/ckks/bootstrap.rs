//! The shape of a bootstrap and its consequences. The computation, the planning and the key
//! generation of a bootstrap all take levels, matrices and keys from this module alone.

mod course;

use std::collections::BTreeMap;

pub use self::course::{Course, MatrixShape, Turn, stages_of_transform};
use super::{CkksSet, key_use::KeyUse, offsets::Way};

/// A bootstrap for ciphertexts with a given number of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BootstrapShape {
    /// log2 of the slots of a ciphertext.
    pub slots_log2: u32,
    /// Number of matrices in each direction.
    pub stages: usize,
    /// Size of the key set.
    pub size: KeySize,
    /// Order of the matrices.
    pub kind: BootstrapKind,
}

/// Number of rotation keys of a bootstrap. More keys make a bootstrap faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeySize {
    /// Two keys for each pair of matrices: each rotation starts from the result of the rotation
    /// before.
    Small,
    /// About as many baby steps as giant steps.
    Medium,
    /// Twice as many baby steps, which are cheaper than giant steps.
    Large,
}

/// Order of the matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BootstrapKind {
    /// SlotToCoeff comes last. The bootstrap takes ciphertexts of any level.
    #[default]
    Regular,
    /// SlotToCoeff comes first, at the lowest levels. The bootstrap consumes these levels before it
    /// raises the ciphertext, not afterwards.
    Lossy,
}

/// Refusal of a bootstrap that a set does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchBootstrap {
    /// The set does not support this number of slots.
    #[error("2^{slots_log2} numbers: bootstraps of {set} are of two and more, up to 2^{slots_log2_max}")]
    Slots {
        /// Name of the set.
        set: &'static str,
        /// log2 of the requested slots.
        slots_log2: u32,
        /// log2 of the maximum slots.
        slots_log2_max: u32,
    },
    /// The set does not support this number of matrices.
    #[error("{stages} stages: a bootstrap of {slots} numbers has 1 to {stages_max}")]
    Stages {
        /// Requested stages.
        stages: usize,
        /// Slots of the bootstrap.
        slots: usize,
        /// Maximum number of stages.
        stages_max: usize,
    },
}

/// Levels that the removal of the multiples consumes, for every number of doublings.
pub const REMAINDER_DEPTH: usize = 8;

impl BootstrapShape {
    /// Checks that the set supports this shape.
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

    /// Number of slots of a ciphertext.
    pub fn slots(self) -> usize {
        1 << self.slots_log2
    }

    /// The minimum level of an input ciphertext, at which the bootstrap begins.
    pub fn level_in(self) -> usize {
        match self.kind {
            BootstrapKind::Regular => 0,
            BootstrapKind::Lossy => self.stages,
        }
    }

    /// The level to which ciphertexts are raised, which is the highest level of the keys.
    pub fn raised_level(self, set: &CkksSet) -> usize {
        set.bootstrap.raised[self.stages - 1]
    }

    /// The level at which multiples of the first prime are removed, after CoeffToSlot. Keys for
    /// products and conjugates go up to this level.
    pub fn remainder_level(self, set: &CkksSet) -> usize {
        self.raised_level(set) - self.stages
    }

    /// The level of the first SlotToCoeff matrix.
    pub fn values_level(self, set: &CkksSet) -> usize {
        match self.kind {
            BootstrapKind::Regular => self.remainder_level(set) - REMAINDER_DEPTH,
            BootstrapKind::Lossy => self.level_in(),
        }
    }

    /// The level of ciphertexts after the bootstrap.
    pub fn level_out(self, set: &CkksSet) -> usize {
        let taken = match self.kind {
            BootstrapKind::Regular => self.stages,
            BootstrapKind::Lossy => 0,
        };
        self.remainder_level(set) - REMAINDER_DEPTH - taken
    }

    /// Whether the real and the imaginary parts of the values after CoeffToSlot lie side by side in
    /// one ciphertext. Every ciphertext except a full one has room for both. Afterwards, the first
    /// SlotToCoeff matrix joins the parts.
    pub fn is_packed(self, set: &CkksSet) -> bool {
        self.slots() < set.slots() && self.kind == BootstrapKind::Regular
    }

    /// The rotation method of products with the matrices.
    pub fn way(self) -> Way {
        match self.size {
            KeySize::Small => Way::Walked,
            KeySize::Medium => Way::Apart { more: 0 },
            KeySize::Large => Way::Apart { more: 1 },
        }
    }

    /// All keys of the bootstrap, each once, with the highest level at which it is needed.
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

    /// Bytes of the matrices: one polynomial for each diagonal, with the special primes unless
    /// rotations are sequential.
    pub fn matrix_bytes(self, set: &CkksSet) -> u64 {
        let special = if self.way() == Way::Walked { 0 } else { set.special.len() };
        let (raised, values) = (self.raised_level(set), self.values_level(set));
        let of_stage = |(index, [first, last]): (usize, [u32; 2])| {
            let steps = last - first + 1;
            // On the circle of slots, a rotation to the left by half of all slots equals a rotation
            // to the right by half.
            let diagonals = if last == self.slots_log2 { 1 << steps } else { (2_u64 << steps) - 1 };
            // SlotToCoeff applies the stages in this order, and CoeffToSlot in reverse order.
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

    /// Every shape that a set supports.
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
    fn shapes_exist_for_all_slots_and_up_to_one_stage_per_step() {
        for set in CKKS_SETS {
            let stages: u32 = (1..set.size_log2).map(|slots_log2| slots_log2.min(5)).sum();
            assert_eq!(shapes(set).len(), 2 * 3 * stages as usize, "{}", set.name);
        }
    }

    #[test]
    fn matrix_bytes_match_the_offsets() {
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

    /// At most two keys for each pair of matrices, no more than one for each power of two of slots,
    /// and one that compensates for rotations that all go left.
    #[test]
    fn small_key_sets_have_few_rotations() {
        let set = crate::ckks::by_name("CKKS_45_60_50_H4096").expect("a set");
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

    /// A sequential product passes exactly the offsets that it must reach.
    #[test]
    fn sequential_rotations_reach_every_offset() {
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
