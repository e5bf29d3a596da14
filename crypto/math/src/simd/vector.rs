//! Eight doubles at once, for the one loop that compilers do not vectorise well by themselves.

use tfhe_fft::c64;

/// Eight doubles.
pub(crate) trait F64x8: Copy {
    /// All zero.
    fn zero() -> Self;
    /// Eight doubles in order.
    fn load(from: &[f64; 8]) -> Self;
    /// To eight doubles in order.
    fn store(self, to: &mut [f64; 8]);
    /// The real and the imaginary parts of eight complex numbers, both in one order of the level's own.
    fn load_complex(from: &[c64; 8]) -> (Self, Self);
    /// Undoes [`Self::load_complex`].
    fn store_complex(re: Self, im: Self, to: &mut [c64; 8]);
    /// `self * b + c`.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// `c - self * b`.
    fn neg_mul_add(self, b: Self, c: Self) -> Self;
}

impl F64x8 for [f64; 8] {
    #[inline(always)]
    fn zero() -> Self {
        [0.0; 8]
    }
    #[inline(always)]
    fn load(from: &[f64; 8]) -> Self {
        *from
    }
    #[inline(always)]
    fn store(self, to: &mut [f64; 8]) {
        *to = self;
    }
    #[inline(always)]
    fn load_complex(from: &[c64; 8]) -> (Self, Self) {
        (from.map(|point| point.re), from.map(|point| point.im))
    }
    #[inline(always)]
    fn store_complex(re: Self, im: Self, to: &mut [c64; 8]) {
        *to = std::array::from_fn(|lane| c64 { re: re[lane], im: im[lane] });
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        std::array::from_fn(|lane| self[lane] * b[lane] + c[lane])
    }
    #[inline(always)]
    fn neg_mul_add(self, b: Self, c: Self) -> Self {
        std::array::from_fn(|lane| c[lane] - self[lane] * b[lane])
    }
}

/// The x86 vectors. Their methods are only reached from code that [`super::dispatch`] runs after it has
/// seen the instruction set, and inlined there; that is the invariant of every block below.
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use std::arch::x86_64::*;

    use super::{F64x8, c64};

    /// AVX-512: one register.
    #[derive(Clone, Copy)]
    pub(crate) struct One(__m512d);

    /// AVX2 with FMA: two registers.
    #[derive(Clone, Copy)]
    pub(crate) struct Two(__m256d, __m256d);

    impl F64x8 for One {
        #[inline(always)]
        fn zero() -> Self {
            // SAFETY: the module's invariant.
            unsafe { Self(_mm512_setzero_pd()) }
        }
        #[inline(always)]
        fn load(from: &[f64; 8]) -> Self {
            // SAFETY: the module's invariant; the reference covers the 64 bytes read.
            unsafe { Self(_mm512_loadu_pd(from.as_ptr())) }
        }
        #[inline(always)]
        fn store(self, to: &mut [f64; 8]) {
            // SAFETY: the module's invariant; the reference covers the 64 bytes written.
            unsafe { _mm512_storeu_pd(to.as_mut_ptr(), self.0) }
        }
        #[inline(always)]
        fn load_complex(from: &[c64; 8]) -> (Self, Self) {
            // SAFETY: the module's invariant; a c64 is two doubles, so the reference covers the 128 bytes read.
            unsafe {
                let pointer = from.as_ptr().cast::<f64>();
                let (a, b) = (_mm512_loadu_pd(pointer), _mm512_loadu_pd(pointer.add(8)));
                (Self(_mm512_unpacklo_pd(a, b)), Self(_mm512_unpackhi_pd(a, b)))
            }
        }
        #[inline(always)]
        fn store_complex(re: Self, im: Self, to: &mut [c64; 8]) {
            // SAFETY: the module's invariant; a c64 is two doubles, so the reference covers the 128 bytes written.
            unsafe {
                let pointer = to.as_mut_ptr().cast::<f64>();
                _mm512_storeu_pd(pointer, _mm512_unpacklo_pd(re.0, im.0));
                _mm512_storeu_pd(pointer.add(8), _mm512_unpackhi_pd(re.0, im.0));
            }
        }
        #[inline(always)]
        fn mul_add(self, b: Self, c: Self) -> Self {
            // SAFETY: the module's invariant.
            unsafe { Self(_mm512_fmadd_pd(self.0, b.0, c.0)) }
        }
        #[inline(always)]
        fn neg_mul_add(self, b: Self, c: Self) -> Self {
            // SAFETY: the module's invariant.
            unsafe { Self(_mm512_fnmadd_pd(self.0, b.0, c.0)) }
        }
    }

    impl F64x8 for Two {
        #[inline(always)]
        fn zero() -> Self {
            // SAFETY: the module's invariant.
            unsafe { Self(_mm256_setzero_pd(), _mm256_setzero_pd()) }
        }
        #[inline(always)]
        fn load(from: &[f64; 8]) -> Self {
            // SAFETY: the module's invariant; the reference covers the 64 bytes read.
            unsafe { Self(_mm256_loadu_pd(from.as_ptr()), _mm256_loadu_pd(from.as_ptr().add(4))) }
        }
        #[inline(always)]
        fn store(self, to: &mut [f64; 8]) {
            // SAFETY: the module's invariant; the reference covers the 64 bytes written.
            unsafe {
                _mm256_storeu_pd(to.as_mut_ptr(), self.0);
                _mm256_storeu_pd(to.as_mut_ptr().add(4), self.1);
            }
        }
        #[inline(always)]
        fn load_complex(from: &[c64; 8]) -> (Self, Self) {
            // SAFETY: the module's invariant; a c64 is two doubles, so the reference covers the 128 bytes read.
            unsafe {
                let pointer = from.as_ptr().cast::<f64>();
                let (a, b) = (_mm256_loadu_pd(pointer), _mm256_loadu_pd(pointer.add(4)));
                let (c, d) = (_mm256_loadu_pd(pointer.add(8)), _mm256_loadu_pd(pointer.add(12)));
                let re = Self(_mm256_unpacklo_pd(a, b), _mm256_unpacklo_pd(c, d));
                (re, Self(_mm256_unpackhi_pd(a, b), _mm256_unpackhi_pd(c, d)))
            }
        }
        #[inline(always)]
        fn store_complex(re: Self, im: Self, to: &mut [c64; 8]) {
            // SAFETY: the module's invariant; a c64 is two doubles, so the reference covers the 128 bytes written.
            unsafe {
                let pointer = to.as_mut_ptr().cast::<f64>();
                _mm256_storeu_pd(pointer, _mm256_unpacklo_pd(re.0, im.0));
                _mm256_storeu_pd(pointer.add(4), _mm256_unpackhi_pd(re.0, im.0));
                _mm256_storeu_pd(pointer.add(8), _mm256_unpacklo_pd(re.1, im.1));
                _mm256_storeu_pd(pointer.add(12), _mm256_unpackhi_pd(re.1, im.1));
            }
        }
        #[inline(always)]
        fn mul_add(self, b: Self, c: Self) -> Self {
            // SAFETY: the module's invariant.
            unsafe { Self(_mm256_fmadd_pd(self.0, b.0, c.0), _mm256_fmadd_pd(self.1, b.1, c.1)) }
        }
        #[inline(always)]
        fn neg_mul_add(self, b: Self, c: Self) -> Self {
            // SAFETY: the module's invariant.
            unsafe { Self(_mm256_fnmadd_pd(self.0, b.0, c.0), _mm256_fnmadd_pd(self.1, b.1, c.1)) }
        }
    }
}
