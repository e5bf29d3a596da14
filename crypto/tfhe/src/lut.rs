//! Lookup tables: the function that a bootstrap applies, as a polynomial.

use cloakwork_math::Torus;
use cloakwork_params::{Encoding, ParameterSet};

use crate::ShapeError;

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
    /// A function of two inputs, the second of which has no values.
    #[error("a right modulus of 0: the second input of a table of two must have a value")]
    NoRightValues,
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
        if right_modulus == 0 {
            return Err(LutError::NoRightValues);
        }
        Self::from_fn(set, |packed| function(packed / right_modulus, packed % right_modulus))
    }

    /// One table of several functions. Inputs must then stay below the number of values over the number of
    /// functions.
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

    /// One table of several functions, entry by entry, in halves of a block's step. Behind the entries of a single one they
    /// come once more, negated, as the upper half of the torus does in any table.
    pub fn from_halves(set: &ParameterSet, functions: &[Vec<i64>]) -> Result<Self, LutError> {
        let (values, inputs) = room(set, functions.len())?;
        // Boxes that no function has a use for stay zero.
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

    /// The table that moves a message from the top of the carry, where compression puts it, back to the low bits.
    pub(crate) fn rescale_carry(set: &ParameterSet) -> Result<Self, LutError> {
        let Encoding::Shortint { carry_modulus, .. } = set.encoding else {
            return Err(LutError::NotIntegers { set: set.name });
        };
        let entries: Vec<u64> = (0..carry_modulus).map(|value| value * set.plaintext_step()).collect();
        Ok(Self { body: boxes(set.polynomial_size, &entries), outputs: vec![0] })
    }
}

/// Values of a block, and how many of them each of so many functions in one table has for its input.
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

/// One box of equal coefficients for each entry, each centred on its input's encoding.
fn boxes(polynomial_size: usize, entries: &[u64]) -> Vec<u64> {
    let box_size = polynomial_size / entries.len();
    let mut body: Vec<u64> = entries.iter().flat_map(|entry| std::iter::repeat_n(*entry, box_size)).collect();
    // Half a box to the left; what leaves on the left comes back negated on the right.
    for word in &mut body[..box_size / 2] {
        *word = word.wrapping_neg();
    }
    body.rotate_left(box_size / 2);
    body
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

    /// A table from its polynomial and the coefficients that its results are read from, in ascending order.
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

    /// Results of one blind rotation: the coefficient that each function's value is read from.
    pub fn outputs(&self) -> &[usize] {
        &self.outputs
    }
}
