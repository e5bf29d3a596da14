//! The rounding error of the floating-point transform, the only term that depends on the
//! implementation.

use super::gadget::digit_square;
use super::least_square;
use crate::set::ParameterSet;

/// Variance of the error of one external product. The error of the phase is
/// `(1 + ones of the big key)` times this variance.
///
/// Every butterfly stage of the three transforms (digits, key, result) rounds each value to 53
/// bits. The error is therefore a multiple of the exact product's variance: [`transform_loss`].
pub fn external_product_error(set: &ParameterSet) -> f64 {
    let products = (set.bootstrap.levels * set.glwe_size() * set.polynomial_size) as f64;
    // Before the reduction modulo 1, the result is a sum of digits times words that are uniform on
    // [-1/2, 1/2).
    let magnitude = products * digit_square(set.bootstrap) / 12.0;
    let unit = f64::EPSILON / 2.0;
    let rows = set.bootstrap.levels * set.glwe_size();
    let error = transform_loss(set.polynomial_size, rows) * unit * unit * magnitude;
    // The exact product is a whole number of least steps, and the result is rounded to a least
    // step. An error far below half a step thus vanishes. This is the case for 32 bits. For 64
    // bits, the word has more bits than the transform.
    let step = least_square(set.torus.bits());
    if error < step / VANISHING_VARIANCE_RATIO { 0.0 } else { error }
}

/// Variance of an external product's error over variance of the exact product, in units of
/// (2^-53)^2, for polynomials of `size` coefficients and `rows` rows of digits.
///
/// The loss grows with each pass, because each pass adds a multiplication and some additions to the
/// path of every value. The loss is the error in the phase, up to 15 % below that of a single
/// coefficient. A key of zeros and ones is most sensitive to the lowest frequency, which passes
/// through the fewest roundings.
///
/// Digits count as noise of mean zero. Their mean of -1/2 would show at that frequency for an N
/// near B^2 / 3, which no set on 64 bits has.
///
/// Measured for the plans of `cloakwork-math` by
/// `cargo run --release -p cloakwork-tests-noise --bin transform-error`, with `CLOAKWORK_SIMD` for
/// each instruction set. The table has the worst instruction set, which is mostly the set without a
/// fused multiply-add.
pub fn transform_loss(size: usize, rows: usize) -> f64 {
    let index = size.ilog2().saturating_sub(SIZE_LOG2_MIN) as usize;
    LOSS[index.min(LOSS.len() - 1)] + LOSS_PER_ROW * (rows as f64 - 2.0)
}

/// Loss for two rows, by log2 of the size, from 2^6 to 2^16. Other sizes use the nearest entry.
const LOSS: [f64; 11] = [6.9, 10.3, 10.1, 10.7, 12.7, 14.9, 15.0, 16.7, 18.9, 19.8, 23.0];
const SIZE_LOG2_MIN: u32 = 6;
/// Additional loss for each row above two.
const LOSS_PER_ROW: f64 = 0.1;
/// Ratio of the squared least step to the variance below which errors vanish: an eighth of a step,
/// squared. Half a step is then four standard deviations away.
const VANISHING_VARIANCE_RATIO: f64 = 64.0;
