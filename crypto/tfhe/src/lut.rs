//! Lookup tables: the function that a bootstrap applies, as a polynomial.

use cloakwork_math::Torus;
use cloakwork_params::{Encoding, ParameterSet};

use crate::ShapeError;

/// A lookup table: the body of a trivial GLWE ciphertext, and the coefficients that hold its
/// results.
///
/// A table of several functions costs one blind rotation and several sample extractions.
#[derive(Clone, Debug, PartialEq)]
pub struct Lut<T> {
    body: Vec<T>,
    outputs: Vec<usize>,
}

/// A reason why a table cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LutError {
    /// The set is boolean: it has gates, not tables of integers.
    #[error("{set} is a boolean set: it takes gates, not lookup tables of integers")]
    NotIntegers {
        /// Name of the requested set.
        set: &'static str,
    },
    /// The second input of a function of two has no values.
    #[error("a right modulus of 0: the second input of a bivariate table needs at least one value")]
    NoRightValues,
    /// The table has no functions or too many.
    #[error("{got} functions in one table: {set} has room for 1 to {max}")]
    TooManyFunctions {
        /// Name of the requested set.
        set: &'static str,
        /// Number of functions requested.
        got: usize,
        /// Maximum number of functions.
        max: usize,
    },
    /// A value of a function has no encoding.
    #[error("a table value of {got}: {set} encodes 0 to {max}")]
    ValueTooLarge {
        /// Name of the requested set.
        set: &'static str,
        /// The value.
        got: u64,
        /// Largest value with an encoding.
        max: u64,
    },
}

impl Lut<u64> {
    /// Builds the table of one function of message and carry together.
    pub fn from_fn(set: &ParameterSet, function: impl Fn(u64) -> u64) -> Result<Self, LutError> {
        Self::from_fns(set, &[&function])
    }

    /// Builds the table of a function of two ciphertexts, for the input
    /// `left * right_modulus + right`.
    pub fn bivariate(
        set: &ParameterSet,
        right_modulus: u64,
        function: impl Fn(u64, u64) -> u64,
    ) -> Result<Self, LutError> {
        if right_modulus == 0 {
            return Err(LutError::NoRightValues);
        }
        Self::from_fn(set, |packed| function(packed / right_modulus, packed % right_modulus))
    }

    /// Builds one table of several functions. Each input must then be below the number of values
    /// divided by the number of functions.
    pub fn from_fns(set: &ParameterSet, functions: &[&dyn Fn(u64) -> u64]) -> Result<Self, LutError> {
        let (values, inputs) = room(set, functions.len())?;
        let entry = |value: u64| match value < values {
            true => Ok(2 * value as i64),
            false => Err(LutError::ValueTooLarge { set: set.name, got: value, max: values - 1 }),
        };
        let entries = |function: &&dyn Fn(u64) -> u64| (0..inputs as u64).map(|input| entry(function(input))).collect();
        let functions: Vec<Vec<i64>> = functions.iter().map(entries).collect::<Result<_, _>>()?;
        Self::from_halves(set, &functions)
    }

    /// Builds one table of several functions from their entries, in units of half a plaintext step.
    /// In a table of a single function, inputs in the upper half of the torus read the same entries
    /// negated, as in any table.
    pub fn from_halves(set: &ParameterSet, functions: &[Vec<i64>]) -> Result<Self, LutError> {
        let (values, inputs) = room(set, functions.len())?;
        // Boxes that no function uses stay zero.
        let mut words = vec![0; values as usize];
        for (function, words) in functions.iter().zip(words.chunks_mut(inputs)) {
            for (entry, word) in function.iter().zip(words) {
                *word = (*entry as u64).wrapping_mul(set.plaintext_step() / 2);
            }
        }
        let box_size = set.polynomial_size / values as usize;
        let outputs = (0..functions.len()).map(|index| index * inputs * box_size).collect();
        Ok(Self { body: boxes(set.polynomial_size, &words), outputs })
    }

    /// Builds the table that moves a message from the top of the carry, where compression puts it,
    /// back to the low bits.
    pub(crate) fn rescale_carry(set: &ParameterSet) -> Result<Self, LutError> {
        let Encoding::Shortint { carry_modulus, .. } = set.encoding else {
            return Err(LutError::NotIntegers { set: set.name });
        };
        let entries: Vec<u64> = (0..carry_modulus).map(|value| value * set.plaintext_step()).collect();
        Ok(Self { body: boxes(set.polynomial_size, &entries), outputs: vec![0] })
    }
}

/// Number of values of a block, and number of inputs that each of `functions` functions in one
/// table may have.
fn room(set: &ParameterSet, functions: usize) -> Result<(u64, usize), LutError> {
    let Encoding::Shortint { message_modulus, carry_modulus, .. } = set.encoding else {
        return Err(LutError::NotIntegers { set: set.name });
    };
    let values = message_modulus * carry_modulus;
    let max = (values as usize / 2).max(1);
    if !(1..=max).contains(&functions) {
        return Err(LutError::TooManyFunctions { set: set.name, got: functions, max });
    }
    Ok((values, values as usize / functions))
}

/// Builds a polynomial with one box of equal coefficients per entry, centred on its input's
/// encoding.
fn boxes(polynomial_size: usize, entries: &[u64]) -> Vec<u64> {
    let box_size = polynomial_size / entries.len();
    let mut body: Vec<u64> = entries.iter().flat_map(|entry| std::iter::repeat_n(*entry, box_size)).collect();
    // Rotate left by half a box. Coefficients that leave on the left return negated on the right.
    for word in &mut body[..box_size / 2] {
        *word = word.wrapping_neg();
    }
    body.rotate_left(box_size / 2);
    body
}

impl<T: Torus> Lut<T> {
    /// Builds the table that maps the upper half of the torus to `-value` and the lower half to
    /// `value`.
    pub fn sign(polynomial_size: usize, value: T) -> Self {
        Self { body: vec![value; polynomial_size], outputs: vec![0] }
    }

    /// Builds a table with one output from its polynomial.
    pub fn from_body(body: Vec<T>) -> Self {
        Self { body, outputs: vec![0] }
    }

    /// Builds a table from its polynomial and the coefficients that hold its results, in ascending
    /// order.
    pub fn from_parts(body: Vec<T>, outputs: Vec<usize>) -> Result<Self, ShapeError> {
        ShapeError::within("outputs of a lookup table", 1..=body.len(), outputs.len())?;
        for (index, &output) in outputs.iter().enumerate() {
            ShapeError::within("place of a lookup table's output", 0..=body.len() - 1, output)?;
            if index > 0 && output <= outputs[index - 1] {
                let what = "output of a lookup table (at least)";
                return Err(ShapeError { what, expected: outputs[index - 1] + 1, got: output });
            }
        }
        Ok(Self { body, outputs })
    }

    /// The polynomial.
    pub fn body(&self) -> &[T] {
        &self.body
    }

    /// The coefficient that holds each function's result after the blind rotation.
    pub fn outputs(&self) -> &[usize] {
        &self.outputs
    }
}
