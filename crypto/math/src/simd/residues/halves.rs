//! Residues of any width, on processors that multiply 32 bits at once.

use super::{Multiplier, Residues, Words, least};
use crate::modulus::Modulus;

/// Maximum number of products in a sum. Each product adds two mixed products to one word.
pub(super) const PRODUCTS_MAX: usize = 7;

/// Bound of the result of [`multiply`], as a multiple of the prime.
pub(super) const EXCESS: u64 = 4;

/// A prime, and the factors that reduce a sum.
#[derive(Clone, Copy)]
pub(crate) struct Prime<V> {
    value: V,
    /// 1, 2^30 and 2^60, as factors.
    parts: [Multiplier<V>; 3],
    /// Twice the prime.
    twice: V,
    least: u64,
}

/// Products of parts of [`PART_BITS`] bits, in separate sums: low products, mixed products, high
/// products.
#[derive(Clone, Copy)]
pub(crate) struct Sum<V>([V; 3]);

/// Bits of a part. Two parts make up all bits of a prime, or nearly all.
const PART_BITS: u32 = 30;

#[inline(always)]
pub(super) fn prime<V: Residues>(modulus: Modulus) -> Prime<V> {
    let value = modulus.value();
    let parts = [power(modulus, 0), power(modulus, PART_BITS), power(modulus, 2 * PART_BITS)];
    Prime { value: V::splat(value), parts, twice: V::splat(2 * value), least: value }
}

/// 2^`exponent` as a factor.
#[inline(always)]
fn power<V: Residues>(modulus: Modulus, exponent: u32) -> Multiplier<V> {
    Multiplier::splat(modulus.factor(modulus.reduce(1 << exponent)))
}

/// The quotient ignores the product of the low halves, and two carries with it. The quotient is
/// therefore up to two too small, and one more because a factor's fraction is rounded down.
#[inline(always)]
pub(super) fn multiply<V: Words>(word: V, factor: Multiplier<V>, prime: V) -> V {
    let (upper, fraction) = (word.shift_down(32), factor.fraction.shift_down(32));
    let quotient = upper.multiply_halves(fraction).add(word.multiply_halves(fraction).shift_down(32));
    let quotient = quotient.add(upper.multiply_halves(factor.fraction).shift_down(32));
    word.multiply_low(factor.value).sub(quotient.multiply_low(prime))
}

impl<V: Residues> Prime<V> {
    #[inline(always)]
    pub(super) fn value(self) -> V {
        self.value
    }
}

impl<V: Words + Residues<Prime = Prime<V>>> Sum<V> {
    #[inline(always)]
    pub(super) fn empty() -> Self {
        Self([V::splat(0); 3])
    }

    #[inline(always)]
    pub(super) fn with(self, a: V, b: V) -> Self {
        let [low, mixed, high] = self.0;
        let mask = V::splat((1 << PART_BITS) - 1);
        let (a_low, a_high) = (a.and(mask), a.shift_down(PART_BITS));
        let (b_low, b_high) = (b.and(mask), b.shift_down(PART_BITS));
        let mixed = mixed.add(a_low.multiply_halves(b_high)).add(a_high.multiply_halves(b_low));
        Self([low.add(a_low.multiply_halves(b_low)), mixed, high.add(a_high.multiply_halves(b_high))])
    }

    #[inline(always)]
    pub(super) fn reduce(self, prime: Prime<V>) -> V {
        let [low, mixed, high] = self.0;
        let [one, middle, top] = prime.parts;
        let low = low.multiply(one, prime).fold(prime.twice);
        let mixed = mixed.multiply(middle, prime).fold(prime.twice);
        let high = high.multiply(top, prime).fold(prime.twice);
        least(low.add(mixed).fold(prime.twice).add(high), EXCESS, prime.least)
    }
}
