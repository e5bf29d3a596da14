//! Packing of many LWE ciphertexts into the coefficients of one GLWE ciphertext, and lists of them
//! stored in a few bits per coefficient.

mod compress;
mod decompress;
mod list;

use cloakwork_math::{Torus, key_product, polynomial, simd::Level};
use cloakwork_params::{CompressionSet, ParameterSet};

use crate::{LutError, PackingKey, ShapeError};

pub use compress::CompressionKey;
pub use decompress::{DecompressScratch, DecompressionKey};
pub use list::CompressedList;

/// Working memory for packing on one thread.
#[derive(Default)]
pub struct Scratch<T> {
    digits: key_product::Scratch,
    rounded: Vec<T>,
    rows: Vec<T>,
}

/// Packs `ciphertexts[c]` into coefficient c of `glwe`. Bit-exact with tfhe-rs.
pub fn pack<T: Torus>(
    key: &PackingKey<T>,
    ciphertexts: &[T],
    glwe: &mut [T],
    scratch: &mut Scratch<T>,
) -> Result<(), ShapeError> {
    let (stride, columns) = (key.input_dimension() + 1, key.glwe_words());
    let count = ciphertexts.len() / stride;
    ShapeError::check("words of the ciphertexts to pack", count * stride, ciphertexts.len())?;
    ShapeError::check("words of the packed ciphertext", columns, glwe.len())?;
    if count > key.polynomial_size() {
        return Err(ShapeError {
            what: "ciphertexts in one pack (at most)",
            expected: key.polynomial_size(),
            got: count,
        });
    }
    let Scratch { digits, rounded, rows } = scratch;
    // Round first and decompose afterwards, so that ties round as in tfhe-rs.
    let kept = key.gadget().base_log * key.gadget().levels as u32;
    rounded.clear();
    rounded.extend(ciphertexts.iter().map(|word| T::from_u64(word.round_to_modulus(kept) << (T::BITS - kept))));
    rows.clear();
    rows.resize(count * columns, T::default());
    let body_at = columns - key.polynomial_size();
    for (row, ciphertext) in rows.chunks_exact_mut(columns).zip(ciphertexts.chunks_exact(stride)) {
        row[body_at] = ciphertext[stride - 1];
    }
    key_product::subtract_product(Level::detect(), key.matrix(), rounded, stride, rows, digits);
    glwe.fill(T::default());
    for (degree, row) in rows.chunks_exact(columns).enumerate() {
        polynomial::add_rotated(Level::detect(), key.polynomial_size(), row, &[], degree, glwe);
    }
    Ok(())
}

/// A key that does not fit a compression set, or ciphertexts that do not fit the keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompressionError {
    /// The compression set does not support the parameter set.
    #[error("{compression} does not compress ciphertexts of {set}")]
    WrongSet {
        /// The compression set.
        compression: &'static str,
        /// The ciphertexts' parameter set.
        set: &'static str,
    },
    /// A key or list has the wrong shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The ciphertexts do not hold integers.
    #[error(transparent)]
    Lut(#[from] LutError),
}

fn check_set(compression: &CompressionSet, set: &ParameterSet) -> Result<(), CompressionError> {
    if compression.parameter_sets.contains(&set.id) {
        Ok(())
    } else {
        Err(CompressionError::WrongSet { compression: compression.name, set: set.name })
    }
}
