//! Eight lanes: AVX-512 with IFMA, which multiplies 52 bits at once. Primes are below 2^50, and words below 2^52.
//!
//! The methods are only reached from code that `Arithmetic::run` runs after it has seen the instruction set, and inlined
//! there; that is the invariant of every block below.

use std::arch::x86_64::*;

use super::{Lanes, Multiplier, Residues, avx512::W8, least};
use crate::modulus::Modulus;

/// A prime, and what reduces a sum.
#[derive(Clone, Copy)]
pub(crate) struct Prime {
    value: u64,
    /// 2^52 less the prime.
    negative: __m512i,
    /// One, as a factor.
    one: Multiplier<W8<BITS>>,
    /// 2^52, as a factor.
    upper: Multiplier<W8<BITS>>,
}

/// Low and high 52 bits of products, added up apart.
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    lower: __m512i,
    upper: __m512i,
}

const BITS: u32 = 52;
const MASK: u64 = (1 << BITS) - 1;

impl Residues for W8<BITS> {
    const FRACTION_BITS: u32 = BITS;
    // Their upper parts are below 2^48, and what they come to below 2^52.
    const PRODUCTS_MAX: usize = 15;
    const EXCESS: u64 = 2;
    type Prime = Prime;
    type Sum = Sum;

    #[inline(always)]
    fn prime(modulus: Modulus) -> Prime {
        let negative = Self::splat(MASK + 1 - modulus.value()).0;
        Prime { value: modulus.value(), negative, one: factor(modulus, 1), upper: factor(modulus, MASK + 1) }
    }
    #[inline(always)]
    fn multiply(self, factor: Multiplier<Self>, prime: Prime) -> Self {
        // SAFETY: the module's invariant.
        unsafe {
            let zero = _mm512_setzero_si512();
            let quotient = _mm512_madd52hi_epu64(zero, self.0, factor.fraction.0);
            let product = _mm512_madd52lo_epu64(zero, self.0, factor.value.0);
            let rest = _mm512_madd52lo_epu64(product, quotient, prime.negative);
            Self(_mm512_and_si512(rest, _mm512_set1_epi64(MASK as i64)))
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
}

#[inline(always)]
fn factor(modulus: Modulus, value: u64) -> Multiplier<W8<BITS>> {
    Multiplier::splat(modulus.factor(modulus.reduce(value)))
}
