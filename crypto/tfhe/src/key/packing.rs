//! The key that packs LWE ciphertexts into a GLWE ciphertext.

use cloakwork_math::{
    Torus,
    random::{MaskSeed, MaskStream},
};
use cloakwork_params::Decomposition;

use super::{DIMENSION_MAX, GLWE_DIMENSION_MAX, ShapeError, check_gadget};
use crate::threads::for_each_part;

/// GLWE encryptions, under a packing key, of every bit of an input key times every gadget weight.
///
/// Bodies lie as input bit, then level (the smallest, q/B^l, first), then coefficient. The mask stream runs
/// through the same order, k polynomials a body.
#[derive(Clone, Debug, PartialEq)]
pub struct SeededPackingKey<T> {
    input_dimension: usize,
    glwe_dimension: usize,
    polynomial_size: usize,
    gadget: Decomposition,
    seed: MaskSeed,
    bodies: Vec<T>,
}

impl<T: Torus> SeededPackingKey<T> {
    /// Checks that there is one body polynomial for each input bit and level.
    pub fn new(
        input_dimension: usize,
        glwe_dimension: usize,
        polynomial_size: usize,
        gadget: Decomposition,
        seed: MaskSeed,
        bodies: Vec<T>,
    ) -> Result<Self, ShapeError> {
        ShapeError::within("mask polynomials", 1..=GLWE_DIMENSION_MAX, glwe_dimension)?;
        ShapeError::within("polynomial size", 1..=DIMENSION_MAX, polynomial_size)?;
        check_gadget(gadget, T::BITS)?;
        let expected = input_dimension.saturating_mul(gadget.levels * polynomial_size);
        ShapeError::check("body words of a packing key", expected, bodies.len())?;
        Ok(Self { input_dimension, glwe_dimension, polynomial_size, gadget, seed, bodies })
    }

    /// Length of the key that ciphertexts come in under.
    pub fn input_dimension(&self) -> usize {
        self.input_dimension
    }

    /// k of the packed ciphertexts.
    pub fn glwe_dimension(&self) -> usize {
        self.glwe_dimension
    }

    /// N of the packed ciphertexts.
    pub fn polynomial_size(&self) -> usize {
        self.polynomial_size
    }

    /// Gadget.
    pub fn gadget(&self) -> Decomposition {
        self.gadget
    }

    /// Seed of the masks.
    pub fn seed(&self) -> &MaskSeed {
        &self.seed
    }

    /// All bodies.
    pub fn bodies(&self) -> &[T] {
        &self.bodies
    }
}

/// A packing key as a matrix: one row for each input bit and level, each a GLWE ciphertext.
pub struct PackingKey<T> {
    input_dimension: usize,
    glwe_dimension: usize,
    polynomial_size: usize,
    gadget: Decomposition,
    words: Vec<T>,
}

impl<T: Torus> PackingKey<T> {
    /// Expands the masks on `threads` threads.
    pub fn expand(seeded: &SeededPackingKey<T>, threads: usize) -> Self {
        let (size, mask_words) = (seeded.polynomial_size, seeded.glwe_dimension * seeded.polynomial_size);
        let row_words = mask_words + size;
        let mut words = vec![T::default(); seeded.input_dimension * seeded.gadget.levels * row_words];
        for_each_part(threads, row_words, &mut words, |first, rows| {
            let mut masks = MaskStream::at(&seeded.seed, (first * mask_words * size_of::<T>()) as u128);
            let bodies = seeded.bodies[first * size..].chunks_exact(size);
            for (row, body) in rows.chunks_exact_mut(row_words).zip(bodies) {
                let (mask_out, body_out) = row.split_at_mut(mask_words);
                masks.fill(T::BITS, mask_out);
                body_out.copy_from_slice(body);
            }
        });
        Self {
            input_dimension: seeded.input_dimension,
            glwe_dimension: seeded.glwe_dimension,
            polynomial_size: size,
            gadget: seeded.gadget,
            words,
        }
    }

    /// Length of the key that ciphertexts come in under.
    pub fn input_dimension(&self) -> usize {
        self.input_dimension
    }

    /// N of the packed ciphertexts.
    pub fn polynomial_size(&self) -> usize {
        self.polynomial_size
    }

    /// Words of a packed ciphertext.
    pub fn glwe_words(&self) -> usize {
        (self.glwe_dimension + 1) * self.polynomial_size
    }

    /// Gadget.
    pub fn gadget(&self) -> Decomposition {
        self.gadget
    }

    /// The matrix, row after row.
    pub fn words(&self) -> &[T] {
        &self.words
    }
}
