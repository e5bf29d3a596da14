//! The discretised torus: unsigned words whose wrap-around is the reduction modulo 1.

use bytemuck::Pod;
use zeroize::Zeroize;

/// A torus word. Implemented for `u32` and `u64` only.
///
/// Moduli below the word's own (2^21 in a `u32`, say) keep their value in the top bits.
///
/// Words can be wiped, for they may hold secrets.
pub trait Torus:
    Copy + Default + PartialEq + Eq + std::fmt::Debug + Send + Sync + Pod + Zeroize + sealed::Sealed + 'static
{
    /// Width of the word.
    const BITS: u32;

    /// Sum modulo the word.
    fn wrapping_add(self, other: Self) -> Self;
    /// Difference modulo the word.
    fn wrapping_sub(self, other: Self) -> Self;
    /// Negation modulo the word.
    fn wrapping_neg(self) -> Self;
    /// Product with an integer modulo the word.
    fn wrapping_mul(self, other: Self) -> Self;
    /// The low bits of `value`.
    fn from_u64(value: u64) -> Self;
    /// Zero-extended.
    fn to_u64(self) -> u64;
    /// Sign-extended: the representative in [-2^(BITS-1), 2^(BITS-1)).
    fn to_i64(self) -> i64;
    /// The bits of `self` from `shift` up, as far as `mask` goes.
    fn bit_field(self, shift: u32, mask: Self) -> Self;
    /// Bitwise exclusive or.
    fn xor(self, other: Self) -> Self;
    /// Sign-extended, rounded once to a double.
    fn to_signed_f64(self) -> f64;

    /// The low bits of a signed integer.
    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        Self::from_u64(value as u64)
    }

    /// The top `log2` bits of a word, rounded to nearest (ties up), as an integer below 2^log2.
    #[inline(always)]
    fn round_to_modulus(self, log2: u32) -> u64 {
        debug_assert!(0 < log2 && log2 < Self::BITS);
        self.wrapping_add(Self::from_u64(1 << (Self::BITS - 1 - log2))).to_u64() >> (Self::BITS - log2)
    }
}

impl Torus for u32 {
    const BITS: u32 = 32;
    #[inline(always)]
    fn wrapping_add(self, other: Self) -> Self {
        u32::wrapping_add(self, other)
    }
    #[inline(always)]
    fn wrapping_sub(self, other: Self) -> Self {
        u32::wrapping_sub(self, other)
    }
    #[inline(always)]
    fn wrapping_neg(self) -> Self {
        u32::wrapping_neg(self)
    }
    #[inline(always)]
    fn wrapping_mul(self, other: Self) -> Self {
        u32::wrapping_mul(self, other)
    }
    #[inline(always)]
    fn from_u64(value: u64) -> Self {
        value as u32
    }
    #[inline(always)]
    fn to_u64(self) -> u64 {
        u64::from(self)
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        i64::from(self as i32)
    }
    #[inline(always)]
    fn bit_field(self, shift: u32, mask: Self) -> Self {
        (self >> shift) & mask
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }
    #[inline(always)]
    fn to_signed_f64(self) -> f64 {
        f64::from(self as i32)
    }
}

impl Torus for u64 {
    const BITS: u32 = 64;
    #[inline(always)]
    fn wrapping_add(self, other: Self) -> Self {
        u64::wrapping_add(self, other)
    }
    #[inline(always)]
    fn wrapping_sub(self, other: Self) -> Self {
        u64::wrapping_sub(self, other)
    }
    #[inline(always)]
    fn wrapping_neg(self) -> Self {
        u64::wrapping_neg(self)
    }
    #[inline(always)]
    fn wrapping_mul(self, other: Self) -> Self {
        u64::wrapping_mul(self, other)
    }
    #[inline(always)]
    fn from_u64(value: u64) -> Self {
        value
    }
    #[inline(always)]
    fn to_u64(self) -> u64 {
        self
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self as i64
    }
    #[inline(always)]
    fn bit_field(self, shift: u32, mask: Self) -> Self {
        (self >> shift) & mask
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }
    #[inline(always)]
    fn to_signed_f64(self) -> f64 {
        self as i64 as f64
    }
}

// Only this crate can name the traits of vectors, and so use these.
pub(crate) mod sealed {
    use crate::{
        external_product::{FromDigits, FromWords, ToWords},
        simd::{Level, Vector, Words, dispatch},
    };

    /// What the kernels need of a torus word, and nobody else.
    ///
    /// The kernels that see torus words are called through here: what is generic is compiled again by every crate that
    /// uses it, and kernels take minutes.
    pub trait Sealed: Sized {
        /// As many words as a vector has lanes.
        type Words<V: Vector>: Words<Self, V>;

        /// Runs the kernel on `level`.
        fn from_digits(level: Level, job: FromDigits<'_, Self>);
        /// Runs the kernel on `level`.
        fn from_words(level: Level, job: FromWords<'_, Self>);
        /// Runs the kernel on `level`.
        fn to_words(level: Level, job: ToWords<'_, Self>);
    }

    impl Sealed for u32 {
        type Words<V: Vector> = V::U32;

        fn from_digits(level: Level, job: FromDigits<'_, Self>) {
            dispatch(level, job);
        }
        fn from_words(level: Level, job: FromWords<'_, Self>) {
            dispatch(level, job);
        }
        fn to_words(level: Level, job: ToWords<'_, Self>) {
            dispatch(level, job);
        }
    }

    impl Sealed for u64 {
        type Words<V: Vector> = V::U64;

        fn from_digits(level: Level, job: FromDigits<'_, Self>) {
            dispatch(level, job);
        }
        fn from_words(level: Level, job: FromWords<'_, Self>) {
            dispatch(level, job);
        }
        fn to_words(level: Level, job: ToWords<'_, Self>) {
            dispatch(level, job);
        }
    }
}
