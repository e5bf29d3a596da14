//! Four lanes: AVX2 with FMA, where residues are doubles. Primes are below 2^50, and numbers are whole, of either sign and of
//! magnitude up to 2^53, so that sums are exact.
//!
//! A product of two of them is the sum of two doubles: what it rounds to, and the rest, which a fused multiplication gives.
//! Its quotient by the prime is estimated apart from it, and off by less than half and 2^-52 of the number that is multiplied:
//! so what is left is of magnitude below (1/2 + 2^-52 |x|) p.
//!
//! The methods are only reached from code that `Arithmetic::run` runs after it has seen the instruction set, and inlined
//! there; that is the invariant of every block below.

use std::arch::x86_64::*;

use super::{Lanes, Multiplier, Residues};
use crate::{
    modulus::{Factor, Modulus},
    simd::vector::{UNITS, Vector, avx2::F64x4},
};

#[derive(Clone, Copy)]
pub(crate) struct F4(F64x4);

/// A prime, and one over it.
#[derive(Clone, Copy)]
pub(crate) struct Prime {
    value: F4,
    inverse: F4,
}

/// A sum of products in two doubles. The upper one begins with [`SUM`], and stays so near it that it is always rounded to the
/// same place; what that leaves is in the lower one.
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    upper: F64x4,
    lower: F64x4,
}

/// As much as eight products come to at most. It is rounded to 2^51, and eight times half of that is exact.
const SUM: f64 = 10_141_204_801_825_835_211_973_625_643_008.0; // 2^103

impl F4 {
    /// The nearest whole number.
    #[inline(always)]
    fn round(self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(F64x4(_mm256_round_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0.0))) }
    }
    /// Less as many primes as bring it within half of one of zero, or so.
    #[inline(always)]
    fn nearest(self, prime: Prime) -> Self {
        let quotient = Self(self.0.mul(prime.inverse.0)).round();
        Self(quotient.0.neg_mul_add(prime.value.0, self.0))
    }
}

impl Lanes for F4 {
    const COUNT: usize = 4;
    type Array = [u64; 4];

    /// Of a word up to 2^53.
    #[inline(always)]
    fn splat(word: u64) -> Self {
        Self(F64x4::splat(word as f64))
    }
    /// Of words below 2^52, which are the mantissas of what is 2^52 more.
    #[inline(always)]
    fn load(from: &[u64; 4]) -> Self {
        let units = F64x4::splat(f64::from_bits(UNITS));
        // SAFETY: the module's invariant.
        let sum = unsafe { F64x4(_mm256_or_pd(Self::kept(from).0.0, units.0)) };
        Self(sum.sub(units))
    }
    /// Of numbers from 0 up to 2^52.
    #[inline(always)]
    fn store(self, to: &mut [u64; 4]) {
        let units = F64x4::splat(f64::from_bits(UNITS));
        // SAFETY: the module's invariant.
        let words = unsafe { F64x4(_mm256_xor_pd(self.0.add(units).0, units.0)) };
        Self(words).keep(to);
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(self.0.add(other.0))
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(self.0.sub(other.0))
    }
    #[inline(always)]
    fn fold(self, bound: Self) -> Self {
        let difference = self.sub(bound).0.0;
        // SAFETY: the module's invariant.
        unsafe { Self(F64x4(_mm256_blendv_pd(difference, self.0.0, difference))) }
    }
    #[inline(always)]
    fn transpose(rows: &mut [Self]) {
        let rows: &mut [Self; 4] = rows.try_into().expect("a square");
        let square = rows.map(|row| row.0);
        for (index, row) in rows.iter_mut().enumerate() {
            row.0 = F64x4::column(&square, index);
        }
    }
}

impl Residues for F4 {
    const FRACTION_BITS: u32 = 52;
    const PRODUCTS_MAX: usize = 8;
    const EXCESS: u64 = 2;
    /// Of numbers up to b p before, products add (1/2 + b/4) p at most: after three levels from p/2 on, b is below 4.5, which is
    /// 2^52.2 and again no more than what the next three begin with.
    const IS_SIGNED: bool = true;
    type Prime = Prime;
    type Sum = Sum;

    #[inline(always)]
    fn prime(modulus: Modulus) -> Prime {
        let value = modulus.value() as f64;
        Prime { value: Self(F64x4::splat(value)), inverse: Self(F64x4::splat(1.0 / value)) }
    }
    fn constant(factor: Factor) -> [u64; 2] {
        let value = factor.value() as f64;
        [value.to_bits(), (value / factor.modulus() as f64).to_bits()]
    }
    #[inline(always)]
    fn splat_kept(word: u64) -> Self {
        Self(F64x4::splat(f64::from_bits(word)))
    }
    #[inline(always)]
    fn kept(from: &[u64; 4]) -> Self {
        Self(F64x4::load(bytemuck::cast_ref(from)))
    }
    #[inline(always)]
    fn keep(self, to: &mut [u64; 4]) {
        self.0.store(bytemuck::cast_mut(to));
    }
    #[inline(always)]
    fn difference(self, other: Self, _: Self) -> Self {
        self.sub(other)
    }
    #[inline(always)]
    fn settle(self, _: Self, prime: Prime) -> Self {
        self.nearest(prime)
    }
    /// Of any number. A zero that has a sign is none that is negative.
    #[inline(always)]
    fn least(self, _: u64, _: u64, prime: Prime) -> Self {
        let nearest = self.nearest(prime);
        // SAFETY: the module's invariant.
        let missing = unsafe {
            let is_negative = _mm256_cmp_pd::<_CMP_LT_OQ>(nearest.0.0, _mm256_setzero_pd());
            F64x4(_mm256_and_pd(is_negative, prime.value.0.0))
        };
        nearest.add(Self(missing))
    }
    #[inline(always)]
    fn multiply(self, factor: Multiplier<Self>, prime: Prime) -> Self {
        let product = self.0.mul(factor.value.0);
        let rest = self.0.mul_sub(factor.value.0, product);
        let quotient = Self(self.0.mul(factor.fraction.0)).round();
        Self(quotient.0.neg_mul_add(prime.value.0, product).add(rest))
    }
    #[inline(always)]
    fn no_products() -> Sum {
        Sum { upper: F64x4::splat(SUM), lower: F64x4::splat(0.0) }
    }
    #[inline(always)]
    fn add_product(sum: Sum, a: Self, b: Self) -> Sum {
        let upper = a.0.mul_add(b.0, sum.upper);
        Sum { upper, lower: sum.lower.add(a.0.mul_add(b.0, sum.upper.sub(upper))) }
    }
    /// The quotient of the upper part has 53 bits: what is left of it is below 3 p.
    #[inline(always)]
    fn reduce(sum: Sum, prime: Prime) -> Self {
        let upper = Self(sum.upper.sub(F64x4::splat(SUM))).nearest(prime);
        upper.add(Self(sum.lower).nearest(prime)).least(4, 0, prime)
    }
}
