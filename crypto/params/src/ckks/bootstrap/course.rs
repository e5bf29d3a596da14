//! The rotations and matrices of a bootstrap, one by one.

use super::{BootstrapKind, BootstrapShape};
use crate::ckks::{
    CkksSet,
    offsets::{Offsets, Way},
};

/// All steps of a bootstrap that rotate the slots. Rotations act on as many slots as the ring has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// Rotations that sum up the copies of the numbers in a sparse ciphertext.
    pub traces: Vec<Turn>,
    /// The CoeffToSlot matrices, in the order of application.
    pub to_coefficients: Vec<MatrixShape>,
    /// The SlotToCoeff matrices, in the order of application.
    pub to_values: Vec<MatrixShape>,
    /// Rotation that sums up the two halves after the first SlotToCoeff matrix, if real and
    /// imaginary parts lie side by side.
    pub join: Option<Turn>,
    /// Compensates for matrices whose rotations all go left: in a regular bootstrap at the end, in
    /// a lossy bootstrap before the numbers become coefficients.
    pub numbers_back: Option<Turn>,
    /// The equivalent rotation for the coefficients of a lossy bootstrap.
    pub coefficients_back: Option<Turn>,
}

/// A rotation to the left at a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Number of slots to rotate by.
    pub steps: i64,
    /// Level of the rotation.
    pub level: usize,
}

/// A matrix of a bootstrap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixShape {
    /// The diagonals of the matrix, after the rotations below.
    pub offsets: Offsets,
    /// The rotation method of a product with the matrix.
    pub way: Way,
    /// Level of the matrix.
    pub level: usize,
    /// Rotation to the left of the input numbers, in slots.
    pub turned_before: usize,
    /// Rotation to the left of the output numbers, in slots.
    pub turned_after: usize,
}

impl Course {
    /// The steps of a shape that the set supports.
    pub fn of(shape: BootstrapShape, set: &CkksSet) -> Self {
        let BootstrapShape { slots_log2, stages, .. } = shape;
        let of_stage = |stage: [u32; 2], has_both_parts: bool| {
            let offsets = Offsets::of_transform(slots_log2, stage);
            if has_both_parts { offsets.doubled() } else { offsets }
        };
        let (groups, is_packed) = (stages_of_transform(slots_log2, stages), shape.is_packed(set));
        let to_coefficients = groups.iter().rev().enumerate().map(|(index, stage)| {
            (of_stage(*stage, is_packed && index + 1 == stages), shape.raised_level(set) - index)
        });
        let to_values = groups
            .iter()
            .enumerate()
            .map(|(index, stage)| (of_stage(*stage, is_packed && index == 0), shape.values_level(set) - index));
        let (way, slots) = (shape.way(), set.slots());
        let (mut numbers, mut coefficients) = (Turned { way, slots, by: 0 }, Turned { way, slots, by: 0 });
        // The second group of matrices, in the order of execution, leaves its rotation in the
        // resulting numbers. A lossy bootstrap compensates for that rotation in advance, on the
        // input numbers.
        let (to_coefficients, to_values, back_level) = match shape.kind {
            BootstrapKind::Regular => {
                let to_coefficients = numbers.through(to_coefficients);
                (to_coefficients, numbers.through(to_values), shape.level_out(set))
            }
            BootstrapKind::Lossy => {
                let to_values = coefficients.through(to_values);
                (numbers.through(to_coefficients), to_values, shape.level_in())
            }
        };
        let raised = shape.raised_level(set);
        Self {
            traces: (slots_log2..set.size_log2 - 1).map(|log2| Turn { steps: 1 << log2, level: raised }).collect(),
            to_coefficients,
            to_values,
            join: is_packed.then(|| Turn { steps: 1 << slots_log2, level: shape.values_level(set) - 1 }),
            numbers_back: numbers.back(shape.slots(), back_level),
            coefficients_back: coefficients.back(shape.slots(), 0),
        }
    }

    /// All matrices.
    pub fn matrices(&self) -> impl Iterator<Item = &MatrixShape> {
        self.to_coefficients.iter().chain(&self.to_values)
    }

    /// All rotations except those of matrices.
    pub fn turns(&self) -> impl Iterator<Item = Turn> {
        let single = [self.join, self.numbers_back, self.coefficients_back];
        self.traces.iter().copied().chain(single.into_iter().flatten())
    }

    /// All rotations that take a key.
    pub(super) fn rotations(&self) -> impl Iterator<Item = Turn> {
        let of_matrix = |matrix: &MatrixShape| {
            let level = matrix.level;
            matrix.offsets.rotations(matrix.way).into_iter().map(move |steps| Turn { steps, level })
        };
        self.turns().chain(self.matrices().flat_map(of_matrix))
    }
}

/// Splits the steps of a transform into stages: the first and the last step of each stage, smallest
/// blocks first. All stages have an equal number of steps, except that the first stages, those of
/// small blocks, may have one step more.
pub fn stages_of_transform(slots_log2: u32, stages: usize) -> Vec<[u32; 2]> {
    assert!((1..=slots_log2 as usize).contains(&stages), "{stages} stages of {slots_log2} steps");
    let (least, more) = (slots_log2 / stages as u32, slots_log2 % stages as u32);
    let mut last = 0;
    let stage = |place| {
        let first = last + 1;
        last += least + u32::from(place < more);
        [first, last]
    };
    (0..stages as u32).map(stage).collect()
}

/// Accumulated rotation to the left by matrices whose rotations all go left.
struct Turned {
    way: Way,
    /// Number of slots of the ring.
    slots: usize,
    by: usize,
}

impl Turned {
    /// Passes the numbers through some matrices. Only sequential matrices add to the rotation.
    fn through(&mut self, matrices: impl Iterator<Item = (Offsets, usize)>) -> Vec<MatrixShape> {
        let matrix = |(offsets, level): (Offsets, usize)| {
            let turned_before = self.by;
            let by = if self.way == Way::Walked { offsets.turns_to_the_right() } else { 0 };
            self.by = (turned_before + by) % self.slots;
            let (offsets, turned_after) = (offsets.turned(by), turned_before + by);
            MatrixShape { offsets, way: self.way, level, turned_before, turned_after }
        };
        matrices.map(matrix).collect()
    }

    /// The rotation that compensates, for numbers whose copies fill the ring.
    fn back(&self, slots: usize, level: usize) -> Option<Turn> {
        let by = self.by % slots;
        (by != 0).then(|| Turn { steps: (slots - by) as i64, level })
    }
}
