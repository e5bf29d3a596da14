//! Packing: many LWE ciphertexts as the coefficients of one GLWE ciphertext, and lists of them stored in a
//! few bits a coefficient.

mod list;
mod unpack;

use cloakwork_math::{Torus, key_product, polynomial, simd::Level};
use cloakwork_params::CompressionSet;

use crate::{LweList, PackingKey, ShapeError};

pub use list::CompressedList;
pub use unpack::{UnpackScratch, UnpackingError, UnpackingKey};

/// Working memory of one thread's packing.
#[derive(Default)]
pub struct Scratch<T> {
    digits: key_product::Scratch<T>,
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
    // Rounded first and decomposed then, so that ties fall as in tfhe-rs.
    let kept = key.gadget().base_log * key.gadget().levels as u32;
    rounded.clear();
    rounded.extend(ciphertexts.iter().map(|word| T::from_u64(word.round_to_modulus(kept) << (T::BITS - kept))));
    rows.clear();
    rows.resize(count * columns, T::default());
    let body_at = columns - key.polynomial_size();
    for (row, ciphertext) in rows.chunks_exact_mut(columns).zip(ciphertexts.chunks_exact(stride)) {
        row[body_at] = ciphertext[stride - 1];
    }
    key_product::subtract_product(Level::detect(), key.gadget(), rounded, stride, key.words(), columns, rows, digits);
    glwe.fill(T::default());
    for (degree, row) in rows.chunks_exact(columns).enumerate() {
        polynomial::add_rotated(Level::detect(), key.polynomial_size(), row, degree, glwe);
    }
    Ok(())
}

/// Packs and compresses ciphertexts whose message was multiplied up into the carry: `lwe_per_glwe` to a GLWE
/// ciphertext, the last one with fewer.
pub fn compress(
    key: &PackingKey<u64>,
    set: &'static CompressionSet,
    ciphertexts: &LweList<u64>,
    scratch: &mut Scratch<u64>,
) -> Result<CompressedList, ShapeError> {
    ShapeError::check(
        "words of a packed ciphertext",
        set.packing_dimension() + set.packing_polynomial_size,
        key.glwe_words(),
    )?;
    ShapeError::check("dimension of the ciphertexts to pack", key.input_dimension(), ciphertexts.dimension())?;
    let mut list = CompressedList::empty(set);
    let mut glwe = vec![0; key.glwe_words()];
    for ciphertexts in ciphertexts.words().chunks(set.lwe_per_glwe * (ciphertexts.dimension() + 1)) {
        pack(key, ciphertexts, &mut glwe, scratch)?;
        list.push(&glwe, ciphertexts.len() / (key.input_dimension() + 1));
    }
    Ok(list)
}
