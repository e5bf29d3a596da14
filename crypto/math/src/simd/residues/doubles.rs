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
use crate::modulus::{Factor, Modulus};

#[derive(Clone, Copy)]
pub(crate) struct F4(__m256d);

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
    upper: F4,
    lower: F4,
}

/// Its last mantissa bit is worth one, and numbers from 0 up to it are added to it without an error.
const UNITS: f64 = 4_503_599_627_370_496.0; // 2^52
/// As much as eight products come to at most. It is rounded to 2^51, and eight times half of that is exact.
const SUM: f64 = 10_141_204_801_825_835_211_973_625_643_008.0; // 2^103

impl F4 {
    #[inline(always)]
    fn of(value: f64) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_set1_pd(value)) }
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_mul_pd(self.0, other.0)) }
    }
    /// `self * b + c`, rounded once.
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_fmadd_pd(self.0, b.0, c.0)) }
    }
    /// `self * b - c`, rounded once.
    #[inline(always)]
    fn mul_sub(self, b: Self, c: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_fmsub_pd(self.0, b.0, c.0)) }
    }
    /// `c - self * b`, rounded once.
    #[inline(always)]
    fn neg_mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_fnmadd_pd(self.0, b.0, c.0)) }
    }
    /// The nearest whole number.
    #[inline(always)]
    fn round(self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_round_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0)) }
    }
    /// Less as many primes as bring it within half of one of zero, or so.
    #[inline(always)]
    fn nearest(self, prime: Prime) -> Self {
        self.mul(prime.inverse).round().neg_mul_add(prime.value, self)
    }
}

impl Lanes for F4 {
    const COUNT: usize = 4;
    type Array = [u64; 4];

    /// Of a word up to 2^53.
    #[inline(always)]
    fn splat(word: u64) -> Self {
        Self::of(word as f64)
    }
    /// Of words below 2^52, which are the mantissas of what is [`UNITS`] more.
    #[inline(always)]
    fn load(from: &[u64; 4]) -> Self {
        // SAFETY: the module's invariant; the array is the 32 bytes read.
        unsafe {
            let units = _mm256_set1_pd(UNITS);
            let words = _mm256_loadu_si256(from.as_ptr().cast());
            Self(_mm256_sub_pd(_mm256_or_pd(_mm256_castsi256_pd(words), units), units))
        }
    }
    /// Of numbers from 0 up to 2^52.
    #[inline(always)]
    fn store(self, to: &mut [u64; 4]) {
        // SAFETY: the module's invariant; the array is the 32 bytes written.
        unsafe {
            let units = _mm256_set1_pd(UNITS);
            let words = _mm256_xor_pd(_mm256_add_pd(self.0, units), units);
            _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_castpd_si256(words));
        }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_add_pd(self.0, other.0)) }
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_sub_pd(self.0, other.0)) }
    }
    #[inline(always)]
    fn fold(self, bound: Self) -> Self {
        let difference = self.sub(bound);
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_blendv_pd(difference.0, self.0, difference.0)) }
    }
    #[inline(always)]
    fn transpose(rows: &mut [Self]) {
        let rows: &mut [Self; 4] = rows.try_into().expect("a square");
        let [Self(a), Self(b), Self(c), Self(d)] = *rows;
        // SAFETY: the module's invariant.
        *rows = unsafe {
            let (even, odd) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
            let (even_below, odd_below) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
            [
                Self(_mm256_permute2f128_pd::<0x20>(even, even_below)),
                Self(_mm256_permute2f128_pd::<0x20>(odd, odd_below)),
                Self(_mm256_permute2f128_pd::<0x31>(even, even_below)),
                Self(_mm256_permute2f128_pd::<0x31>(odd, odd_below)),
            ]
        };
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
        Prime { value: Self::of(value), inverse: Self::of(1.0 / value) }
    }
    fn constant(factor: Factor) -> [u64; 2] {
        let value = factor.value() as f64;
        [value.to_bits(), (value / factor.modulus() as f64).to_bits()]
    }
    #[inline(always)]
    fn splat_kept(word: u64) -> Self {
        Self::of(f64::from_bits(word))
    }
    #[inline(always)]
    fn kept(from: &[u64; 4]) -> Self {
        // SAFETY: the module's invariant; the array is the 32 bytes read.
        unsafe { Self(_mm256_loadu_pd(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn keep(self, to: &mut [u64; 4]) {
        // SAFETY: the module's invariant; the array is the 32 bytes written.
        unsafe { _mm256_storeu_pd(to.as_mut_ptr().cast(), self.0) }
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
        unsafe {
            let is_negative = _mm256_cmp_pd::<_CMP_LT_OQ>(nearest.0, _mm256_setzero_pd());
            nearest.add(Self(_mm256_and_pd(is_negative, prime.value.0)))
        }
    }
    #[inline(always)]
    fn multiply(self, factor: Multiplier<Self>, prime: Prime) -> Self {
        let product = self.mul(factor.value);
        let rest = self.mul_sub(factor.value, product);
        let quotient = self.mul(factor.fraction).round();
        quotient.neg_mul_add(prime.value, product).add(rest)
    }
    #[inline(always)]
    fn no_products() -> Sum {
        Sum { upper: Self::of(SUM), lower: Self::of(0.0) }
    }
    #[inline(always)]
    fn add_product(sum: Sum, a: Self, b: Self) -> Sum {
        let upper = a.mul_add(b, sum.upper);
        Sum { upper, lower: sum.lower.add(a.mul_add(b, sum.upper.sub(upper))) }
    }
    /// The quotient of the upper part has 53 bits: what is left of it is below 3 p.
    #[inline(always)]
    fn reduce(sum: Sum, prime: Prime) -> Self {
        let upper = sum.upper.sub(Self::of(SUM)).nearest(prime);
        upper.add(sum.lower.nearest(prime)).least(4, 0, prime)
    }
}
