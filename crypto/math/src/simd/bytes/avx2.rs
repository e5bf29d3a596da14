//! AVX2: one instruction multiplies four rows and sums up pairs in 16 bits. These sums are widened
//! before they overflow.

use std::arch::x86_64::*;

use super::{COLUMNS, Factors, Line, ROWS, Sums, groups_in_16_bits};

#[target_feature(enable = "avx2")]
pub(super) fn multiply<const PLANES: usize>(factors: Factors<'_, PLANES>, sums: &mut [Sums<PLANES>]) {
    let Factors { key, digits, digit_max } = factors;
    sums.fill([[0; COLUMNS]; PLANES]);
    let run = groups_in_16_bits(digit_max);
    for (index, run_key) in key.chunks(run).enumerate() {
        for (sums, digits) in sums.iter_mut().zip(digits.chunks(key.len())) {
            add_run(run_key, &digits[index * run..][..run_key.len()], sums);
        }
    }
}

/// Sums up one run of groups. With four planes, the sums of pairs take eight of the 16 registers.
#[target_feature(enable = "avx2")]
fn add_run<const PLANES: usize>(key: &[[Line; PLANES]], digits: &[[i8; ROWS]], sums: &mut Sums<PLANES>) {
    let mut totals = [[_mm256_setzero_si256(); 2]; PLANES];
    for (lines, digits) in key.iter().zip(digits) {
        let digits = _mm256_set1_epi32(bytemuck::cast(*digits));
        for (totals, line) in totals.iter_mut().zip(lines) {
            let (halves, _) = line.as_chunks::<32>();
            for (pairs, half) in totals.iter_mut().zip(halves) {
                // SAFETY: the load reads 32 bytes, which are one half.
                let key = unsafe { _mm256_loadu_si256(half.as_ptr().cast()) };
                *pairs = _mm256_add_epi16(*pairs, _mm256_maddubs_epi16(key, digits));
            }
        }
    }
    for (sums, totals) in sums.iter_mut().zip(totals) {
        let (halves, _) = sums.as_chunks_mut::<{ COLUMNS / 2 }>();
        for (half, pairs) in halves.iter_mut().zip(totals) {
            let wide = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
            let half = half.as_mut_ptr().cast::<__m256i>();
            // SAFETY: the load and the store access 32 bytes, which are eight 32-bit sums.
            unsafe { _mm256_storeu_si256(half, _mm256_add_epi32(_mm256_loadu_si256(half), wide)) };
        }
    }
}
