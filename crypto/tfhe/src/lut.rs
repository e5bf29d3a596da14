//! Lookup tables: the function that a bootstrap applies, as a polynomial.

use cloakwork_math::Torus;
use cloakwork_params::{Encoding, ParameterSet};

/// A lookup table: the body of a trivial GLWE ciphertext, and the places its results are read from.
///
/// A table of several functions is one blind rotation and several sample extractions.
#[derive(Clone, Debug, PartialEq)]
pub struct Lut<T> {
    body: Vec<T>,
    outputs: Vec<usize>,
}

/// A table that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LutError {
    /// Boolean sets have gates, not tables of integers.
    #[error("{set} is a boolean set: it takes gates, not lookup tables of integers")]
    NotIntegers {
        /// The set asked for.
        set: &'static str,
    },
    /// Too many functions in one table.
    #[error("{got} functions in one table: {set} has room for 1 to {max}")]
    TooManyFunctions {
        /// The set asked for.
        set: &'static str,
        /// Functions asked for.
        got: usize,
        /// Most that fit.
        max: usize,
    },
    /// A function's value has no encoding.
    #[error("a table value of {got}: {set} encodes 0 to {max}")]
    ValueTooLarge {
        /// The set asked for.
        set: &'static str,
        /// Value asked for.
        got: u64,
        /// Largest value.
        max: u64,
    },
}

impl Lut<u64> {
    /// The table of one function on message and carry together.
    pub fn from_fn(set: &ParameterSet, function: impl Fn(u64) -> u64) -> Result<Self, LutError> {
        Self::from_fns(set, &[&function])
    }

    /// The table of a function of two ciphertexts, for an input of `left * right_modulus + right`.
    pub fn bivariate(
        set: &ParameterSet,
        right_modulus: u64,
        function: impl Fn(u64, u64) -> u64,
    ) -> Result<Self, LutError> {
        Self::from_fn(set, |packed| function(packed / right_modulus, packed % right_modulus))
    }

    /// One table of several functions. Inputs may then only go up to [`Self::max_input`].
    pub fn from_fns(set: &ParameterSet, functions: &[&dyn Fn(u64) -> u64]) -> Result<Self, LutError> {
        let Encoding::Shortint { message_modulus, carry_modulus, .. } = set.encoding else {
            return Err(LutError::NotIntegers { set: set.name });
        };
        let values = message_modulus * carry_modulus;
        let max = (values as usize / 2).max(1);
        if !(1..=max).contains(&functions.len()) {
            return Err(LutError::TooManyFunctions { set: set.name, got: functions.len(), max });
        }
        let box_size = set.polynomial_size / values as usize;
        let inputs = values as usize / functions.len();
        let delta = (1 << 63) / values;
        let mut body = vec![0; set.polynomial_size];
        for (function, boxes) in functions.iter().zip(body.chunks_mut(inputs * box_size)) {
            for (input, words) in boxes.chunks_exact_mut(box_size).enumerate() {
                let value = function(input as u64);
                if value >= values {
                    return Err(LutError::ValueTooLarge { set: set.name, got: value, max: values - 1 });
                }
                words.fill(value * delta);
            }
        }
        // Half a box to the left centres each input's box on its encoding.
        for word in &mut body[..box_size / 2] {
            *word = word.wrapping_neg();
        }
        body.rotate_left(box_size / 2);
        let outputs = (0..functions.len()).map(|index| index * inputs * box_size).collect();
        Ok(Self { body, outputs })
    }
}

impl<T: Torus> Lut<T> {
    /// The table that maps the upper half of the torus to `-value` and the lower half to `value`.
    pub fn sign(polynomial_size: usize, value: T) -> Self {
        Self { body: vec![value; polynomial_size], outputs: vec![0] }
    }

    /// A table from its polynomial, with one output.
    pub fn from_body(body: Vec<T>) -> Self {
        Self { body, outputs: vec![0] }
    }

    /// The polynomial.
    pub fn body(&self) -> &[T] {
        &self.body
    }

    /// Results of one blind rotation: the coefficient that each function's value is read from.
    pub fn outputs(&self) -> &[usize] {
        &self.outputs
    }
}
