//! Gadget decomposition: a torus word as a few small signed digits.
//!
//! The digits are bit-exact with tfhe-rs. First, the word is rounded to the `levels * base_log` top
//! bits. Then the rounded value is balanced into [-2^(b l - 1), 2^(b l - 1)], where the rounding
//! bit decides ties. Last, balanced digits are taken off from the least significant digit upwards.

use cloakwork_params::Decomposition;

use crate::torus::Torus;

/// log2 of the largest base. Digits must be small enough for a double to hold them exactly.
pub const BASE_LOG_MAX: u32 = 31;

/// Rounds and balances a word. [`next_digit`] takes the digits off the result.
#[inline(always)]
pub fn round<T: Torus>(gadget: Decomposition, word: T) -> i64 {
    let kept = gadget.base_log * gadget.levels as u32;
    debug_assert!(kept < T::BITS);
    let doubled = word.to_u64() >> (T::BITS - kept - 1);
    let rounding_bit = doubled & 1;
    let rounded = ((doubled + 1) >> 1) & (u64::MAX >> (64 - kept));
    balance(rounded, kept, rounding_bit)
}

/// Takes the least significant digit, in [-B/2, B/2], off `state`.
#[inline(always)]
pub fn next_digit(gadget: Decomposition, state: &mut i64) -> i64 {
    let base_log = gadget.base_log;
    let low = *state as u64 & ((1 << base_log) - 1);
    *state >>= base_log;
    // A digit of exactly B/2 becomes -B/2 if the next digit is in the upper half as well.
    let digit = balance(low, base_log, (*state >> (base_log - 1)) as u64 & 1);
    // `low - digit` is zero or one whole base: this is the carry into the next digit.
    *state += (low as i64 - digit) >> base_log;
    digit
}

/// Returns `value` or `value - 2^bits`, whichever is nearer to zero. A tie goes down when
/// `tie_down` is 1.
#[inline(always)]
fn balance(value: u64, bits: u32, tie_down: u64) -> i64 {
    let go_down = ((value.wrapping_sub(1) | (tie_down << (bits - 1))) & value) >> (bits - 1);
    (value as i64).wrapping_sub((go_down << bits) as i64)
}
