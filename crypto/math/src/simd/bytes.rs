//! The exact inner product over bytes, the innermost loop of the key switch: unsigned bytes of a key times
//! signed digits, in four rows and sixteen columns a step.
//!
//! Sums of up to [`GROUPS_MAX`] groups fit 32 bits: each group adds four products of at most 255 * 64.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod portable;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod vnni;

use super::{Isa, Level};

/// Matrix rows that lie together as the four bytes of a 32-bit lane.
pub(crate) const ROWS: usize = 4;
/// Matrix columns that lie together, a lane each.
pub(crate) const COLUMNS: usize = 16;
/// One byte of every word in a group of rows and a panel of columns: by column, then row.
pub(crate) type Line = [u8; ROWS * COLUMNS];
/// Greatest magnitude of a digit.
pub(crate) const DIGIT_MAX: i32 = 64;
/// Groups that one call may add up.
pub(crate) const GROUPS_MAX: usize = i32::MAX as usize / (ROWS * 255 * DIGIT_MAX as usize);

/// What one call multiplies.
#[derive(Clone, Copy)]
pub(crate) struct Factors<'a, const PLANES: usize> {
    /// By group, then byte of the word.
    pub(crate) key: &'a [[Line; PLANES]],
    /// By ciphertext, then group.
    pub(crate) digits: &'a [[i8; ROWS]],
    /// Greatest magnitude of the digits here, at least 1 and at most [`DIGIT_MAX`].
    pub(crate) digit_max: i32,
}

/// Sums of one ciphertext: by byte of the word, then column.
pub(crate) type Sums<const PLANES: usize> = [[i32; COLUMNS]; PLANES];

/// Sets `sums[c]` to ciphertext c's sum over all groups and their rows of digit times key byte.
pub(crate) fn multiply<const PLANES: usize>(level: Level, factors: Factors<'_, PLANES>, sums: &mut [Sums<PLANES>]) {
    let Factors { key, digits, digit_max } = factors;
    assert!((1..=GROUPS_MAX).contains(&key.len()) && (1..=DIGIT_MAX).contains(&digit_max), "the sums fit 32 bits");
    assert_eq!(digits.len(), key.len() * sums.len(), "each ciphertext has a digit for each row");
    match level.0 {
        Isa::Portable => portable::multiply(factors, sums),
        // SAFETY: a `Level` of this value is only made after its features were detected; VNNI was just now.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 if is_x86_feature_detected!("avx512vnni") => unsafe { vnni::multiply(factors, sums) },
        // SAFETY: either `Level` is only made after AVX2 was detected.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => unsafe { avx2::multiply(factors, sums) },
    }
}

/// Groups whose sums of pairs fit 16 bits, for digits up to `digit_max`: each group adds two products of at most
/// 255 * `digit_max`, and [`DIGIT_MAX`] * 2 * 255 is below 2^15.
fn groups_in_16_bits(digit_max: i32) -> usize {
    (DIGIT_MAX / digit_max) as usize
}
