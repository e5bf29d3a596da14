//! How to cut one digit, in [-B/2, B/2), out of a word without looking at the others.
//!
//! Adding B/2 at every lower level (and half of the first dropped bit, to round) makes each field of bits the balanced
//! digit modulo B. The representative of a tie may differ from [`crate::decomposition`]'s; both recompose to the
//! same rounded word.

use cloakwork_params::Decomposition;

use crate::{
    simd::{Vector, Words},
    torus::Torus,
};

#[derive(Clone, Copy)]
pub(super) struct Digit<T> {
    /// What is added before the cut.
    pub(super) offset: T,
    /// Bits above the digit.
    pub(super) above: u32,
    /// Bits of the digit.
    pub(super) bits: u32,
    /// Where the gadget's last digit begins.
    least: u32,
}

impl<T: Torus> Digit<T> {
    /// Level 1 has the largest weight, q/B.
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

    /// What a digit of one becomes when vectors `V` cut it.
    pub(super) fn unit<V: Vector>(self) -> f64 {
        T::Words::<V>::unit_of_top_bits(self.bits)
    }

    /// The digits of words to which the offset has been added. `TOP` says that no bits lie above them.
    #[inline(always)]
    pub(super) fn cut<V: Vector, const TOP: bool>(self, words: T::Words<V>) -> V {
        let words = if TOP { words } else { words.shift_up(self.above) };
        words.top_bits(self.bits)
    }

    /// The digits of words, with halves rounded to even instead of up.
    ///
    /// A word that comes straight out of a product ends in zeros: a double has 53 bits, and most of them
    /// stand before the point. Halves are then common, and rounding all of them up shifts every
    /// coefficient alike, which a key of zeros and ones sums up. A word that one product after another is added to
    /// soon has none.
    #[inline(always)]
    pub(super) fn cut_even<V: Vector>(self, words: T::Words<V>) -> V {
        let least = T::Words::<V>::splat(T::from_u64(1 << self.least));
        // One less where the last digit is even.
        let even = words.and(least).xor(least).shift_down(self.least);
        self.cut::<V, false>(words.sub(even).add(T::Words::<V>::splat(self.offset)))
    }
}
