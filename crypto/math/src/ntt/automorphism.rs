//! The substitution of a power of X for X, on NTT values: a permutation.

use crate::simd::{
    Level,
    residues::{Residues, WordArithmetic, WordKernel, Words},
};

/// The map from f(X) to f(X^g) for one odd g, on values in the order of [`super::Ntt`]. The map is
/// equal for all primes.
///
/// Eight adjacent values map to eight adjacent values, so the map moves whole cache lines. This
/// holds for every larger power of two as well.
pub struct Automorphism {
    arithmetic: WordArithmetic,
    /// Target of each block of eight values, with the index of its permutation in [`Self::turns`].
    targets: Vec<Target>,
    /// Permutations within a block: the source index of each of the eight values.
    turns: [[u64; BLOCK_VALUES]; BLOCK_VALUES],
}

#[derive(Clone, Copy, Default)]
struct Target {
    block: u16,
    turn: u16,
}

const BLOCK_VALUES: usize = 8;

impl Automorphism {
    /// Creates the map for X^`power` on rings of 2^`size_log2`.
    pub fn new(power: usize, size_log2: u32) -> Self {
        Self::with_level(power, size_log2, Level::detect())
    }

    /// Like [`Self::new`], on one instruction set.
    pub fn with_level(power: usize, size_log2: u32, level: Level) -> Self {
        assert!(power % 2 == 1 && (super::SIZE_LOG2_MIN..=super::SIZE_LOG2_MAX).contains(&size_log2));
        let blocks = (1 << size_log2) / BLOCK_VALUES;
        let reverse = |index: usize, below: usize| index.reverse_bits() >> (usize::BITS - below.trailing_zeros());
        // Value i is the value at exponent 2 r(i) + 1, so it comes from the value at `power` times
        // that exponent. Within a block, the r of the values differ by multiples of the number of
        // blocks.
        let mut targets = vec![Target::default(); blocks];
        for block in 0..blocks {
            let from = (power * (2 * reverse(block, blocks) + 1) - 1) / 2;
            let turn = (from / blocks % BLOCK_VALUES) as u16;
            targets[reverse(from % blocks, blocks)] = Target { block: block as u16, turn };
        }
        let turn = |turn: usize| {
            std::array::from_fn(|place| {
                reverse((turn + power * reverse(place, BLOCK_VALUES)) % BLOCK_VALUES, BLOCK_VALUES) as u64
            })
        };
        let arithmetic = WordArithmetic::of(level);
        Self { arithmetic, targets, turns: std::array::from_fn(turn) }
    }

    /// Number of values of a polynomial.
    pub fn size(&self) -> usize {
        self.targets.len() * BLOCK_VALUES
    }

    /// Start of the range to which the `len` values from `first` on map. The values stay adjacent.
    /// `len` is a power of two of at least eight, and divides both starts.
    pub fn target(&self, first: usize, len: usize) -> usize {
        assert!(
            len.is_power_of_two() && len >= BLOCK_VALUES && first.is_multiple_of(len),
            "{len} values from {first} on"
        );
        (usize::from(self.targets[first / BLOCK_VALUES].block) * BLOCK_VALUES) & !(len - 1)
    }

    /// Writes the images of some values of f, from value `first` on. `to` is the range that
    /// [`Self::target`] names for `to.len()` values, which may be more than the given values. The
    /// method cannot detect a wrong range of equal length.
    pub fn apply_part(&self, first: usize, from: &[u64], to: &mut [u64]) {
        assert!(first + from.len() <= self.size(), "values of a polynomial");
        assert!(first.is_multiple_of(BLOCK_VALUES) && from.len().is_multiple_of(BLOCK_VALUES), "whole lines");
        assert!(
            to.len().is_power_of_two() && to.len() >= BLOCK_VALUES && first % to.len() + from.len() <= to.len(),
            "values that stay together"
        );
        self.arithmetic.run(Apply { map: self, first: first / BLOCK_VALUES, from, to });
    }
}

struct Apply<'a> {
    map: &'a Automorphism,
    first: usize,
    from: &'a [u64],
    to: &'a mut [u64],
}

impl WordKernel for Apply<'_> {
    #[inline(always)]
    fn run<V: Words + Residues>(self) {
        let (from, _) = self.from.as_chunks();
        let (to, _) = self.to.as_chunks_mut();
        let within = to.len() - 1;
        for (from, target) in from.iter().zip(&self.map.targets[self.first..]) {
            to[usize::from(target.block) & within] = V::permute(from, &self.map.turns[usize::from(target.turn)]);
        }
    }
}
