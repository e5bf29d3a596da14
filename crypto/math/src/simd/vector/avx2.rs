//! Four lanes: AVX2 with FMA.
//!
//! Invariant of every unsafe block below: the methods are only reached from code that `dispatch`
//! runs after the detection of the instruction set, and are inlined into that code.

use std::arch::x86_64::*;

use super::{UNITS, Vector, Words};

#[derive(Clone, Copy)]
pub(crate) struct F64x4(pub(in crate::simd) __m256d);

#[derive(Clone, Copy)]
pub(crate) struct U32x4(__m128i);

#[derive(Clone, Copy)]
pub(crate) struct U64x4(__m256i);

impl Vector for F64x4 {
    const LANES: usize = 4;
    type Array = [f64; 4];
    type U32 = U32x4;
    type U64 = U64x4;

    #[inline(always)]
    fn splat(value: f64) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_set1_pd(value)) }
    }
    #[inline(always)]
    fn load(from: &[f64; 4]) -> Self {
        // SAFETY: the module's invariant; the load reads 32 bytes, which are the array.
        unsafe { Self(_mm256_loadu_pd(from.as_ptr())) }
    }
    #[inline(always)]
    fn store(self, to: &mut [f64; 4]) {
        // SAFETY: the module's invariant; the store writes 32 bytes, which are the array.
        unsafe { _mm256_storeu_pd(to.as_mut_ptr(), self.0) }
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
    fn mul(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_mul_pd(self.0, other.0)) }
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_fmadd_pd(self.0, b.0, c.0)) }
    }
    #[inline(always)]
    fn mul_sub(self, b: Self, c: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_fmsub_pd(self.0, b.0, c.0)) }
    }
    #[inline(always)]
    fn neg_mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_fnmadd_pd(self.0, b.0, c.0)) }
    }
    #[inline(always)]
    fn column(rows: &[Self], index: usize) -> Self {
        let rows: &[Self; 4] = rows.try_into().expect("a square");
        let [a, b, c, d] = [rows[0].0, rows[1].0, rows[2].0, rows[3].0];
        // SAFETY: the module's invariant.
        unsafe {
            let (ab, cd) = if index.is_multiple_of(2) {
                (_mm256_unpacklo_pd(a, b), _mm256_unpacklo_pd(c, d))
            } else {
                (_mm256_unpackhi_pd(a, b), _mm256_unpackhi_pd(c, d))
            };
            Self(if index < 2 {
                _mm256_permute2f128_pd::<0x20>(ab, cd)
            } else {
                _mm256_permute2f128_pd::<0x31>(ab, cd)
            })
        }
    }
}

impl Words<u32, F64x4> for U32x4 {
    type Array = [u32; 4];

    #[inline(always)]
    fn splat(word: u32) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm_set1_epi32(word as i32)) }
    }
    #[inline(always)]
    fn load(from: &[u32; 4]) -> Self {
        // SAFETY: the module's invariant; the load reads 16 bytes, which are the array.
        unsafe { Self(_mm_loadu_si128(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn store(self, to: &mut [u32; 4]) {
        // SAFETY: the module's invariant; the store writes 16 bytes, which are the array.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), self.0) }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm_add_epi32(self.0, other.0)) }
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm_sub_epi32(self.0, other.0)) }
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm_and_si128(self.0, other.0)) }
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm_xor_si128(self.0, other.0)) }
    }
    #[inline(always)]
    fn shift_up(self, bits: u32) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm_sll_epi32(self.0, _mm_cvtsi32_si128(bits as i32))) }
    }
    #[inline(always)]
    fn shift_down(self, bits: u32) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm_srl_epi32(self.0, _mm_cvtsi32_si128(bits as i32))) }
    }
    #[inline(always)]
    fn top_bits(self, bits: u32) -> F64x4 {
        self.and(Self::splat(u32::MAX << (32 - bits))).to_signed()
    }
    #[inline(always)]
    fn unit_of_top_bits(bits: u32) -> f64 {
        f64::from(32 - bits).exp2()
    }
    #[inline(always)]
    fn to_signed(self) -> F64x4 {
        // SAFETY: the module's invariant.
        unsafe { F64x4(_mm256_cvtepi32_pd(self.0)) }
    }
    #[inline(always)]
    fn from_turns(turns: F64x4) -> Self {
        let fraction = fraction(turns).mul(F64x4::splat(4_294_967_296.0));
        // SAFETY: the module's invariant. Half a turn is out of range and becomes -2^31, which is
        // the correct word.
        unsafe { Self(_mm256_cvtpd_epi32(fraction.0)) }
    }
}

impl Words<u64, F64x4> for U64x4 {
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
        unsafe { Self(_mm256_sll_epi64(self.0, _mm_cvtsi32_si128(bits as i32))) }
    }
    #[inline(always)]
    fn shift_down(self, bits: u32) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm256_srl_epi64(self.0, _mm_cvtsi32_si128(bits as i32))) }
    }
    #[inline(always)]
    fn top_bits(self, bits: u32) -> F64x4 {
        // The exclusive or places the number in the mantissa of 2^52 and flips its sign bit, which
        // then has a positive weight. The subtraction removes 2^52 and that weight.
        let above = UNITS | 1 << (bits - 1);
        self.shift_down(64 - bits).xor(Self::splat(above)).as_f64().sub(F64x4::splat(f64::from_bits(above)))
    }
    #[inline(always)]
    fn unit_of_top_bits(_: u32) -> f64 {
        1.0
    }
    #[inline(always)]
    fn to_signed(self) -> F64x4 {
        // Each half becomes the mantissa of a double: the upper half, with its sign bit flipped, of
        // 2^84, and the lower half of 2^52.
        const UPPER: u64 = 0x4530_0000_8000_0000; // 2^84 + 2^63
        let all = f64::from_bits(UPPER) + f64::from_bits(UNITS);
        // SAFETY: the module's invariant.
        let (upper, lower) = unsafe {
            (Self(_mm256_srli_epi64::<32>(self.0)), Self(_mm256_blend_epi32::<0xaa>(self.0, Self::splat(UNITS).0)))
        };
        upper.xor(Self::splat(UPPER)).as_f64().sub(F64x4::splat(all)).add(lower.as_f64())
    }
    #[inline(always)]
    fn from_turns(turns: F64x4) -> Self {
        // Between 1 and 2, the mantissa counts units of 2^-52 of a turn. The count is half a turn
        // too large, which the last exclusive or corrects.
        let counted = fraction(turns).add(F64x4::splat(1.5));
        // SAFETY: the module's invariant.
        let shifted = unsafe { Self(_mm256_slli_epi64::<12>(_mm256_castpd_si256(counted.0))) };
        shifted.xor(Self::splat(1 << 63))
    }
}

impl U64x4 {
    /// Reinterprets the bits as doubles.
    #[inline(always)]
    fn as_f64(self) -> F64x4 {
        // SAFETY: the module's invariant.
        unsafe { F64x4(_mm256_castsi256_pd(self.0)) }
    }
}

/// The difference between each number and its nearest integer.
#[inline(always)]
fn fraction(turns: F64x4) -> F64x4 {
    // SAFETY: the module's invariant.
    turns.sub(unsafe { F64x4(_mm256_round_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(turns.0)) })
}
