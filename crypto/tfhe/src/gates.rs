//! Boolean gates. True is 1/8 of the torus and false is -1/8. A gate is a linear combination whose
//! sign is the result, followed by one bootstrap that reads the sign.

mod gate;

use crate::{
    Lut, LweList, ServerKey, ShapeError,
    bootstrap::{Lanes, Scratch},
};

pub use gate::Gate;

/// 1/8 of the torus.
const EIGHTH: u32 = 1 << 29;

/// Gates under a boolean key: the key, and the lookup table that reads a sign.
pub struct Gates<'k> {
    key: &'k ServerKey<u32, u32>,
    sign: Lut<u32>,
}

impl<'k> Gates<'k> {
    /// Creates the gates under `key`.
    pub fn new(key: &'k ServerKey<u32, u32>) -> Self {
        Self { key, sign: Lut::sign(key.set().polynomial_size, EIGHTH) }
    }

    /// Computes `outputs[c] = gates[c](left[c], right[c])` with one bootstrap each.
    pub fn evaluate(
        &self,
        gates: &[Gate],
        left: &LweList<u32>,
        right: &LweList<u32>,
        outputs: &mut LweList<u32>,
        scratches: &mut [Scratch<u32, u32>],
    ) -> Result<(), ShapeError> {
        self.check([left, right], gates.len())?;
        let load = |lane: usize, input: &mut [u32]| {
            let (factor, constant) = gates[lane].combination();
            for ((word, left), right) in input.iter_mut().zip(left.get(lane)).zip(right.get(lane)) {
                *word = left.wrapping_add(*right).wrapping_mul(factor);
            }
            add_to_body(input, constant);
        };
        let lanes = Lanes { count: gates.len(), load: &load, lut: &|_| &self.sign, sum_pairs: None };
        self.key.run(lanes, outputs, scratches)
    }

    /// Computes `outputs[c] = if conditions[c] { yes[c] } else { no[c] }` with two bootstraps each.
    pub fn mux(
        &self,
        conditions: &LweList<u32>,
        yes: &LweList<u32>,
        no: &LweList<u32>,
        outputs: &mut LweList<u32>,
        scratches: &mut [Scratch<u32, u32>],
    ) -> Result<(), ShapeError> {
        self.check([conditions, yes, no], outputs.len())?;
        // Lane 2c is `condition and yes`, lane 2c + 1 is `not condition and no`. At least one lane
        // is false, and false + x + 1/8 = x.
        let load = |lane: usize, input: &mut [u32]| {
            let condition = conditions.get(lane / 2);
            let (branch, sign) = if lane.is_multiple_of(2) { (yes, 1) } else { (no, 1u32.wrapping_neg()) };
            for ((word, condition), branch) in input.iter_mut().zip(condition).zip(branch.get(lane / 2)) {
                *word = condition.wrapping_mul(sign).wrapping_add(*branch);
            }
            add_to_body(input, EIGHTH.wrapping_neg());
        };
        let lanes = Lanes { count: 2 * outputs.len(), load: &load, lut: &|_| &self.sign, sum_pairs: Some(EIGHTH) };
        self.key.run(lanes, outputs, scratches)
    }

    fn check<const COUNT: usize>(&self, inputs: [&LweList<u32>; COUNT], len: usize) -> Result<(), ShapeError> {
        for input in inputs {
            ShapeError::check("dimension of a gate's input", self.key.set().input_dimension(), input.dimension())?;
            ShapeError::check("ciphertexts of a gate's input", len, input.len())?;
        }
        Ok(())
    }
}

/// Negates every bit, without a bootstrap and without added noise.
pub fn not(bits: &mut LweList<u32>) {
    for word in bits.words_mut() {
        *word = word.wrapping_neg();
    }
}

fn add_to_body(ciphertext: &mut [u32], constant: u32) {
    let body = ciphertext.last_mut().expect("a ciphertext has a body");
    *body = body.wrapping_add(constant);
}
