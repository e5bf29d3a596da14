//! The rounding error of the floating-point transform, the one term that depends on the implementation.

use super::gadget::{digit_square, rounding};
use super::torus_bits;
use crate::set::ParameterSet;

/// How a transform loses precision: the relative variance of an external product's error, in units of
/// (2^-53)^2, is `per_stage * log2 N + product + per_grouped_bit * group`.
///
/// Every butterfly stage of the three transforms (digits, key, result) rounds once, and errors of different stages
/// are independent: hence the logarithm. The products themselves are a constant. A multi-bit step sums its GGSW
/// ciphertexts in the transformed domain, which costs more the larger the group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransformLoss {
    /// Of each butterfly stage.
    pub per_stage: f64,
    /// Of conversions, twists and products.
    pub product: f64,
    /// Of each secret bit of a multi-bit group.
    pub per_grouped_bit: f64,
}

impl TransformLoss {
    /// The transform that the evaluation core ships.
    ///
    /// Fitted to the external product against exact integer arithmetic for every shape of the table:
    /// `cargo run --release -p cloakwork-tests-noise --bin transform-error` measures it again.
    pub const SHIPPED: Self = Self { per_stage: 0.97, product: 2.0, per_grouped_bit: 0.85 };

    /// Variance of the error over variance of the exact product, in units of (2^-53)^2.
    pub fn relative(&self, set: &ParameterSet) -> f64 {
        let stages = f64::from(set.polynomial_size.trailing_zeros());
        let bits = if set.grouping == 1 { 0.0 } else { set.grouping as f64 };
        self.per_stage * stages + self.product + self.per_grouped_bit * bits
    }
}

/// Variance of the error on each coefficient of one external product's result.
pub fn external_product_error(set: &ParameterSet) -> f64 {
    let products = (set.bootstrap.levels * set.glwe_size() * set.polynomial_size) as f64;
    let ggsws = if set.grouping == 1 { 1.0 } else { f64::from(1_u32 << set.grouping) };
    // Before it is reduced modulo 1 the result is a sum of digits times words that are uniform on [-1/2, 1/2).
    let magnitude = products * digit_square(set.bootstrap) * ggsws / 12.0;
    let unit = f64::EPSILON / 2.0;
    // The result is rounded to the torus word: negligible on 64 bits, all there is on 32 bits.
    let word = torus_bits(set);
    TransformLoss::SHIPPED.relative(set) * unit * unit * magnitude + rounding(2 * word, word)
}
