//! AVX-512 with VNNI: one instruction multiplies four rows and sums the products up in 32 bits.

use std::arch::x86_64::*;

use super::{Factors, Line, ROWS, Sums};

/// Ciphertexts that are processed at once. With four planes, their sums take 24 of the 32
/// registers.
const LANES: usize = 6;

#[target_feature(enable = "avx512f,avx512vnni")]
pub(super) fn multiply<const PLANES: usize>(factors: Factors<'_, PLANES>, sums: &mut [Sums<PLANES>]) {
    let Factors { key, digits, .. } = factors;
    for (sums, digits) in sums.chunks_mut(LANES).zip(digits.chunks(LANES * key.len())) {
        match sums.len() {
            1 => lanes::<PLANES, 1>(key, digits, sums),
            2 => lanes::<PLANES, 2>(key, digits, sums),
            3 => lanes::<PLANES, 3>(key, digits, sums),
            4 => lanes::<PLANES, 4>(key, digits, sums),
            5 => lanes::<PLANES, 5>(key, digits, sums),
            _ => lanes::<PLANES, LANES>(key, digits, sums),
        }
    }
}

#[target_feature(enable = "avx512f,avx512vnni")]
fn lanes<const PLANES: usize, const LANES: usize>(
    key: &[[Line; PLANES]],
    digits: &[[i8; ROWS]],
    sums: &mut [Sums<PLANES>],
) {
    let mut of_lane = [digits; LANES];
    for (lane, of_lane) in of_lane.iter_mut().enumerate() {
        *of_lane = &digits[lane * key.len()..][..key.len()];
    }
    let mut totals = [[_mm512_setzero_si512(); PLANES]; LANES];
    for (group, lines) in key.iter().enumerate() {
        let mut keys = [_mm512_setzero_si512(); PLANES];
        for (key, line) in keys.iter_mut().zip(lines) {
            // SAFETY: the load reads 64 bytes, which are one line.
            *key = unsafe { _mm512_loadu_si512(line.as_ptr().cast()) };
        }
        for (totals, digits) in totals.iter_mut().zip(of_lane) {
            let digits = _mm512_set1_epi32(bytemuck::cast(digits[group]));
            for (total, key) in totals.iter_mut().zip(keys) {
                *total = _mm512_dpbusd_epi32(*total, key, digits);
            }
        }
    }
    for (sums, totals) in sums.iter_mut().zip(totals) {
        for (sums, total) in sums.iter_mut().zip(totals) {
            // SAFETY: the store writes 64 bytes, which are sixteen 32-bit sums.
            unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), total) };
        }
    }
}
