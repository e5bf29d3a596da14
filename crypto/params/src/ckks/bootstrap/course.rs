//! What a bootstrap does, turn by turn and matrix by matrix.

use super::{BootstrapKind, BootstrapShape};
use crate::ckks::{
    CkksSet,
    offsets::{Offsets, Way},
};

/// What a bootstrap does of all that turns numbers, of as many as the ring holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// Turns that add up the copies of few numbers.
    pub traces: Vec<Turn>,
    /// The matrices to coefficients, the first one to be applied first.
    pub to_coefficients: Vec<MatrixShape>,
    /// Those from coefficients to numbers.
    pub to_values: Vec<MatrixShape>,
    /// Adds up the two halves that the first of those leaves where parts are side by side.
    pub join: Option<Turn>,
    /// Makes up for turns of matrices that all go to the left: a regular bootstrap's at the end, a lossy one's before its
    /// numbers become coefficients.
    pub numbers_back: Option<Turn>,
    /// The same of a lossy one's coefficients.
    pub coefficients_back: Option<Turn>,
}

/// A turn by so many places to the left, at a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// By how many places.
    pub steps: i64,
    /// At which level.
    pub level: usize,
}

/// A matrix of a bootstrap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixShape {
    /// Its diagonals, turned as it says below.
    pub offsets: Offsets,
    /// How a product with it turns the numbers.
    pub way: Way,
    /// The level that it is for.
    pub level: usize,
    /// Places to the left that numbers have been turned by when they come.
    pub turned_before: usize,
    /// Places to the left that they are turned by when they go.
    pub turned_after: usize,
}

impl Course {
    /// Of a shape that the set has.
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
        // What the second half of the matrices leaves turned goes around: a lossy bootstrap has it beforehand.
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

    /// All turns but those of matrices.
    pub fn turns(&self) -> impl Iterator<Item = Turn> {
        let single = [self.join, self.numbers_back, self.coefficients_back];
        self.traces.iter().copied().chain(single.into_iter().flatten())
    }

    /// All that a key is taken for.
    pub(super) fn rotations(&self) -> impl Iterator<Item = Turn> {
        let of_matrix = |matrix: &MatrixShape| {
            let level = matrix.level;
            matrix.offsets.rotations(matrix.way).into_iter().map(move |steps| Turn { steps, level })
        };
        self.turns().chain(self.matrices().flat_map(of_matrix))
    }
}

/// Steps of a transform, cut into stages: the first and the last of each, smallest blocks first. Each has as many as the
/// others, or one more: those that do are the ones of small blocks.
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

/// How far numbers have been turned to the left by matrices that turn them no other way.
struct Turned {
    way: Way,
    /// As many as the ring holds.
    slots: usize,
    by: usize,
}

impl Turned {
    /// Through some matrices, of which only walked ones turn.
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

    /// The turn that makes up for it, of numbers of which there are so many copies as fill the ring.
    fn back(&self, slots: usize, level: usize) -> Option<Turn> {
        let by = self.by % slots;
        (by != 0).then(|| Turn { steps: (slots - by) as i64, level })
    }
}
