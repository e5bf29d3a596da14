//! The one place that knows which instruction sets exist.
//!
//! A `Kernel` is written once, in plain arithmetic over slices; `dispatch` compiles it once per
//! [`Level`] and runs the copy that the caller's level names. Results are the same from run to run and
//! from machine to machine of one level; between levels they differ in the last bits, since only some
//! have a fused multiply-add.

#![allow(unsafe_code)]

pub(crate) mod bytes;
mod vector;

pub(crate) use vector::F64x8;

/// An instruction set that this machine has been seen to support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(Isa);

/// Each supports what those before it do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Isa {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The best level of this machine.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            let wide = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            return Self(if wide { Isa::Avx512 } else { Isa::Avx2 });
        }
        Self(Isa::Portable)
    }

    /// Every level of this machine, the best one last.
    pub fn available() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        let all = [Isa::Portable, Isa::Avx2, Isa::Avx512];
        #[cfg(not(target_arch = "x86_64"))]
        let all = [Isa::Portable];
        let best = Self::detect().0;
        all.into_iter().filter(|isa| *isa <= best).map(Self).collect()
    }

    /// Name, for logs and benchmark tables.
    pub fn name(self) -> &'static str {
        match self.0 {
            Isa::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => "avx512",
        }
    }
}

/// A loop nest that is compiled once per level. `run` must be `#[inline(always)]`, and so must
/// whatever it calls, or the instructions of the level do not reach it.
pub(crate) trait Kernel {
    fn run<S: Simd>(self);
}

/// What a kernel may ask about the level it is compiled for.
pub(crate) trait Simd {
    /// Eight doubles at once.
    type F64x8: F64x8;

    /// `a * b + c`, fused where the level can do so in one instruction.
    fn mul_add(a: f64, b: f64, c: f64) -> f64;
    /// `fraction * 2^64` for a fraction in [-1/2, 1/2], as a word modulo 2^64.
    fn fraction_to_u64(fraction: f64) -> u64;
    /// The integer nearest to `value`, |value| < 2^51.
    fn round(value: f64) -> f64;

    /// Asks for the cache line that holds `values[0]`, to be read soon.
    #[inline(always)]
    fn prefetch<E>(values: &[E]) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch reads nothing that the program can see and faults on no address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(values.as_ptr().cast());
        }
    }

    /// `fraction * 2^32` for a fraction in [-1/2, 1/2], as a word modulo 2^32.
    #[inline(always)]
    fn fraction_to_u32(fraction: f64) -> u32 {
        (fraction * 4_294_967_296.0 + ROUND).to_bits() as u32
    }
}

/// Runs `kernel` on `level`.
#[inline]
pub(crate) fn dispatch<K: Kernel>(level: Level, kernel: K) {
    match level.0 {
        Isa::Portable => kernel.run::<Portable>(),
        // SAFETY: a `Level` of this value is only made after its features were detected.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { run_avx2(kernel) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { run_avx512(kernel) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2<K: Kernel>(kernel: K) {
    kernel.run::<Fused>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
fn run_avx512<K: Kernel>(kernel: K) {
    kernel.run::<FusedInt64>();
}

/// Adding and subtracting this rounds an f64 of magnitude below 2^51 to the nearest integer, ties to
/// even, and leaves that integer in the low bits of the sum. Plain arithmetic, so it vectorises on
/// every instruction set.
const ROUND: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52

struct Portable;

impl Simd for Portable {
    type F64x8 = [f64; 8];

    #[inline(always)]
    fn mul_add(a: f64, b: f64, c: f64) -> f64 {
        a * b + c
    }
    #[inline(always)]
    fn fraction_to_u64(fraction: f64) -> u64 {
        // Two 32-bit halves, each within reach of the rounding constant; the split is exact.
        let scaled = fraction * 4_294_967_296.0;
        let high = scaled + ROUND;
        let low = (scaled - (high - ROUND)) * 4_294_967_296.0 + ROUND;
        (high.to_bits() << 32).wrapping_add(low.to_bits().wrapping_sub(ROUND.to_bits()))
    }
    #[inline(always)]
    fn round(value: f64) -> f64 {
        (value + ROUND) - ROUND
    }
}

#[cfg(target_arch = "x86_64")]
struct Fused;

#[cfg(target_arch = "x86_64")]
impl Simd for Fused {
    type F64x8 = vector::x86::Two;

    #[inline(always)]
    fn mul_add(a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
    #[inline(always)]
    fn fraction_to_u64(fraction: f64) -> u64 {
        Portable::fraction_to_u64(fraction)
    }
    #[inline(always)]
    fn round(value: f64) -> f64 {
        value.round_ties_even()
    }
}

#[cfg(target_arch = "x86_64")]
struct FusedInt64;

#[cfg(target_arch = "x86_64")]
impl Simd for FusedInt64 {
    type F64x8 = vector::x86::One;

    #[inline(always)]
    fn mul_add(a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
    #[inline(always)]
    fn fraction_to_u64(fraction: f64) -> u64 {
        const BELOW_HALF: f64 = 0.5 - f64::EPSILON / 4.0;
        // Not `f64::clamp`: these forms are one instruction each, and what is not a number becomes BELOW_HALF.
        let fraction = if fraction < BELOW_HALF { fraction } else { BELOW_HALF };
        let fraction = if fraction > -0.5 { fraction } else { -0.5 };
        let scaled = fraction * 18_446_744_073_709_551_616.0;
        // SAFETY: scaled is a number in [-2^63, 2^63 - 2^10], which an i64 holds.
        unsafe { scaled.to_int_unchecked::<i64>() as u64 }
    }
    #[inline(always)]
    fn round(value: f64) -> f64 {
        value.round_ties_even()
    }
}
