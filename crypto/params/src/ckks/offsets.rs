//! Which diagonals a matrix has, and which turns a product with it takes.
//!
//! Each diagonal is multiplied by the numbers turned by its offset. An offset is a *giant* and a *baby* step: the numbers are
//! turned by each baby step once, and each giant step's sum of diagonals times those is turned as a whole.

mod fewest;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use fewest::{Cut, fewest_giants};

/// Words of a row that a thread turns by all baby steps at once.
pub const TURNED_TOGETHER: usize = 1 << 12;

/// Rows of so many words that so many threads turn at once: as many as give each of them something to do.
pub const fn rows_turned_together(size: usize, threads: usize) -> usize {
    threads.div_ceil(size.div_ceil(TURNED_TOGETHER))
}

/// Which diagonals a square matrix has: how many columns each is to the right of the main one, around the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offsets {
    size: usize,
    offsets: BTreeSet<usize>,
}

/// How a product with a matrix turns the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Each step on its own, by a key of its own: of all cuts that take no more keys than one into blocks of a power of two, the
    /// one with the fewest giant steps, which take longest. That power of two is about the square root of the number of
    /// diagonals, or, doubled `more` times, more.
    Apart {
        /// How often it is doubled.
        more: u32,
    },
    /// Each step from where the one before it ended, all to the left, so that two keys are enough.
    Walked,
}

/// How offsets are cut: of each block of neighbours, one is a giant step, and baby steps lead from there to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Distance of two neighbouring offsets.
    stride: usize,
    /// Into blocks of so many strides.
    cut: Cut,
    /// Strides all around.
    around: usize,
    way: Way,
}

impl Offsets {
    /// Of a matrix of so many rows, a power of two, with diagonals at these offsets.
    pub fn new(size: usize, offsets: impl IntoIterator<Item = usize>) -> Self {
        Self { size, offsets: offsets.into_iter().map(|offset| offset % size).collect() }
    }

    /// Of some steps of a transform in one, from the first to the last: each adds to a number the one half a block to its left
    /// or right, and blocks of step k are 2^k numbers.
    pub(super) fn of_transform(slots_log2: u32, [first, last]: [u32; 2]) -> Self {
        let size = 1 << slots_log2;
        let halves = (first..=last).map(|len_log2| 1_usize << (len_log2 - 1));
        let offsets = halves.fold(BTreeSet::from([0]), |offsets, half| {
            offsets.iter().flat_map(|offset| [0, half, size - half].map(|by| (offset + by) % size)).collect()
        });
        Self { size, offsets }
    }

    /// How many diagonals there are.
    pub fn count(&self) -> usize {
        self.offsets.len()
    }

    /// Of the same matrix for twice as many numbers.
    pub(super) fn doubled(&self) -> Self {
        Self::new(2 * self.size, self.offsets.iter().map(|offset| doubled(self.size, *offset)))
    }

    /// Of the matrix that turns the numbers so many places to the left as well.
    pub(super) fn turned(&self, by: usize) -> Self {
        Self::new(self.size, self.offsets.iter().map(|offset| offset + by))
    }

    /// The farthest that the matrix turns to the right: so many places to the left, and all its turns go there. One that turns
    /// by every multiple of its stride has nothing to gain.
    pub(super) fn turns_to_the_right(&self) -> usize {
        let steps = self.steps_of_powers_of_two(Way::Apart { more: 0 });
        if self.count() * steps.stride >= self.size {
            return 0;
        }
        let least = self.offsets.iter().map(|offset| steps.place(*offset)).min().unwrap_or(0);
        steps.stride * least.min(0).unsigned_abs() as usize
    }

    /// How they are cut: the same for everybody, for keys are made for these steps.
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

    /// Into blocks of a power of two.
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
        // A block of all that is around has the turns to the right as well.
        let first = if way != Way::Walked && inner == around { -((around / 2) as i64) } else { 0 };
        Steps { stride, cut: Cut { inner, first }, around, way }
    }

    /// Rotations that a product takes keys for.
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

    /// Turns by baby steps and by giant steps that a product makes, one key switch for each.
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

    /// Baby steps and giant steps, without those by nothing.
    fn cut(&self, steps: Steps) -> [BTreeSet<i64>; 2] {
        let (mut babies, mut giants): (BTreeSet<i64>, BTreeSet<i64>) =
            self.offsets.iter().map(|offset| steps.cut(*offset)).unzip();
        babies.remove(&0);
        giants.remove(&0);
        [babies, giants]
    }
}

/// Where a diagonal of a matrix of `size` rows is in the matrix for twice as many numbers: offsets to the left stay so.
pub fn doubled(size: usize, offset: usize) -> usize {
    if 2 * offset > size { size + offset } else { offset }
}

impl Steps {
    /// Baby and giant step of an offset.
    pub fn cut(self, offset: usize) -> (i64, i64) {
        let (place, Cut { inner, first }) = (self.place(offset), self.cut);
        let baby = first + (place - first).rem_euclid(inner as i64);
        (baby * self.stride as i64, (place - baby) * self.stride as i64)
    }

    /// An offset in strides. Half of the offsets are turns to the right, unless all turns go one way.
    fn place(self, offset: usize) -> i64 {
        let (place, around) = ((offset / self.stride) as i64, self.around as i64);
        if self.way != Way::Walked && 2 * place >= around { place - around } else { place }
    }

    /// Does each step begin where the one before it ended?
    pub fn is_walk(self) -> bool {
        self.way == Way::Walked
    }

    /// Of one baby step and of one giant step.
    pub fn lengths(self) -> [i64; 2] {
        [self.stride as i64, (self.cut.inner * self.stride) as i64]
    }
}
