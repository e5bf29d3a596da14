//! AES with four blocks in a register and eight registers at once. Each round of a block depends on
//! the round before, so the other registers fill the latency.

use std::arch::x86_64::*;

use super::Batch;

/// Round keys.
pub(super) type Rounds = [__m128i; 11];

/// Registers that are processed at once.
const WIDTH: usize = 8;
/// Blocks of a batch.
const BLOCKS: u128 = (size_of::<Batch>() / 16) as u128;

/// The round keys of `key`, whose bytes are in little-endian order.
#[target_feature(enable = "sse2,aes")]
pub(super) fn expand(key: u128) -> Rounds {
    // SAFETY: both types have 16 bytes, and every bit pattern is valid for both.
    let mut rounds = [unsafe { std::mem::transmute::<[u8; 16], __m128i>(key.to_le_bytes()) }; 11];
    macro_rules! round {
        ($($round:literal $constant:literal)*) => {
            $(rounds[$round] = next(rounds[$round - 1], _mm_aeskeygenassist_si128::<$constant>(rounds[$round - 1]));)*
        };
    }
    round!(1 0x01 2 0x02 3 0x04 4 0x08 5 0x10 6 0x20 7 0x40 8 0x80 9 0x1b 10 0x36);
    rounds
}

/// Computes a round key from the previous one. Each word is the exclusive or of the previous key's
/// word and the word to its left. The word to the left of the first word is `assist`: the last word
/// of the previous key, substituted and rotated.
#[target_feature(enable = "sse2")]
fn next(before: __m128i, assist: __m128i) -> __m128i {
    let pairs = _mm_xor_si128(before, _mm_slli_si128::<4>(before));
    let sums = _mm_xor_si128(pairs, _mm_slli_si128::<8>(pairs));
    _mm_xor_si128(sums, _mm_shuffle_epi32::<0xff>(assist))
}

/// Adds the encrypted blocks of 32 counters from `first` on to `out`, or subtracts them if
/// `NEGATIVE`.
#[target_feature(enable = "avx512f,vaes")]
pub(super) fn add_blocks<const NEGATIVE: bool>(rounds: &Rounds, first: u128, out: &mut Batch) {
    let mut blocks = counters(first);
    let key = _mm512_broadcast_i32x4(rounds[0]);
    for block in &mut blocks {
        *block = _mm512_xor_si512(*block, key);
    }
    for key in &rounds[1..10] {
        let key = _mm512_broadcast_i32x4(*key);
        for block in &mut blocks {
            *block = _mm512_aesenc_epi128(*block, key);
        }
    }
    let key = _mm512_broadcast_i32x4(rounds[10]);
    for (block, out) in blocks.into_iter().zip(out.as_chunks_mut().0) {
        add::<NEGATIVE>(_mm512_aesenclast_epi128(block, key), out);
    }
}

/// Adds words to `out`, or subtracts them if `NEGATIVE`.
#[target_feature(enable = "avx512f")]
pub(super) fn add_words<const NEGATIVE: bool>(words: &Batch, out: &mut Batch) {
    for (words, out) in words.as_chunks::<8>().0.iter().zip(out.as_chunks_mut().0) {
        // SAFETY: the load reads 64 bytes, which are eight words.
        add::<NEGATIVE>(unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }, out);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add<const NEGATIVE: bool>(words: __m512i, out: &mut [u64; 8]) {
    // SAFETY: the load and the store access 64 bytes, which are eight words.
    unsafe {
        let sum = _mm512_loadu_si512(out.as_ptr().cast());
        let sum = if NEGATIVE { _mm512_sub_epi64(sum, words) } else { _mm512_add_epi64(sum, words) };
        _mm512_storeu_si512(out.as_mut_ptr().cast(), sum);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn counters(first: u128) -> [__m512i; WIDTH] {
    if (first as u64).checked_add(BLOCKS as u64).is_none() {
        return carrying(first);
    }
    // SAFETY: both types have 16 bytes, and every bit pattern is valid for both.
    let base = _mm512_broadcast_i32x4(unsafe { std::mem::transmute::<[u8; 16], __m128i>(first.to_le_bytes()) });
    let mut counters = [base; WIDTH];
    for (counters, offsets) in counters.iter_mut().zip(&OFFSETS) {
        // SAFETY: the load reads 64 bytes, which are four offsets.
        *counters = _mm512_add_epi64(base, unsafe { _mm512_loadu_si512(offsets.as_ptr().cast()) });
    }
    counters
}

/// Offsets from the first counter, by register and block.
static OFFSETS: [[u128; 4]; WIDTH] = {
    let mut offsets = [[0; 4]; WIDTH];
    let mut index = 0;
    while index < 4 * WIDTH {
        offsets[index / 4][index % 4] = index as u128;
        index += 1;
    }
    offsets
};

/// Builds counters of which some carry into the upper half. This happens only if a stream's first
/// counter was chosen just below a carry.
#[cold]
#[target_feature(enable = "avx512f")]
fn carrying(first: u128) -> [__m512i; WIDTH] {
    let mut counters = [_mm512_setzero_si512(); WIDTH];
    for (counters, offsets) in counters.iter_mut().zip(OFFSETS) {
        let of = offsets.map(|offset| first.wrapping_add(offset));
        // SAFETY: the load reads 64 bytes, which are four counters.
        *counters = unsafe { _mm512_loadu_si512(of.as_ptr().cast()) };
    }
    counters
}
