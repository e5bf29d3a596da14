//! Digits and roundings, the two sources of noise that every operation shares.

use super::least_square;
use crate::set::Decomposition;

/// Mean square of a digit of the balanced decomposition.
///
/// A digit is uniform on the B residues around zero, except that the tie -B/2, B/2 goes either way: the squares are
/// those of a uniform residue in [-B/2, B/2), (B^2 - 1)/12 + 1/4 = (B^2 + 2)/12. Key noise is multiplied by digits
/// and independent of them, so the mean square is what counts, not the variance.
pub(super) fn digit_square(gadget: Decomposition) -> f64 {
    ((2.0 * f64::from(gadget.base_log)).exp2() + 2.0) / 12.0
}

/// Variance of one word's rounding to the multiples of B^-levels that a gadget can represent.
pub(super) fn decomposition_error(gadget: Decomposition, word_bits: u32) -> f64 {
    rounding(word_bits, gadget.base_log * gadget.levels as u32)
}

/// Variance of rounding a uniform word of `from` bits to its `to` most significant bits: that of a uniform variable
/// on 2^(from - to) neighbouring steps. Rounding ties one way adds a mean of half a least step, which is left out.
pub(super) fn rounding(from: u32, to: u32) -> f64 {
    (least_square(to) - least_square(from)) / 12.0
}
