//! Four lanes in scalar arithmetic, without instructions of a specific processor.

use super::{Lanes, Multiplier, Residues, Words};
use crate::modulus::Modulus;

#[derive(Clone, Copy)]
pub(crate) struct W4([u64; 4]);

impl W4 {
    #[inline(always)]
    fn each(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        Self([of(a, e), of(b, f), of(c, g), of(d, h)])
    }
}

impl Lanes for W4 {
    const COUNT: usize = 4;
    type Array = [u64; 4];

    #[inline(always)]
    fn splat(word: u64) -> Self {
        Self([word; 4])
    }
    #[inline(always)]
    fn load(from: &[u64; 4]) -> Self {
        Self(*from)
    }
    #[inline(always)]
    fn store(self, to: &mut [u64; 4]) {
        *to = self.0;
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.each(other, u64::wrapping_add)
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.each(other, u64::wrapping_sub)
    }
    #[inline(always)]
    fn fold(self, bound: Self) -> Self {
        self.each(bound, |word, bound| word.min(word.wrapping_sub(bound)))
    }
    #[inline(always)]
    fn transpose(rows: &mut [Self]) {
        for row in 0..4 {
            for column in 0..row {
                let upper = rows[column].0[row];
                rows[column].0[row] = rows[row].0[column];
                rows[row].0[column] = upper;
            }
        }
    }
}

impl Words for W4 {
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self.each(other, |a, b| a & b)
    }
    #[inline(always)]
    fn shift_up(self, bits: u32) -> Self {
        Self(self.0.map(|word| word << bits))
    }
    #[inline(always)]
    fn shift_down(self, bits: u32) -> Self {
        Self(self.0.map(|word| word >> bits))
    }
    #[inline(always)]
    fn multiply_low(self, other: Self) -> Self {
        self.each(other, u64::wrapping_mul)
    }
    #[inline(always)]
    fn multiply_halves(self, other: Self) -> Self {
        self.each(other, |a, b| u64::from(a as u32) * u64::from(b as u32))
    }
}

impl Residues for W4 {
    const FRACTION_BITS: u32 = 64;
    const PRODUCTS_MAX: usize = 7;
    const EXCESS: u64 = 2;
    type Prime = u64;
    type Sum = [u128; 4];

    #[inline(always)]
    fn prime(modulus: Modulus) -> u64 {
        modulus.value()
    }
    #[inline(always)]
    fn multiply(self, factor: Multiplier<Self>, prime: u64) -> Self {
        let quotient = self.each(factor.fraction, |a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64);
        self.multiply_low(factor.value).sub(quotient.multiply_low(Self::splat(prime)))
    }
    #[inline(always)]
    fn no_products() -> [u128; 4] {
        [0; 4]
    }
    #[inline(always)]
    fn add_product(sum: [u128; 4], a: Self, b: Self) -> [u128; 4] {
        std::array::from_fn(|lane| sum[lane] + u128::from(a.0[lane]) * u128::from(b.0[lane]))
    }
    #[inline(always)]
    fn reduce(sum: [u128; 4], prime: u64) -> Self {
        Self(sum.map(|sum| (sum % u128::from(prime)) as u64))
    }
}
