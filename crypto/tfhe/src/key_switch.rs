//! Key switch from the big key to a small one. A whole tile of ciphertexts shares each read of the
//! key.

use cloakwork_math::{
    Torus,
    key_product::{self, Scratch},
    simd::Level,
};

use crate::{KeySwitchKey, ShapeError};

/// Switches the ciphertexts in `inputs` (rows of `input_dimension + 1` words) to the key's output
/// key.
///
/// The output word may be narrower than the input word, but not wider. The body is then rounded to
/// the output modulus. Bit-exact with tfhe-rs.
pub fn key_switch<T: Torus, S: Torus>(
    key: &KeySwitchKey<S>,
    inputs: &[T],
    outputs: &mut [S],
    scratch: &mut Scratch,
) -> Result<(), ShapeError> {
    ShapeError::within("bits of a word of the key switch's outputs", 1..=T::BITS as usize, S::BITS as usize)?;
    let (stride, columns) = (key.input_dimension() + 1, key.output_dimension() + 1);
    let count = inputs.len() / stride;
    ShapeError::check("words of the key switch's inputs", count * stride, inputs.len())?;
    ShapeError::check("words of the key switch's outputs", count * columns, outputs.len())?;
    for (input, output) in inputs.chunks_exact(stride).zip(outputs.chunks_exact_mut(columns)) {
        let (body, mask) = output.split_last_mut().expect("a ciphertext has a body");
        mask.fill(S::default());
        *body = narrow(input[stride - 1], key.modulus_log2());
    }
    key_product::subtract_product(Level::detect(), key.matrix(), inputs, stride, outputs, scratch);
    Ok(())
}

/// Rounds `word` to its top `modulus_log2` bits and moves these to the top of the output word.
fn narrow<T: Torus, S: Torus>(word: T, modulus_log2: u32) -> S {
    if modulus_log2 == T::BITS {
        return S::from_u64(word.to_u64());
    }
    S::from_u64(word.round_to_modulus(modulus_log2) << (S::BITS - modulus_log2))
}
