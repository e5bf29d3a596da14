//! Modulus switch from torus words to exponents modulo 2N.

use cloakwork_math::Torus;
use cloakwork_params::ModulusSwitch;

/// Switches one ciphertext under the small key to exponents below 2^`log2`, mask first, body last.
///
/// Bit-exact with tfhe-rs.
pub fn modulus_switch<T: Torus>(rule: ModulusSwitch, log2: u32, ciphertext: &[T], exponents: &mut [u32]) {
    let (body, mask) = ciphertext.split_last().expect("a ciphertext has a body");
    let (body_out, mask_out) = exponents.split_last_mut().expect("one exponent a word");
    for (word, exponent) in mask.iter().zip(mask_out) {
        *exponent = switch_word(*word, log2);
    }
    let body = match rule {
        ModulusSwitch::Plain => *body,
        ModulusSwitch::CenteredMean => body.wrapping_add(centering(log2, mask)),
    };
    *body_out = switch_word(body, log2);
}

/// Rounds one word to the nearest multiple of 2^-`log2` of the torus.
#[inline(always)]
pub fn switch_word<T: Torus>(word: T, log2: u32) -> u32 {
    // Rounding up from the last multiple gives 2^log2, which the addition has already wrapped to 0.
    word.round_to_modulus(log2) as u32
}

/// Computes the exponent of a subset of a multi-bit group: adds the subset's mask words, then
/// switches the sum. The highest bit of `subset` stands for the group's first word.
///
/// Bit-exact with tfhe-rs.
#[inline(always)]
pub fn switch_subset<T: Torus>(group: &[T], subset: usize, log2: u32) -> u32 {
    let selected = group.iter().rev().enumerate().filter(|(bit, _)| subset >> bit & 1 == 1);
    switch_word(selected.fold(T::default(), |sum, (_, word)| sum.wrapping_add(*word)), log2)
}

/// Correction of the body: half the sum of the mask's rounding errors, less half a step.
///
/// The first term cancels the mean phase error that the rounding causes over a uniform binary key.
/// The second turns the later rounding of the body into a floor. With a floor, each box of a lookup
/// table covers the phases around its encoding evenly. With rounding, the box would be half a step
/// off.
fn centering<T: Torus>(log2: u32, mask: &[T]) -> T {
    let mut half_errors = T::default();
    let mut lost_doubled = 0i64;
    for word in mask {
        let rounded = T::from_u64(u64::from(switch_word(*word, log2)) << (T::BITS - log2));
        let error = rounded.wrapping_sub(*word).to_i64();
        // Division rounds towards zero. Twice the loss is summed and halved once at the end.
        let half = error / 2;
        half_errors = half_errors.wrapping_add(T::from_i64(half));
        lost_doubled += 2 * half - error;
    }
    let half_step = T::from_u64(1 << (T::BITS - log2 - 1));
    half_errors.wrapping_sub(T::from_i64(lost_doubled / 2)).wrapping_sub(half_step)
}
