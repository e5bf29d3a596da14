//! AES-128 in counter mode, many blocks at once, on processors with wide AES instructions.

#![cfg_attr(not(target_arch = "x86_64"), allow(unused))]

#[cfg(target_arch = "x86_64")]
mod vaes;

use super::{Isa, Level};

/// The unit of output: the words of 32 blocks.
pub(crate) type Batch = [u64; BATCH];
/// Words of a batch.
pub(crate) const BATCH: usize = 64;
/// Words of a block.
pub(crate) const BLOCK: usize = 2;
/// An expanded key that encrypts counters in batches.
pub(crate) struct WideCipher {
    #[cfg(target_arch = "x86_64")]
    rounds: Box<vaes::Rounds>,
    #[cfg(not(target_arch = "x86_64"))]
    never: std::convert::Infallible,
}

impl WideCipher {
    /// Returns `None` if `level` or the machine lacks the instructions.
    pub(crate) fn new(level: Level, key: u128) -> Option<Self> {
        match level.0 {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 if is_x86_feature_detected!("vaes") && is_x86_feature_detected!("aes") => {
                // SAFETY: both instruction sets were detected in the guard of this arm.
                Some(Self { rounds: Box::new(unsafe { vaes::expand(key) }) })
            }
            _ => None,
        }
    }

    /// Adds the encrypted blocks of 32 counters from `first` on, read as words, to `out`, or
    /// subtracts them if `negative`.
    #[inline(always)]
    pub(crate) fn add_blocks(&self, first: u128, negative: bool, out: &mut Batch) {
        // SAFETY: a cipher is only created after its instructions were detected.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            if negative {
                vaes::add_blocks::<true>(&self.rounds, first, out);
            } else {
                vaes::add_blocks::<false>(&self.rounds, first, out);
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        match self.never {}
    }

    /// Adds the given words to `out`, or subtracts them if `negative`.
    #[inline(always)]
    pub(crate) fn add_words(&self, words: &Batch, negative: bool, out: &mut Batch) {
        // SAFETY: a cipher is only created after its instructions were detected.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            if negative {
                vaes::add_words::<true>(words, out);
            } else {
                vaes::add_words::<false>(words, out);
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        match self.never {}
    }
}
