//! The one place that knows which instruction sets exist.
//!
//! A `Kernel` is written once, over vectors that each level has its own kind of; `dispatch` compiles it once per
//! [`Level`] and runs the copy that the caller's level names. Results are the same from run to run and
//! from machine to machine of one level; between levels they differ in the last bits.

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

/// Names the best level to use, for tests and comparisons: `portable`, `avx2` or `avx512`.
const VARIABLE: &str = "CLOAKWORK_SIMD";

/// An instruction set that this machine has been seen to support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(Isa);

/// `CLOAKWORK_SIMD` names no level of this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{VARIABLE}={named}: this machine has {available}")]
pub struct UnknownLevel {
    named: String,
    available: String,
}

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
    /// The best level of this machine, or the one that `CLOAKWORK_SIMD` names; the best one as well where [`Self::chosen`]
    /// says that it names none. Looked up once.
    pub fn detect() -> Self {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| Self::chosen().unwrap_or_else(|_| Self(Isa::of_this_machine())))
    }

    /// As [`Self::detect`], for programs that would rather not start than run on a level that nobody asked for.
    pub fn chosen() -> Result<Self, UnknownLevel> {
        let Some(named) = std::env::var_os(VARIABLE) else { return Ok(Self(Isa::of_this_machine())) };
        let available = Self::available();
        let level = available.iter().find(|level| named == level.name());
        level.copied().ok_or_else(|| UnknownLevel {
            named: named.to_string_lossy().into_owned(),
            available: available.iter().map(|level| level.name()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Every level of this machine, the best one last.
    pub fn available() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        let all = [Isa::Portable, Isa::Avx2, Isa::Avx512];
        #[cfg(not(target_arch = "x86_64"))]
        let all = [Isa::Portable];
        let best = Isa::of_this_machine();
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

    /// This level, or the best one before it, if it is one for wide vectors only.
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

/// A loop nest that is compiled once per level. `run` must be `#[inline(always)]`, and so must
/// whatever it calls, or the instructions of the level do not reach it: closures cannot be, and are left out.
pub(crate) trait Kernel {
    fn run<S: Simd>(self);
}

/// What a kernel may ask about the level it is compiled for.
pub(crate) trait Simd {
    /// The level's vector of doubles.
    type F64: Vector;
}

/// Asks for the cache line that holds `value`, to be read after other things: it comes as far as the
/// second-level cache.
#[inline(always)]
pub(crate) fn prefetch<E>(value: &E) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program can see and faults on no address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(value).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// The same of a line that is not soon read again, given [`passes_shared`]: then it comes to the caches of the core, and no place in
/// the shared one is kept for it.
#[inline(always)]
pub(crate) fn prefetch_once<E, const PASSES_SHARED: bool>(value: &E) {
    #[cfg(target_arch = "x86_64")]
    if PASSES_SHARED {
        // SAFETY: a prefetch reads nothing that the program can see and faults on no address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_NTA, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_NTA>(std::ptr::from_ref(value).cast());
        }
        return;
    }
    prefetch(value);
}

/// The same of all lines of a slice.
#[inline(always)]
pub(crate) fn prefetch_all_once(words: &[u64]) {
    let lines = words.iter().step_by(cache::LINE / size_of::<u64>());
    if passes_shared() { lines.for_each(prefetch_once::<_, true>) } else { lines.for_each(prefetch_once::<_, false>) }
}

/// Does a line that is asked for to be read once come to the caches of a core without a place in the one that cores share? There it
/// would push out what is soon read again. So it is on AMD's processors, whose shared cache takes what leaves the others. On Intel's it does
/// not come to the second cache either, and the nearest one is too small to keep it until it is read.
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
        // SAFETY: a `Level` of this value is only made after its features were detected.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { run_avx2(kernel) },
        // SAFETY: as above.
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
