//! Digits and roundings, the two sources of noise in every operation.

use super::least_square;
use crate::set::Decomposition;

/// Mean square of a digit that is uniform on [-B/2, B/2), as in the external product. Its value is
/// (B^2 - 1)/12 + 1/4 = (B^2 + 2)/12.
///
/// Digits multiply key noise and are independent of it. The mean square therefore counts, not the
/// variance.
pub(super) fn digit_square(gadget: Decomposition) -> f64 {
    (base(gadget).powi(2) + 2.0) / 12.0
}

/// Sum over the levels of a digit's mean square, as in key switches. These take digits off from the
/// least significant digit upwards. A digit of B/2 becomes -B/2 and carries, if the carry brings
/// the next digit towards zero.
///
/// A digit after such a tie is thus never a tie itself. Let p be the probability of a tie: 1/B for
/// the first digit, then (1 - p)/B. The mean square is lower than that of a uniform digit by B/4 p.
/// This is 13% for a base of 4, and nothing for a base of a thousand.
pub(super) fn balanced_digit_squares(gadget: Decomposition) -> f64 {
    let base = base(gadget);
    let ties = std::iter::successors(Some(1.0 / base), |tie| Some((1.0 - tie) / base));
    let missing: f64 = ties.take(gadget.levels - 1).map(|tie| base / 4.0 * tie).sum();
    gadget.levels as f64 * digit_square(gadget) - missing
}

fn base(gadget: Decomposition) -> f64 {
    f64::from(gadget.base_log).exp2()
}

/// Variance of the rounding of one word to the multiples of B^-levels that a gadget can represent.
pub(super) fn decomposition_error(gadget: Decomposition, word_bits: u32) -> f64 {
    rounding(word_bits, gadget.base_log * gadget.levels as u32)
}

/// Variance of rounding a uniform word of `from` bits to its `to` most significant bits. This
/// equals the variance of a uniform variable on 2^(from - to) neighbouring steps. Rounding all ties
/// one way adds a mean of half a least step, which is ignored here.
pub(super) fn rounding(from: u32, to: u32) -> f64 {
    (least_square(to) - least_square(from)) / 12.0
}
