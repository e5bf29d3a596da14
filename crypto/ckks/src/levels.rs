//! Ciphertexts brought to a level and a scale.

use crate::{ciphertext::Ciphertext, error::CkksError, evaluator::Evaluator};

impl Evaluator<'_> {
    /// A number times a, at a level below a's and with exactly the scale that is asked for: also what brings one of two operands,
    /// times 1, to where the other is.
    pub fn multiply_number(
        &self,
        a: &Ciphertext,
        number: f64,
        level: usize,
        scale: f64,
    ) -> Result<Ciphertext, CkksError> {
        if level >= a.level() {
            return Err(CkksError::LevelTooLow { what: "a product", got: a.level(), least: level.saturating_add(1) });
        }
        if !number.is_finite() {
            return Err(CkksError::NotFinite { index: 0 });
        }
        self.linear_combination(&[(number, a)], 0.0, level + 1, scale)
    }
}
