//! Four lanes: AVX2 with FMA, where residues are doubles. Primes are below 2^50. Numbers are
//! integers of either sign and of magnitude up to 2^53, so that sums are exact.
//!
//! A product of two numbers is the sum of two doubles: the rounded product, and the remainder,
//! which a fused multiply-add computes. The quotient by the prime is estimated separately, with an
//! error below 1/2 plus 2^-52 of the multiplied number x. The result therefore has a magnitude
//! below (1/2 + 2^-52 |x|) p.
//!
//! Invariant of every unsafe block below: the methods are only reached from code that
//! `Arithmetic::run` runs after the detection of the instruction set, and are inlined into that
//! code.

use std::arch::x86_64::*;

use super::{Lanes, Multiplier, Residues};
use crate::{
    modulus::{Factor, Modulus},
    simd::vector::{UNITS, Vector, avx2::F64x4},
};

#[derive(Clone, Copy)]
pub(crate) struct F4(F64x4);

/// A prime and its inverse as a real number.
#[derive(Clone, Copy)]
pub(crate) struct Prime {
    value: F4,
    inverse: F4,
}

/// A sum of products in two doubles. The upper double begins with [`SUM_START`] and stays so close
/// to it that its last bit always has an equal weight. The lower double holds the rounding errors
/// of the upper one.
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    upper: F64x4,
    lower: F64x4,
}

/// Upper bound of the sum of eight products. Doubles of this size are rounded to multiples of 2^51,
/// and the sum of eight rounding errors of at most half of that is exact.
const SUM_START: f64 = 10_141_204_801_825_835_211_973_625_643_008.0; // 2^103

impl F4 {
    /// The nearest integer.
    #[inline(always)]
    fn round(self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(F64x4(_mm256_round_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0.0))) }
    }
    /// Subtracts the multiple of the prime that brings the number within about half a prime of
    /// zero.
    #[inline(always)]
    fn nearest(self, prime: Prime) -> Self {
        let quotient = Self(self.0.mul(prime.inverse.0)).round();
        Self(quotient.0.neg_mul_add(prime.value.0, self.0))
    }
}

impl Lanes for F4 {
    const COUNT: usize = 4;
    type Array = [u64; 4];

    /// A vector with this word, up to 2^53, in every lane.
    #[inline(always)]
    fn splat(word: u64) -> Self {
        Self(F64x4::splat(word as f64))
    }
    /// Loads words below 2^52 as the mantissas of doubles that are too large by 2^52.
    #[inline(always)]
    fn load(from: &[u64; 4]) -> Self {
        let units = F64x4::splat(f64::from_bits(UNITS));
        // SAFETY: the module's invariant.
        let sum = unsafe { F64x4(_mm256_or_pd(Self::kept(from).0.0, units.0)) };
        Self(sum.sub(units))
    }
    /// Stores numbers from 0 up to 2^52.
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
    /// A product of numbers up to b p has a magnitude up to (1/2 + b/4) p. A pass of three levels
    /// begins with settled operands up to p/2 and multiplied operands up to b p. For b = 4.5, which
    /// is a magnitude of 2^52.2, the sums after three levels are below 4.5 p again. The bound thus
    /// holds for every pass.
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
    /// Accepts any number. Negative zero does not count as negative.
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
        Sum { upper: F64x4::splat(SUM_START), lower: F64x4::splat(0.0) }
    }
    #[inline(always)]
    fn add_product(sum: Sum, a: Self, b: Self) -> Sum {
        let upper = a.0.mul_add(b.0, sum.upper);
        Sum { upper, lower: sum.lower.add(a.0.mul_add(b.0, sum.upper.sub(upper))) }
    }
    /// The quotient of the upper part has 53 bits, so the remainder of that part is below 3 p.
    #[inline(always)]
    fn reduce(sum: Sum, prime: Prime) -> Self {
        let upper = Self(sum.upper.sub(F64x4::splat(SUM_START))).nearest(prime);
        upper.add(Self(sum.lower).nearest(prime)).least(4, 0, prime)
    }
}
