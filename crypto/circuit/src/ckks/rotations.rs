//! Which rotations matrices take, and which matrices bootstraps have. `cloakwork-ckks` encodes them so; a test compares the
//! two (`worker/vectors/tests/programs.rs`).

use std::collections::BTreeSet;

use cloakwork_params::ckks::CkksSet;

/// How many keys for rotations a bootstrap has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeySize {
    /// About as many baby steps as giant ones.
    Medium,
    /// Twice as many baby steps, which are cheaper.
    Large,
}

/// A kind of bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bootstrap {
    /// log2 of the numbers of a vector.
    pub slots_log2: u32,
    /// Matrices in each direction.
    pub stages: usize,
    /// Keys.
    pub size: KeySize,
}

/// A matrix of so many rows, by the offsets of its diagonals.
pub(super) struct Offsets {
    pub(super) size: usize,
    pub(super) offsets: BTreeSet<usize>,
}

/// Levels that taking a remainder takes: a polynomial of five, and three doublings of an angle.
const REMAINDER_DEPTH: usize = 8;

impl Bootstrap {
    /// One that there is, or what is wrong with it.
    pub(super) fn new(set: &CkksSet, slots_log2: u32, stages: u32, size: KeySize) -> Result<Self, String> {
        let stages_max = set.bootstrap.raised.len().min(slots_log2 as usize);
        match stages as usize {
            _ if slots_log2 == 0 => Err("a vector of one number: bootstraps are of two or more".to_owned()),
            stages if (1..=stages_max).contains(&stages) => Ok(Self { slots_log2, stages, size }),
            stages => Err(format!("{stages} stages: a bootstrap of {} numbers has 1 to {stages_max}", 1 << slots_log2)),
        }
    }

    /// The level that is raised to.
    pub(super) fn raised_level(self, set: &CkksSet) -> usize {
        set.bootstrap.raised[self.stages - 1]
    }

    /// The level that remainders are taken at.
    pub(super) fn remainder_level(self, set: &CkksSet) -> usize {
        self.raised_level(set) - self.stages
    }

    /// The level afterwards.
    pub fn level_out(self, set: &CkksSet) -> usize {
        self.remainder_level(set) - REMAINDER_DEPTH - self.stages
    }

    /// Is there room for both parts of the coefficients side by side?
    pub(super) fn is_packed(self, set: &CkksSet) -> bool {
        self.slots_log2 + 1 < set.size_log2
    }

    /// More baby steps than giant ones, as a power of two.
    pub(super) fn more(self) -> u32 {
        match self.size {
            KeySize::Medium => 0,
            KeySize::Large => 1,
        }
    }

    /// Its matrices, each with the level that it is for.
    pub(super) fn matrices(self, set: &CkksSet) -> Vec<(Offsets, usize)> {
        let packed = |is_packed: bool, matrix: Offsets| if is_packed { matrix.doubled() } else { matrix };
        let is_packed = self.is_packed(set);
        let to_values = self.groups();
        let to_coefficients = to_values.iter().rev().copied().enumerate().map(|(index, steps)| {
            let matrix = Offsets::of_steps(self.slots_log2, steps);
            (packed(is_packed && index + 1 == self.stages, matrix), self.raised_level(set) - index)
        });
        let start = self.remainder_level(set) - REMAINDER_DEPTH;
        let to_values = to_values.iter().copied().enumerate().map(|(index, steps)| {
            (packed(is_packed && index == 0, Offsets::of_steps(self.slots_log2, steps)), start - index)
        });
        to_coefficients.chain(to_values).collect()
    }

    /// Turns that add up copies, and the one that joins two halves: each with its level.
    pub(super) fn turns(self, set: &CkksSet) -> Vec<(i64, usize)> {
        let traces = (self.slots_log2..set.size_log2 - 1).map(|log2| (1 << log2, self.raised_level(set)));
        let start = self.remainder_level(set) - REMAINDER_DEPTH;
        traces.chain(self.is_packed(set).then_some((1 << self.slots_log2, start - 1))).collect()
    }

    /// Bytes of its matrices: of each diagonal, a polynomial with the special primes.
    pub fn matrix_bytes(self, set: &CkksSet) -> u64 {
        let start = self.remainder_level(set) - REMAINDER_DEPTH;
        let rows = |level: usize| (level + 1 + set.special.len()) as u64;
        let of_group = |(index, [first, last]): (usize, [u32; 2])| {
            let steps = last - first + 1;
            // Around the end, turns to the left and to the right by half of all places are one.
            let diagonals = if last == self.slots_log2 { 1 << steps } else { (2_u64 << steps) - 1 };
            diagonals * (rows(self.raised_level(set) + 1 + index - self.stages) + rows(start - index))
        };
        let rows: u64 = self.groups().into_iter().enumerate().map(of_group).sum();
        rows * 8 * set.size() as u64
    }

    /// Steps of a transform, cut into stages: the first and the last of each, smallest blocks first.
    fn groups(self) -> Vec<[u32; 2]> {
        let (least, more) = (self.slots_log2 / self.stages as u32, self.slots_log2 % self.stages as u32);
        let mut first = 1;
        (0..self.stages as u32)
            .map(|stage| {
                let last = first + least + u32::from(stage < more) - 1;
                let steps = [first, last];
                first = last + 1;
                steps
            })
            .collect()
    }
}

impl Offsets {
    /// Of some steps of a transform in one: each adds to a number the one half a block to its left or right.
    fn of_steps(slots_log2: u32, [first, last]: [u32; 2]) -> Self {
        let size = 1_usize << slots_log2;
        let mut offsets = BTreeSet::from([0]);
        for len_log2 in first..=last {
            let half = 1_usize << (len_log2 - 1);
            offsets = offsets.iter().flat_map(|offset| [0, half, size - half].map(|by| (offset + by) % size)).collect();
        }
        Self { size, offsets }
    }

    /// Of the same matrix for twice as many numbers.
    fn doubled(self) -> Self {
        let n = self.size;
        let offset = |offset: usize| if 2 * offset > n { n + offset } else { offset };
        Self { size: 2 * n, offsets: self.offsets.into_iter().map(offset).collect() }
    }

    /// Baby steps and giant steps, without those by nothing.
    pub(super) fn steps(&self, more: u32) -> [BTreeSet<i64>; 2] {
        let n = self.size;
        let strides =
            self.offsets.iter().filter(|offset| **offset != 0).map(|offset| 1_usize << offset.trailing_zeros());
        let stride = strides.min().unwrap_or(n);
        let bits = usize::BITS - self.offsets.len().leading_zeros();
        let inner = (1_usize << (bits.div_ceil(2) + more)).min(n / stride);
        let around = (n / stride) as i64;
        let (mut babies, mut giants) = (BTreeSet::new(), BTreeSet::new());
        for offset in &self.offsets {
            let place = (offset / stride) as i64;
            let place = if 2 * place >= around && inner < n / stride { place - around } else { place };
            let baby = place.rem_euclid(inner as i64);
            babies.insert(baby * stride as i64);
            giants.insert((place - baby) * stride as i64);
        }
        babies.remove(&0);
        giants.remove(&0);
        [babies, giants]
    }
}
