//! Detection of instruction sets, and dispatch to them. No other module knows which instruction
//! sets exist.
//!
//! A `Kernel` is written once, over the vector type of each level. `dispatch` compiles the kernel
//! once per [`Level`] and runs the copy for the caller's level. Results are equal from run to run
//! and from machine to machine of one level. Between levels, results differ in the last bits.

#![allow(unsafe_code)]

pub(crate) mod aes;
mod blocks;
pub(crate) mod bytes;
pub(crate) mod residues;
mod vector;

use std::sync::OnceLock;

use crate::cache;

pub(crate) use blocks::{Blocks, BlocksMut};
pub(crate) use vector::{Pair, Vector, Words, whole, whole_mut};

/// Environment variable with the best level to use, for tests and comparisons: `portable`, `avx2`
/// or `avx512`.
const VARIABLE: &str = "CLOAKWORK_SIMD";

/// An instruction set that was detected on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(Isa);

/// `CLOAKWORK_SIMD` names no level of this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{VARIABLE}={named}: this machine has {available}")]
pub struct UnknownLevel {
    named: String,
    available: String,
}

/// Each level supports all instructions of the levels before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Isa {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The best level of this machine, or the level that `CLOAKWORK_SIMD` names. If
    /// [`Self::chosen`] reports an unknown name, the best level applies. The result is computed
    /// once.
    pub fn detect() -> Self {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| Self::chosen().unwrap_or_else(|_| Self(Isa::of_this_machine())))
    }

    /// Like [`Self::detect`], for programs that prefer a failed start over a run on a level other
    /// than the requested one.
    pub fn chosen() -> Result<Self, UnknownLevel> {
        let Some(named) = std::env::var_os(VARIABLE) else { return Ok(Self(Isa::of_this_machine())) };
        let available = Self::available();
        let level = available.iter().find(|level| named == level.name());
        level.copied().ok_or_else(|| UnknownLevel {
            named: named.to_string_lossy().into_owned(),
            available: available.iter().map(|level| level.name()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Every level of this machine, the best level last.
    pub fn available() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        let all = [Isa::Portable, Isa::Avx2, Isa::Avx512];
        #[cfg(not(target_arch = "x86_64"))]
        let all = [Isa::Portable];
        let best = Isa::of_this_machine();
        all.into_iter().filter(|isa| *isa <= best).map(Self).collect()
    }

    /// Name of the level, for logs and benchmark tables.
    pub fn name(self) -> &'static str {
        match self.0 {
            Isa::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => "avx512",
        }
    }

    /// This level, or the best earlier level if this level has wide vectors only.
    pub(crate) fn narrow(self) -> Self {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Self(Isa::Avx2),
            _ => self,
        }
    }

    /// Doubles in a vector of this level.
    pub(crate) fn lanes(self) -> usize {
        match self.0 {
            Isa::Portable => <Portable as Simd>::F64::LANES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => <Avx2 as Simd>::F64::LANES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => <Avx512 as Simd>::F64::LANES,
        }
    }
}

impl Isa {
    fn of_this_machine() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            let wide = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            return if wide { Self::Avx512 } else { Self::Avx2 };
        }
        Self::Portable
    }
}

/// A loop nest that is compiled once per level. `run` and every function that it calls must be
/// `#[inline(always)]`. Otherwise, the compiler does not use the level's instructions in them.
/// Closures cannot have the attribute, so kernels avoid closures.
pub(crate) trait Kernel {
    fn run<S: Simd>(self);
}

/// Properties of the level for which a kernel is compiled.
pub(crate) trait Simd {
    /// The level's vector of doubles.
    type F64: Vector;
}

/// Prefetches the cache line of `value` into the second-level cache, for a use after other work.
#[inline(always)]
pub(crate) fn prefetch<E>(value: &E) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect that the program can see, and faults on no address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(value).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Prefetches a line that is not soon read again. With [`passes_shared`], a non-temporal prefetch
/// brings the line to the caches of the core and allocates no place in the shared cache.
#[inline(always)]
pub(crate) fn prefetch_once<E, const PASSES_SHARED: bool>(value: &E) {
    #[cfg(target_arch = "x86_64")]
    if PASSES_SHARED {
        // SAFETY: a prefetch has no effect that the program can see, and faults on no address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_NTA, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_NTA>(std::ptr::from_ref(value).cast());
        }
        return;
    }
    prefetch(value);
}

/// Like [`prefetch_once`], for all lines of a slice.
#[inline(always)]
pub(crate) fn prefetch_all_once(words: &[u64]) {
    let lines = words.iter().step_by(cache::LINE / size_of::<u64>());
    if passes_shared() { lines.for_each(prefetch_once::<_, true>) } else { lines.for_each(prefetch_once::<_, false>) }
}

/// Whether a non-temporal prefetch brings a line to the caches of a core without a place in the
/// shared cache. A place there would evict data that is soon read again.
///
/// This holds on AMD processors, whose shared cache receives the lines that leave the private
/// caches. On Intel processors, the line skips the second-level cache as well. The first-level
/// cache is too small to keep the line until its use.
#[inline(always)]
pub(crate) fn passes_shared() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        static IS_AMD: OnceLock<bool> = OnceLock::new();
        *IS_AMD.get_or_init(|| {
            let vendor = std::arch::x86_64::__cpuid(0);
            [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD"
        })
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Runs `kernel` on `level`.
#[inline]
pub(crate) fn dispatch<K: Kernel>(level: Level, kernel: K) {
    match level.0 {
        Isa::Portable => run_portable(kernel),
        // SAFETY: a `Level` of this value is only created after its features were detected.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { run_avx2(kernel) },
        // SAFETY: a `Level` of this value is only created after its features were detected.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { run_avx512(kernel) },
    }
}

#[inline(never)]
fn run_portable<K: Kernel>(kernel: K) {
    kernel.run::<Portable>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2<K: Kernel>(kernel: K) {
    kernel.run::<Avx2>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
fn run_avx512<K: Kernel>(kernel: K) {
    kernel.run::<Avx512>();
}

struct Portable;

impl Simd for Portable {
    type F64 = [f64; 4];
}

#[cfg(target_arch = "x86_64")]
struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Simd for Avx2 {
    type F64 = vector::avx2::F64x4;
}

#[cfg(target_arch = "x86_64")]
struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Simd for Avx512 {
    type F64 = vector::avx512::F64x8;
}
