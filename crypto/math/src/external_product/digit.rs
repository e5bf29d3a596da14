//! Extraction of one digit, in [-B/2, B/2), from a word, independently of the other digits.
//!
//! Adding B/2 at every lower level, and half of the first dropped bit to round, makes each bit
//! field the balanced digit modulo B. The representative of a tie may differ from
//! [`crate::decomposition`]. Both representatives recompose to the same rounded word.

use cloakwork_params::Decomposition;

use crate::{
    simd::{Vector, Words},
    torus::Torus,
};

#[derive(Clone, Copy)]
pub(super) struct Digit<T> {
    /// Offset that is added before the extraction.
    pub(super) offset: T,
    /// Number of bits above the digit.
    pub(super) above: u32,
    /// Number of bits of the digit.
    pub(super) bits: u32,
    /// Lowest bit of the gadget's last digit.
    least: u32,
}

impl<T: Torus> Digit<T> {
    /// Digit of one level. Level 1 has the largest weight, q/B.
    pub(super) fn of_level(gadget: Decomposition, level: usize) -> Self {
        let bits = gadget.base_log;
        let weight = |level: usize| T::BITS - bits * level as u32;
        let rounding = 1 << (weight(gadget.levels) - 1);
        let halves = (level + 1..=gadget.levels).map(|level| 1u64 << (weight(level) + bits - 1));
        Self {
            offset: T::from_u64(halves.fold(rounding, |sum, half| sum.wrapping_add(half))),
            above: bits * (level as u32 - 1),
            bits,
            least: weight(gadget.levels),
        }
    }

    /// Value of a digit of one after extraction with vectors of type `V`.
    pub(super) fn unit<V: Vector>(self) -> f64 {
        T::Words::<V>::unit_of_top_bits(self.bits)
    }

    /// Extracts the digits of words that already include the offset. `TOP` means that no bits lie
    /// above the digits.
    #[inline(always)]
    pub(super) fn cut<V: Vector, const TOP: bool>(self, words: T::Words<V>) -> V {
        let words = if TOP { words } else { words.shift_up(self.above) };
        words.top_bits(self.bits)
    }

    /// Extracts the digits of words without the offset, with ties rounded to even instead of up.
    ///
    /// A word that comes directly from a product ends in zeros: a double has 53 bits, most of them
    /// before the binary point. Ties are then common. Rounding all of them up shifts every
    /// coefficient by an equal amount, and a key of zeros and ones sums these shifts up. Words to
    /// which several products are added soon have no ties.
    #[inline(always)]
    pub(super) fn cut_even<V: Vector>(self, words: T::Words<V>) -> V {
        let least = T::Words::<V>::splat(T::from_u64(1 << self.least));
        // Subtract one where the last digit is even, so that a tie rounds down there.
        let even = words.and(least).xor(least).shift_down(self.least);
        self.cut::<V, false>(words.sub(even).add(T::Words::<V>::splat(self.offset)))
    }
}
