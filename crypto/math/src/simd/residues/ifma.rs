//! Eight lanes: AVX-512 with IFMA, which multiplies 52 bits at once. Primes are below 2^50, and
//! words below 2^52.
//!
//! Invariant of every unsafe block below: the methods are only reached from code that
//! `Arithmetic::run` runs after the detection of the instruction set, and are inlined into that
//! code.

use std::arch::x86_64::*;

use super::{Lanes, Multiplier, Residues, avx512::W8, least};
use crate::modulus::Modulus;

/// A prime, and the constants that reduce a sum.
#[derive(Clone, Copy)]
pub(crate) struct Prime {
    value: u64,
    /// The prime, and 2^52 minus the prime.
    all: __m512i,
    negative: __m512i,
    /// The factor whose product with the prime is -1 modulo 2^52.
    inverse: __m512i,
    /// One, as a factor.
    one: Multiplier<W8<BITS>>,
    /// 2^52, as a factor.
    upper: Multiplier<W8<BITS>>,
}

/// The low and the high 52 bits of products, in separate sums.
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    lower: __m512i,
    upper: __m512i,
}

const BITS: u32 = 52;
const MASK: u64 = (1 << BITS) - 1;

impl Residues for W8<BITS> {
    const FRACTION_BITS: u32 = BITS;
    // The upper part of a product is below 2^48, and the sum of 15 upper parts is below 2^52.
    const PRODUCTS_MAX: usize = 15;
    const EXCESS: u64 = 2;
    type Prime = Prime;
    type Sum = Sum;

    #[inline(always)]
    fn prime(modulus: Modulus) -> Prime {
        let value = modulus.value();
        let [all, negative, inverse] =
            [value, (MASK + 1).wrapping_sub(value), negative_inverse(value)].map(|word| Self::splat(word).0);
        Prime { value, all, negative, inverse, one: factor(modulus, 1), upper: factor(modulus, MASK + 1) }
    }
    #[inline(always)]
    fn multiply(self, factor: Multiplier<Self>, prime: Prime) -> Self {
        // SAFETY: the module's invariant.
        unsafe { Self(_mm512_and_si512(self.multiply_low_bits(factor, prime).0, _mm512_set1_epi64(MASK as i64))) }
    }
    #[inline(always)]
    fn multiply_low_bits(self, factor: Multiplier<Self>, prime: Prime) -> Self {
        // SAFETY: the module's invariant.
        unsafe {
            let zero = _mm512_setzero_si512();
            let quotient = _mm512_madd52hi_epu64(zero, self.0, factor.fraction.0);
            let product = _mm512_madd52lo_epu64(zero, self.0, factor.value.0);
            Self(_mm512_madd52lo_epu64(product, quotient, prime.negative))
        }
    }
    #[inline(always)]
    fn no_products() -> Sum {
        // SAFETY: the module's invariant.
        let zero = unsafe { _mm512_setzero_si512() };
        Sum { lower: zero, upper: zero }
    }
    #[inline(always)]
    fn add_product(sum: Sum, a: Self, b: Self) -> Sum {
        // SAFETY: the module's invariant.
        unsafe {
            Sum { lower: _mm512_madd52lo_epu64(sum.lower, a.0, b.0), upper: _mm512_madd52hi_epu64(sum.upper, a.0, b.0) }
        }
    }
    #[inline(always)]
    fn reduce(sum: Sum, prime: Prime) -> Self {
        // SAFETY: the module's invariant.
        let (lower, upper) = unsafe {
            let carried = _mm512_add_epi64(sum.upper, _mm512_srli_epi64::<BITS>(sum.lower));
            (_mm512_and_si512(sum.lower, _mm512_set1_epi64(MASK as i64)), carried)
        };
        let both = Self(lower).multiply(prime.one, prime).add(Self(upper).multiply(prime.upper, prime));
        least(both, 2 * Self::EXCESS, prime.value)
    }
    #[inline(always)]
    fn parts(sum: Sum) -> [Self; 2] {
        [Self(sum.lower), Self(sum.upper)]
    }
    /// Montgomery reduction: adds a multiple of the prime that clears all bits below 2^52. The sum
    /// of the upper parts is below twice the prime, so the result is below three times the prime.
    #[inline(always)]
    fn reduce_by_unit(sum: Sum, prime: Prime) -> Self {
        // SAFETY: the module's invariant.
        let reduced = unsafe {
            let multiple = _mm512_madd52lo_epu64(_mm512_setzero_si512(), sum.lower, prime.inverse);
            // The low 52 bits, if not zero, add up with those of the multiple to exactly 2^52, a
            // carry of one.
            let carry = _mm512_srli_epi64::<BITS>(_mm512_add_epi64(sum.lower, _mm512_set1_epi64(MASK as i64)));
            _mm512_madd52hi_epu64(_mm512_add_epi64(sum.upper, carry), multiple, prime.all)
        };
        least(Self(reduced), 4, prime.value)
    }
}

/// Computes the negative inverse by Newton's iteration. Each step doubles the number of correct low
/// bits, starting from three: an odd number is its own inverse modulo 8.
#[inline(always)]
fn negative_inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    for _ in 0..5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
    }
    inverse.wrapping_neg() & MASK
}

#[inline(always)]
fn factor(modulus: Modulus, value: u64) -> Multiplier<W8<BITS>> {
    Multiplier::splat(modulus.factor(modulus.reduce(value)))
}
