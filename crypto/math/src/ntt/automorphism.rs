//! X to a power of X, on values: they only change places.

use crate::simd::{
    Level,
    residues::{Residues, WordArithmetic, WordKernel, Words},
};

/// The map from f(X) to f(X^g) for one odd g, on values in the order of [`super::Ntt`]; of every prime the same.
///
/// Eight values that lie together come from eight that lie together, so that the map moves whole lines; and so it is with every
/// power of two from there on.
pub struct Automorphism {
    arithmetic: WordArithmetic,
    /// Where each eight values go, and what turns them: see [`Self::turns`].
    targets: Vec<Target>,
    /// By turn, the place that each of eight values comes from.
    turns: [[u64; TOGETHER]; TOGETHER],
}

#[derive(Clone, Copy, Default)]
struct Target {
    block: u16,
    turn: u16,
}

const TOGETHER: usize = 8;

impl Automorphism {
    /// The map for X^`power` on rings of 2^`size_log2`.
    pub fn new(power: usize, size_log2: u32) -> Self {
        Self::with_level(power, size_log2, Level::detect())
    }

    /// The same on one instruction set.
    pub fn with_level(power: usize, size_log2: u32, level: Level) -> Self {
        assert!(power % 2 == 1 && (super::SIZE_LOG2_MIN..=super::SIZE_LOG2_MAX).contains(&size_log2));
        let blocks = (1 << size_log2) / TOGETHER;
        let reverse = |index: usize, below: usize| index.reverse_bits() >> (usize::BITS - below.trailing_zeros());
        // Value i is the one at exponent 2 r(i) + 1, so it comes from where the exponent is `power` times that. Of a
        // block, the values' r differ by multiples of the number of blocks.
        let mut targets = vec![Target::default(); blocks];
        for block in 0..blocks {
            let from = (power * (2 * reverse(block, blocks) + 1) - 1) / 2;
            let turn = (from / blocks % TOGETHER) as u16;
            targets[reverse(from % blocks, blocks)] = Target { block: block as u16, turn };
        }
        let turn = |turn: usize| {
            std::array::from_fn(|place| reverse((turn + power * reverse(place, TOGETHER)) % TOGETHER, TOGETHER) as u64)
        };
        let arithmetic = WordArithmetic::of(level);
        Self { arithmetic, targets, turns: std::array::from_fn(turn) }
    }

    /// Values of a polynomial.
    pub fn size(&self) -> usize {
        self.targets.len() * TOGETHER
    }

    /// Where `len` values go that begin at value `first`: they stay together, and begin there. `len` is a power of two of at least
    /// eight, and both are multiples of it.
    pub fn target(&self, first: usize, len: usize) -> usize {
        assert!(len.is_power_of_two() && len >= TOGETHER && first.is_multiple_of(len), "{len} values from {first} on");
        (usize::from(self.targets[first / TOGETHER].block) * TOGETHER) & !(len - 1)
    }

    /// Writes what becomes of some values of f, from value `first` on: `to` is what [`Self::target`] names for so many values as it
    /// has, which may be more than are given. That it is another place of the same length cannot be seen.
    pub fn apply_part(&self, first: usize, from: &[u64], to: &mut [u64]) {
        assert!(first + from.len() <= self.size(), "values of a polynomial");
        assert!(first.is_multiple_of(TOGETHER) && from.len().is_multiple_of(TOGETHER), "whole lines");
        assert!(
            to.len().is_power_of_two() && to.len() >= TOGETHER && first % to.len() + from.len() <= to.len(),
            "values that stay together"
        );
        self.arithmetic.run(Apply { map: self, first: first / TOGETHER, from, to });
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
