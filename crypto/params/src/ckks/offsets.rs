//! The diagonals of a matrix, and the rotations of a product with it.
//!
//! Each diagonal is multiplied by the numbers rotated by its offset. An offset is the sum of a
//! *giant* step and a *baby* step. The numbers are rotated by each baby step once. For each giant
//! step, the sum of diagonals times these rotations is rotated as a whole.

mod fewest;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use fewest::{Cut, fewest_giants};

/// Words of a row that a thread rotates by all baby steps at once.
pub const TURNED_TOGETHER: usize = 1 << 12;

/// Number of rows to rotate at once: the fewest rows of `size` words that give each of `threads`
/// threads some work.
pub const fn rows_turned_together(size: usize, threads: usize) -> usize {
    threads.div_ceil(size.div_ceil(TURNED_TOGETHER))
}

/// The diagonals of a square matrix, each as the number of columns to the right of the main
/// diagonal, with wrap-around.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offsets {
    size: usize,
    offsets: BTreeSet<usize>,
}

/// The rotation method of a product with a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Each step is a rotation with a key of its own. Giant steps take longest, so the cut has the
    /// fewest giant steps among the cuts that are allowed. A cut is allowed if it takes no more
    /// keys than the cut into blocks of a power of two. That power is about the square root of the
    /// number of diagonals, doubled `more` times.
    Apart {
        /// Number of doublings of the block.
        more: u32,
    },
    /// Each step starts from the result of the step before, and all steps go left, so that two keys
    /// are enough.
    Walked,
}

/// The cut of offsets into blocks of neighbours. A giant step leads to a block, and baby steps lead
/// from there to the offsets in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Distance of two neighbouring offsets.
    stride: usize,
    /// The cut into blocks, in strides.
    cut: Cut,
    /// Number of strides on the whole circle.
    around: usize,
    way: Way,
}

impl Offsets {
    /// The offsets of a matrix of `size` rows, a power of two, with diagonals at these offsets.
    pub fn new(size: usize, offsets: impl IntoIterator<Item = usize>) -> Self {
        Self { size, offsets: offsets.into_iter().map(|offset| offset % size).collect() }
    }

    /// The offsets of several steps of a transform in one matrix, from the first step to the last.
    /// Each step adds to a number the number half a block to its left or right. Blocks of step k
    /// have 2^k numbers.
    pub(super) fn of_transform(slots_log2: u32, [first, last]: [u32; 2]) -> Self {
        let size = 1 << slots_log2;
        let halves = (first..=last).map(|len_log2| 1_usize << (len_log2 - 1));
        let offsets = halves.fold(BTreeSet::from([0]), |offsets, half| {
            offsets.iter().flat_map(|offset| [0, half, size - half].map(|by| (offset + by) % size)).collect()
        });
        Self { size, offsets }
    }

    /// Number of diagonals.
    pub fn count(&self) -> usize {
        self.offsets.len()
    }

    /// The offsets of this matrix for twice as many numbers.
    pub(super) fn doubled(&self) -> Self {
        Self::new(2 * self.size, self.offsets.iter().map(|offset| doubled(self.size, *offset)))
    }

    /// The offsets of the matrix that also rotates the numbers by this number of slots to the left.
    pub(super) fn turned(&self, by: usize) -> Self {
        Self::new(self.size, self.offsets.iter().map(|offset| offset + by))
    }

    /// The largest rotation of the matrix to the right. An additional rotation to the left by as
    /// much makes all rotations go left. A matrix that rotates by every multiple of its stride
    /// gains nothing, and the result is 0.
    pub(super) fn turns_to_the_right(&self) -> usize {
        let steps = self.steps_of_powers_of_two(Way::Apart { more: 0 });
        if self.count() * steps.stride >= self.size {
            return 0;
        }
        let least = self.offsets.iter().map(|offset| steps.place(*offset)).min().unwrap_or(0);
        steps.stride * least.min(0).unsigned_abs() as usize
    }

    /// The cut of the offsets. This cut must be equal for all parties, because keys are made for
    /// these steps.
    pub fn steps(&self, way: Way) -> Steps {
        let steps = self.steps_of_powers_of_two(way);
        if way == Way::Walked {
            return steps;
        }
        let [babies, giants] = self.cut(steps);
        let mut places: Vec<i64> = self.offsets.iter().map(|offset| steps.place(*offset)).collect();
        places.sort_unstable();
        let cut = fewest_giants(&places, steps.around, babies.len() + giants.len());
        Steps { cut: cut.unwrap_or(steps.cut), ..steps }
    }

    /// The cut into blocks of a power of two.
    fn steps_of_powers_of_two(&self, way: Way) -> Steps {
        let strides =
            self.offsets.iter().filter(|offset| **offset != 0).map(|offset| 1_usize << offset.trailing_zeros());
        let stride = strides.min().unwrap_or(self.size);
        let around = self.size / stride;
        let more = match way {
            Way::Apart { more } => more,
            Way::Walked => 0,
        };
        let bits = usize::BITS - self.count().leading_zeros();
        let inner = (1 << (bits.div_ceil(2) + more)).min(around);
        // A block that covers the whole circle contains the rotations to the right as well.
        let first = if way != Way::Walked && inner == around { -((around / 2) as i64) } else { 0 };
        Steps { stride, cut: Cut { inner, first }, around, way }
    }

    /// Rotations of a product that take a key.
    pub fn rotations(&self, way: Way) -> BTreeSet<i64> {
        let steps = self.steps(way);
        let [babies, giants] = self.cut(steps);
        match way {
            Way::Apart { .. } => babies.union(&giants).copied().collect(),
            Way::Walked => {
                let lengths = steps.lengths().into_iter().zip([babies, giants]);
                lengths.filter(|(_, steps)| !steps.is_empty()).map(|(length, _)| length).collect()
            }
        }
    }

    /// Number of rotations by baby steps and by giant steps in a product, with one key switch for
    /// each.
    pub fn turns(&self, way: Way) -> [usize; 2] {
        let steps = self.steps(way);
        let cut = self.cut(steps);
        match way {
            Way::Apart { .. } => cut.map(|steps| steps.len()),
            Way::Walked => {
                let [babies, giants] = cut.map(|steps| steps.last().copied().unwrap_or(0));
                let [baby, giant] = steps.lengths();
                [babies / baby, giants / giant].map(|turns| turns as usize)
            }
        }
    }

    /// The baby steps and the giant steps, without steps of zero.
    fn cut(&self, steps: Steps) -> [BTreeSet<i64>; 2] {
        let (mut babies, mut giants): (BTreeSet<i64>, BTreeSet<i64>) =
            self.offsets.iter().map(|offset| steps.cut(*offset)).unzip();
        babies.remove(&0);
        giants.remove(&0);
        [babies, giants]
    }
}

/// Position of a diagonal of a matrix of `size` rows in the matrix for twice as many numbers.
/// Offsets to the left stay to the left.
pub fn doubled(size: usize, offset: usize) -> usize {
    if 2 * offset > size { size + offset } else { offset }
}

impl Steps {
    /// Baby step and giant step of an offset.
    pub fn cut(self, offset: usize) -> (i64, i64) {
        let (place, Cut { inner, first }) = (self.place(offset), self.cut);
        let baby = first + (place - first).rem_euclid(inner as i64);
        (baby * self.stride as i64, (place - baby) * self.stride as i64)
    }

    /// An offset in strides. Half of the offsets count as rotations to the right, unless all
    /// rotations go left.
    fn place(self, offset: usize) -> i64 {
        let (place, around) = ((offset / self.stride) as i64, self.around as i64);
        if self.way != Way::Walked && 2 * place >= around { place - around } else { place }
    }

    /// Whether each step starts from the result of the step before.
    pub fn is_walk(self) -> bool {
        self.way == Way::Walked
    }

    /// Length of a baby step and of a giant step.
    pub fn lengths(self) -> [i64; 2] {
        [self.stride as i64, (self.cut.inner * self.stride) as i64]
    }
}
