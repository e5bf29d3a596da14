//! AVX2: one instruction multiplies four rows and adds pairs up in 16 bits; these sums are widened in time.

use std::arch::x86_64::*;

use super::{COLUMNS, Factors, Line, ROWS, Sums, groups_in_16_bits};

/// Ciphertexts at once: their sums of pairs take eight of the 16 registers.
const LANES: usize = 4;

#[target_feature(enable = "avx2")]
pub(super) fn multiply<const PLANES: usize>(factors: Factors<'_, PLANES>, sums: &mut [Sums<PLANES>]) {
    let Factors { key, digits, digit_max } = factors;
    sums.fill([[0; COLUMNS]; PLANES]);
    let run = groups_in_16_bits(digit_max);
    for (index, run_key) in key.chunks(run).enumerate() {
        // From this run's first group of the first ciphertext on.
        let digits = &digits[index * run..];
        let mut lane = 0;
        while lane < sums.len() {
            let (digits, sums) = (&digits[lane * key.len()..], &mut sums[lane..]);
            if sums.len() >= LANES {
                lanes::<PLANES, LANES>(run_key, digits, key.len(), sums);
                lane += LANES;
            } else {
                lanes::<PLANES, 1>(run_key, digits, key.len(), sums);
                lane += 1;
            }
        }
    }
}

/// `digits` has those of one ciphertext every `stride` groups.
#[target_feature(enable = "avx2")]
fn lanes<const PLANES: usize, const LANES: usize>(
    key: &[[Line; PLANES]],
    digits: &[[i8; ROWS]],
    stride: usize,
    sums: &mut [Sums<PLANES>],
) {
    let mut of_lane = [digits; LANES];
    for (lane, of_lane) in of_lane.iter_mut().enumerate() {
        *of_lane = &digits[lane * stride..][..key.len()];
    }
    for plane in 0..PLANES {
        let mut pairs = [[_mm256_setzero_si256(); 2]; LANES];
        for (group, lines) in key.iter().enumerate() {
            let line = lines[plane].as_ptr().cast::<__m256i>();
            // SAFETY: a line is the 2 * 32 bytes read.
            let keys = unsafe { [_mm256_loadu_si256(line), _mm256_loadu_si256(line.add(1))] };
            for (pairs, digits) in pairs.iter_mut().zip(of_lane) {
                let digits = _mm256_set1_epi32(bytemuck::cast(digits[group]));
                for (pairs, key) in pairs.iter_mut().zip(keys) {
                    *pairs = _mm256_add_epi16(*pairs, _mm256_maddubs_epi16(key, digits));
                }
            }
        }
        for (sums, pairs) in sums.iter_mut().zip(pairs) {
            let (halves, _) = sums[plane].as_chunks_mut::<{ COLUMNS / 2 }>();
            for (half, pairs) in halves.iter_mut().zip(pairs) {
                let wide = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
                let half = half.as_mut_ptr().cast::<__m256i>();
                // SAFETY: eight 32-bit sums are the 32 bytes read and written.
                unsafe { _mm256_storeu_si256(half, _mm256_add_epi32(_mm256_loadu_si256(half), wide)) };
            }
        }
    }
}
