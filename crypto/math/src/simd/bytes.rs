//! The exact inner product over bytes, which is the innermost loop of the key switch. Unsigned
//! bytes of a key are multiplied by signed digits, in four rows and sixteen columns per step.
//!
//! Sums of up to [`GROUPS_MAX`] groups fit 32 bits: each group adds four products, and each product
//! is at most 255 * 64.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod portable;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod vnni;

use super::{Isa, Level};

/// Adjacent matrix rows, which are the four bytes of a 32-bit lane.
pub(crate) const ROWS: usize = 4;
/// Adjacent matrix columns, one lane for each.
pub(crate) const COLUMNS: usize = 16;
/// One byte of every word in a group of rows and a panel of columns, by column, then row.
pub(crate) type Line = [u8; ROWS * COLUMNS];
/// Greatest magnitude of a digit.
pub(crate) const DIGIT_MAX: i32 = 64;
/// Maximum number of groups that one call sums up.
pub(crate) const GROUPS_MAX: usize = i32::MAX as usize / (ROWS * 255 * DIGIT_MAX as usize);

/// Operands of one call.
#[derive(Clone, Copy)]
pub(crate) struct Factors<'a, const PLANES: usize> {
    /// Key bytes by group, then byte of the word.
    pub(crate) key: &'a [[Line; PLANES]],
    /// Digits by ciphertext, then group.
    pub(crate) digits: &'a [[i8; ROWS]],
    /// Greatest magnitude of these digits, at least 1 and at most [`DIGIT_MAX`].
    pub(crate) digit_max: i32,
}

/// Sums of one ciphertext, by byte of the word, then column.
pub(crate) type Sums<const PLANES: usize> = [[i32; COLUMNS]; PLANES];

/// Sets `sums[c]` to the sum of ciphertext c over all groups and their rows of digit times key
/// byte.
pub(crate) fn multiply<const PLANES: usize>(level: Level, factors: Factors<'_, PLANES>, sums: &mut [Sums<PLANES>]) {
    let Factors { key, digits, digit_max } = factors;
    assert!((1..=GROUPS_MAX).contains(&key.len()) && (1..=DIGIT_MAX).contains(&digit_max), "the sums fit 32 bits");
    assert_eq!(digits.len(), key.len() * sums.len(), "each ciphertext has a digit for each row");
    match level.0 {
        Isa::Portable => portable::multiply(factors, sums),
        // SAFETY: a `Level` of this value is only created after its features were detected. VNNI
        // was detected in the guard.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 if is_x86_feature_detected!("avx512vnni") => unsafe { vnni::multiply(factors, sums) },
        // SAFETY: a `Level` of either value is only created after AVX2 was detected.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => unsafe { avx2::multiply(factors, sums) },
    }
}

/// Groups whose sums of pairs fit 16 bits, for digits up to `digit_max`. Each group adds two
/// products of at most 255 * `digit_max`, and [`DIGIT_MAX`] * 2 * 255 is below 2^15.
fn groups_in_16_bits(digit_max: i32) -> usize {
    (DIGIT_MAX / digit_max) as usize
}
