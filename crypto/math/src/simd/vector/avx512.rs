//! Eight lanes: AVX-512 (F, BW, DQ, VL).
//!
//! Invariant of every unsafe block below: the methods are only reached from code that `dispatch`
//! runs after the detection of the instruction set, and are inlined into that code.

use std::arch::x86_64::*;

use super::{Vector, Words};

#[derive(Clone, Copy)]
pub(crate) struct F64x8(__m512d);

#[derive(Clone, Copy)]
pub(crate) struct U32x8(__m256i);

#[derive(Clone, Copy)]
pub(crate) struct U64x8(__m512i);

impl Vector for F64x8 {
    const LANES: usize = 8;
    type Array = [f64; 8];
    type U32 = U32x8;
    type U64 = U64x8;

    #[inline(always)]
    fn splat(value: f64) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_set1_pd(value)) }
    }
    #[inline(always)]
    fn load(from: &[f64; 8]) -> Self {
        // SAFETY: the module's invariant; the load reads 64 bytes, which are the array.
        unsafe { Self(_mm512_loadu_pd(from.as_ptr())) }
    }
    #[inline(always)]
    fn store(self, to: &mut [f64; 8]) {
        // SAFETY: the module's invariant; the store writes 64 bytes, which are the array.
        unsafe { _mm512_storeu_pd(to.as_mut_ptr(), self.0) }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_add_pd(self.0, other.0)) }
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_sub_pd(self.0, other.0)) }
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_mul_pd(self.0, other.0)) }
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_fmadd_pd(self.0, b.0, c.0)) }
    }
    #[inline(always)]
    fn mul_sub(self, b: Self, c: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_fmsub_pd(self.0, b.0, c.0)) }
    }
    #[inline(always)]
    fn neg_mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_fnmadd_pd(self.0, b.0, c.0)) }
    }
    #[inline(always)]
    fn column(rows: &[Self], index: usize) -> Self {
        let rows: &[Self; 8] = rows.try_into().expect("a square");
        // Each quarter of a register holds two rows of one column. The quarters of the four
        // registers are then transposed.
        let mut pairs = [rows[0].0; 4];
        for (pair, rows) in pairs.iter_mut().zip(rows.chunks_exact(2)) {
            let (upper, lower) = (rows[0].0, rows[1].0);
            // SAFETY: the module's invariant.
            *pair = unsafe {
                if index.is_multiple_of(2) {
                    _mm512_unpacklo_pd(upper, lower)
                } else {
                    _mm512_unpackhi_pd(upper, lower)
                }
            };
        }
        let [a, b, c, d] = pairs;
        // SAFETY: the module's invariant.
        unsafe {
            let (ab, cd) = if index < 4 {
                (_mm512_shuffle_f64x2::<0x44>(a, b), _mm512_shuffle_f64x2::<0x44>(c, d))
            } else {
                (_mm512_shuffle_f64x2::<0xee>(a, b), _mm512_shuffle_f64x2::<0xee>(c, d))
            };
            Self(if index % 4 < 2 {
                _mm512_shuffle_f64x2::<0x88>(ab, cd)
            } else {
                _mm512_shuffle_f64x2::<0xdd>(ab, cd)
            })
        }
    }
}

impl Words<u32, F64x8> for U32x8 {
    type Array = [u32; 8];

    #[inline(always)]
    fn splat(word: u32) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_set1_epi32(word as i32)) }
    }
    #[inline(always)]
    fn load(from: &[u32; 8]) -> Self {
        // SAFETY: the module's invariant; the load reads 32 bytes, which are the array.
        unsafe { Self(_mm256_loadu_si256(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn store(self, to: &mut [u32; 8]) {
        // SAFETY: the module's invariant; the store writes 32 bytes, which are the array.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), self.0) }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_add_epi32(self.0, other.0)) }
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_sub_epi32(self.0, other.0)) }
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_and_si256(self.0, other.0)) }
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_xor_si256(self.0, other.0)) }
    }
    #[inline(always)]
    fn shift_up(self, bits: u32) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_sll_epi32(self.0, _mm_cvtsi32_si128(bits as i32))) }
    }
    #[inline(always)]
    fn shift_down(self, bits: u32) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_srl_epi32(self.0, _mm_cvtsi32_si128(bits as i32))) }
    }
    #[inline(always)]
    fn top_bits(self, bits: u32) -> F64x8 {
        let top = self.and(Self::splat(u32::MAX << (32 - bits)));
        // SAFETY: the module's invariant.
        unsafe { F64x8(_mm512_cvtepi32_pd(top.0)) }
    }
    #[inline(always)]
    fn unit_of_top_bits(bits: u32) -> f64 {
        f64::from(32 - bits).exp2()
    }
    #[inline(always)]
    fn to_signed(self) -> F64x8 {
        // SAFETY: the module's invariant.
        unsafe { F64x8(_mm512_cvtepi32_pd(self.0)) }
    }
    #[inline(always)]
    fn from_turns(turns: F64x8) -> Self {
        let fraction = fraction(turns, 4_294_967_296.0);
        // SAFETY: the module's invariant. Half a turn is out of range and becomes -2^31, which is
        // the correct word.
        unsafe { Self(_mm512_cvtpd_epi32(fraction.0)) }
    }
}

impl Words<u64, F64x8> for U64x8 {
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
    fn and(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_and_si512(self.0, other.0)) }
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_xor_si512(self.0, other.0)) }
    }
    #[inline(always)]
    fn shift_up(self, bits: u32) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_sll_epi64(self.0, _mm_cvtsi32_si128(bits as i32))) }
    }
    #[inline(always)]
    fn shift_down(self, bits: u32) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_srl_epi64(self.0, _mm_cvtsi32_si128(bits as i32))) }
    }
    #[inline(always)]
    fn top_bits(self, bits: u32) -> F64x8 {
        // The top bits stay in place, because more execution units can mask than shift.
        let top = self.and(Self::splat(u64::MAX << (64 - bits)));
        // SAFETY: the module's invariant.
        unsafe { F64x8(_mm512_cvtepi64_pd(top.0)) }
    }
    #[inline(always)]
    fn unit_of_top_bits(bits: u32) -> f64 {
        f64::from(64 - bits).exp2()
    }
    #[inline(always)]
    fn to_signed(self) -> F64x8 {
        // SAFETY: the module's invariant.
        unsafe { F64x8(_mm512_cvtepi64_pd(self.0)) }
    }
    #[inline(always)]
    fn from_turns(turns: F64x8) -> Self {
        let fraction = fraction(turns, 18_446_744_073_709_551_616.0);
        // SAFETY: the module's invariant. Half a turn is out of range and becomes -2^63, which is
        // the correct word.
        unsafe { Self(_mm512_cvtpd_epi64(fraction.0)) }
    }
}

/// The difference between each number of turns and its nearest integer, in units of which a turn
/// has `units`, a power of two. The subtraction is fused with a multiplication, because the
/// execution units for additions also round.
#[inline(always)]
fn fraction(turns: F64x8, units: f64) -> F64x8 {
    // SAFETY: the module's invariant.
    let whole = unsafe { F64x8(_mm512_roundscale_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(turns.0)) };
    whole.neg_mul_add(F64x8::splat(units), turns.mul(F64x8::splat(units)))
}
