//! Four lanes: AVX2, which multiplies 32 bits at once and compares signed words only.
//!
//! Invariant of every unsafe block below: the methods are only reached from code that
//! `Arithmetic::run` runs after the detection of the instruction set, and are inlined into that
//! code.

use std::arch::x86_64::*;

use super::{Lanes, Multiplier, Residues, Words, halves};
use crate::modulus::Modulus;

#[derive(Clone, Copy)]
pub(crate) struct W4(__m256i);

impl Lanes for W4 {
    const COUNT: usize = 4;
    type Array = [u64; 4];

    #[inline(always)]
    fn splat(word: u64) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_set1_epi64x(word as i64)) }
    }
    #[inline(always)]
    fn load(from: &[u64; 4]) -> Self {
        // SAFETY: the module's invariant; the load reads 32 bytes, which are the array.
        unsafe { Self(_mm256_loadu_si256(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn store(self, to: &mut [u64; 4]) {
        // SAFETY: the module's invariant; the store writes 32 bytes, which are the array.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), self.0) }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_add_epi64(self.0, other.0)) }
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_sub_epi64(self.0, other.0)) }
    }
    /// The top bit of the difference tells whether the difference is negative.
    #[inline(always)]
    fn fold(self, bound: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe {
            let difference = _mm256_sub_epi64(self.0, bound.0);
            let chosen = _mm256_blendv_pd(
                _mm256_castsi256_pd(difference),
                _mm256_castsi256_pd(self.0),
                _mm256_castsi256_pd(difference),
            );
            Self(_mm256_castpd_si256(chosen))
        }
    }
    #[inline(always)]
    fn transpose(rows: &mut [Self]) {
        let rows: &mut [Self; 4] = rows.try_into().expect("a square");
        let [Self(a), Self(b), Self(c), Self(d)] = *rows;
        // SAFETY: the module's invariant.
        *rows = unsafe {
            let (even, odd) = (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
            let (even_below, odd_below) = (_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
            [
                Self(_mm256_permute2x128_si256::<0x20>(even, even_below)),
                Self(_mm256_permute2x128_si256::<0x20>(odd, odd_below)),
                Self(_mm256_permute2x128_si256::<0x31>(even, even_below)),
                Self(_mm256_permute2x128_si256::<0x31>(odd, odd_below)),
            ]
        };
    }
}

impl Words for W4 {
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_and_si256(self.0, other.0)) }
    }
    #[inline(always)]
    fn shift_up(self, bits: u32) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_sll_epi64(self.0, _mm_cvtsi64_si128(i64::from(bits)))) }
    }
    #[inline(always)]
    fn shift_down(self, bits: u32) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_srl_epi64(self.0, _mm_cvtsi64_si128(i64::from(bits)))) }
    }
    #[inline(always)]
    fn multiply_low(self, other: Self) -> Self {
        let mixed = self.shift_down(32).multiply_halves(other).add(self.multiply_halves(other.shift_down(32)));
        self.multiply_halves(other).add(mixed.shift_up(32))
    }
    #[inline(always)]
    fn multiply_halves(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_mul_epu32(self.0, other.0)) }
    }
}

impl Residues for W4 {
    const FRACTION_BITS: u32 = 64;
    const PRODUCTS_MAX: usize = halves::PRODUCTS_MAX;
    const EXCESS: u64 = halves::EXCESS;
    type Prime = halves::Prime<Self>;
    type Sum = halves::Sum<Self>;

    #[inline(always)]
    fn prime(modulus: Modulus) -> Self::Prime {
        halves::prime(modulus)
    }
    #[inline(always)]
    fn multiply(self, factor: Multiplier<Self>, prime: Self::Prime) -> Self {
        halves::multiply(self, factor, prime.value())
    }
    #[inline(always)]
    fn no_products() -> Self::Sum {
        halves::Sum::empty()
    }
    #[inline(always)]
    fn add_product(sum: Self::Sum, a: Self, b: Self) -> Self::Sum {
        sum.with(a, b)
    }
    #[inline(always)]
    fn reduce(sum: Self::Sum, prime: Self::Prime) -> Self {
        sum.reduce(prime)
    }
}
