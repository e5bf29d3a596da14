//! Eight lanes: AVX-512 (F, DQ), for primes of any width. The faster methods of IFMA are in `ifma`.
//!
//! Invariant of every unsafe block below: the methods are only reached from code that
//! `Arithmetic::run` runs after the detection of the instruction set, and are inlined into that
//! code.

use std::arch::x86_64::*;

use super::{Lanes, Multiplier, Residues, Words, halves};
use crate::modulus::Modulus;

/// Words of which [`Residues`] multiplies the low `BITS`.
#[derive(Clone, Copy)]
pub(crate) struct W8<const BITS: u32>(pub(super) __m512i);

impl<const BITS: u32> Lanes for W8<BITS> {
    const COUNT: usize = 8;
    type Array = [u64; 8];

    #[inline(always)]
    fn splat(word: u64) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_set1_epi64(word as i64)) }
    }
    #[inline(always)]
    fn load(from: &[u64; 8]) -> Self {
        // SAFETY: the module's invariant; the load reads 64 bytes, which are the array.
        unsafe { Self(_mm512_loadu_si512(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn store(self, to: &mut [u64; 8]) {
        // SAFETY: the module's invariant; the store writes 64 bytes, which are the array.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), self.0) }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_add_epi64(self.0, other.0)) }
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_sub_epi64(self.0, other.0)) }
    }
    #[inline(always)]
    fn fold(self, bound: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_min_epu64(self.0, _mm512_sub_epi64(self.0, bound.0))) }
    }
    #[inline(always)]
    fn transpose(rows: &mut [Self]) {
        let rows: &mut [Self; 8] = rows.try_into().expect("a square");
        // Interleave pairs of rows. A register then holds two rows of four even columns, or of four
        // odd columns.
        let mut pairs = [[rows[0].0; 4]; 2];
        for (index, rows) in rows.chunks_exact(2).enumerate() {
            // SAFETY: the module's invariant.
            (pairs[0][index], pairs[1][index]) =
                unsafe { (_mm512_unpacklo_epi64(rows[0].0, rows[1].0), _mm512_unpackhi_epi64(rows[0].0, rows[1].0)) };
        }
        // Exchange quarters of registers in two rounds, each between two registers.
        for (odd, [a, b, c, d]) in pairs.into_iter().enumerate() {
            // SAFETY: the module's invariant.
            unsafe {
                let (upper, lower) = (_mm512_shuffle_i64x2::<0x88>(a, b), _mm512_shuffle_i64x2::<0x88>(c, d));
                rows[odd] = Self(_mm512_shuffle_i64x2::<0x88>(upper, lower));
                rows[odd + 4] = Self(_mm512_shuffle_i64x2::<0xdd>(upper, lower));
                let (upper, lower) = (_mm512_shuffle_i64x2::<0xdd>(a, b), _mm512_shuffle_i64x2::<0xdd>(c, d));
                rows[odd + 2] = Self(_mm512_shuffle_i64x2::<0x88>(upper, lower));
                rows[odd + 6] = Self(_mm512_shuffle_i64x2::<0xdd>(upper, lower));
            }
        }
    }
}

impl<const BITS: u32> Words for W8<BITS> {
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_and_si512(self.0, other.0)) }
    }
    #[inline(always)]
    fn shift_up(self, bits: u32) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_sll_epi64(self.0, _mm_cvtsi64_si128(i64::from(bits)))) }
    }
    #[inline(always)]
    fn shift_down(self, bits: u32) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_srl_epi64(self.0, _mm_cvtsi64_si128(i64::from(bits)))) }
    }
    #[inline(always)]
    fn multiply_low(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_mullo_epi64(self.0, other.0)) }
    }
    #[inline(always)]
    fn multiply_halves(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_mul_epu32(self.0, other.0)) }
    }
    #[inline(always)]
    fn permute(words: &[u64; 8], from: &[u64; 8]) -> [u64; 8] {
        let mut permuted = [0; 8];
        // SAFETY: the module's invariant.
        Self(unsafe { _mm512_permutexvar_epi64(Self::load(from).0, Self::load(words).0) }).store(&mut permuted);
        permuted
    }
}

impl Residues for W8<64> {
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
