//! The discretised torus: unsigned words whose wrap-around is the reduction modulo 1.

use bytemuck::Pod;
use zeroize::Zeroize;

/// A torus word, implemented for `u32` and `u64` only.
///
/// For a modulus below that of the word (2^21 in a `u32`, for example), the value is in the top
/// bits.
///
/// Words can be wiped, because they may hold secrets.
pub trait Torus:
    Copy + Default + PartialEq + Eq + std::fmt::Debug + Send + Sync + Pod + Zeroize + sealed::Sealed + 'static
{
    /// Width of the word in bits.
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
    /// The word, zero-extended.
    fn to_u64(self) -> u64;
    /// The word, sign-extended: the representative in [-2^(BITS-1), 2^(BITS-1)).
    fn to_i64(self) -> i64;

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

macro_rules! torus_word {
    ($word:ident, $signed:ident) => {
        impl Torus for $word {
            const BITS: u32 = $word::BITS;
            #[inline(always)]
            fn wrapping_add(self, other: Self) -> Self {
                $word::wrapping_add(self, other)
            }
            #[inline(always)]
            fn wrapping_sub(self, other: Self) -> Self {
                $word::wrapping_sub(self, other)
            }
            #[inline(always)]
            fn wrapping_neg(self) -> Self {
                $word::wrapping_neg(self)
            }
            #[inline(always)]
            fn wrapping_mul(self, other: Self) -> Self {
                $word::wrapping_mul(self, other)
            }
            #[inline(always)]
            fn from_u64(value: u64) -> Self {
                value as $word
            }
            #[inline(always)]
            fn to_u64(self) -> u64 {
                u64::from(self)
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                i64::from(self as $signed)
            }
        }
    };
}

torus_word!(u32, i32);
torus_word!(u64, i64);

// Only this crate can name the vector traits, and therefore use this module's items.
pub(crate) mod sealed {
    use crate::{
        external_product::{FromDigits, FromWords, ToWords},
        simd::{Level, Vector, Words, dispatch},
    };

    /// Operations on a torus word that only the kernels need.
    ///
    /// The generic kernels are called through this trait. Otherwise every crate that uses generic
    /// code would compile the kernels again, and kernels take minutes.
    pub trait Sealed: Sized {
        /// A vector of words with as many lanes as `V`.
        type Words<V: Vector>: Words<Self, V>;

        /// Runs the kernel on `level`.
        fn dispatch_from_digits(level: Level, job: FromDigits<'_, Self>);
        /// Runs the kernel on `level`.
        fn dispatch_from_words(level: Level, job: FromWords<'_, Self>);
        /// Runs the kernel on `level`.
        fn dispatch_to_words(level: Level, job: ToWords<'_, Self>);
    }

    macro_rules! sealed_word {
        ($word:ident, $words:ident) => {
            impl Sealed for $word {
                type Words<V: Vector> = V::$words;

                fn dispatch_from_digits(level: Level, job: FromDigits<'_, Self>) {
                    dispatch(level, job);
                }
                fn dispatch_from_words(level: Level, job: FromWords<'_, Self>) {
                    dispatch(level, job);
                }
                fn dispatch_to_words(level: Level, job: ToWords<'_, Self>) {
                    dispatch(level, job);
                }
            }
        };
    }

    sealed_word!(u32, U32);
    sealed_word!(u64, U64);
}
