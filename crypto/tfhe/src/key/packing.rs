//! The key that packs LWE ciphertexts into a GLWE ciphertext.

use cloakwork_math::{
    Torus,
    key_product::KeyMatrix,
    random::{MaskSeed, MaskStream},
    threads::Team,
};
use cloakwork_params::Decomposition;

use super::{DIMENSION_MAX, GLWE_DIMENSION_MAX, ShapeError, check_gadget};

/// GLWE encryptions, under a packing key, of every bit of an input key times every gadget weight.
///
/// Bodies are in the order input bit, level (the smallest, q/B^l, first), coefficient. The mask
/// stream follows the same order, with k polynomials per body.
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

    /// Length of the key of the input ciphertexts.
    pub fn input_dimension(&self) -> usize {
        self.input_dimension
    }

    /// GLWE dimension k of the packed ciphertexts.
    pub fn glwe_dimension(&self) -> usize {
        self.glwe_dimension
    }

    /// Polynomial size N of the packed ciphertexts.
    pub fn polynomial_size(&self) -> usize {
        self.polynomial_size
    }

    /// Key-switching gadget.
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

/// A packing key as a matrix. Each input bit and level has a row, a GLWE ciphertext.
pub struct PackingKey<T> {
    polynomial_size: usize,
    matrix: KeyMatrix<T>,
}

impl<T: Torus> PackingKey<T> {
    /// Expands the masks on `threads` threads.
    pub fn expand(seeded: &SeededPackingKey<T>, threads: usize) -> Self {
        let (size, mask_words) = (seeded.polynomial_size, seeded.glwe_dimension * seeded.polynomial_size);
        let mut matrix = KeyMatrix::new(seeded.gadget, seeded.input_dimension, mask_words + size, T::BITS);
        Team::new(threads).for_each_part(1, &mut matrix.blocks_mut(), |_, blocks| {
            for block in blocks {
                let mut masks = MaskStream::at(&seeded.seed, (block.first_row() * mask_words * size_of::<T>()) as u128);
                block.fill(|index, row| {
                    let (mask_out, body_out) = row.split_at_mut(mask_words);
                    masks.fill(T::BITS, mask_out);
                    body_out.copy_from_slice(&seeded.bodies[index * size..][..size]);
                });
            }
        });
        Self { polynomial_size: size, matrix }
    }

    /// Length of the key of the input ciphertexts.
    pub fn input_dimension(&self) -> usize {
        self.matrix.inputs()
    }

    /// Polynomial size N of the packed ciphertexts.
    pub fn polynomial_size(&self) -> usize {
        self.polynomial_size
    }

    /// Number of words of a packed ciphertext.
    pub fn glwe_words(&self) -> usize {
        self.matrix.columns()
    }

    /// Key-switching gadget.
    pub fn gadget(&self) -> Decomposition {
        self.matrix.gadget()
    }

    /// The matrix.
    pub fn matrix(&self) -> &KeyMatrix<T> {
        &self.matrix
    }
}
