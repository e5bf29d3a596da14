//! Bodies and a seed: the half of a key that cannot be expanded from public randomness.

use cloakwork_math::{GgswShape, Torus, random::MaskSeed};
use cloakwork_params::Decomposition;

use super::ShapeError;

/// GGSW encryptions of secret bits (or of products of a group's bits) under the big key.
///
/// Bodies lie as ciphertext, then level (the smallest, q/B^l, first), then row (k mask rows, then the body
/// row), then coefficient. The mask stream runs through the same order, k polynomials a row.
#[derive(Clone, Debug, PartialEq)]
pub struct SeededBootstrapKey<T> {
    shape: GgswShape,
    seed: MaskSeed,
    bodies: Vec<T>,
}

impl<T: Torus> SeededBootstrapKey<T> {
    /// Checks that the bodies are whole GGSW ciphertexts.
    pub fn new(shape: GgswShape, ggsw_count: usize, seed: MaskSeed, bodies: Vec<T>) -> Result<Self, ShapeError> {
        let GgswShape { glwe_dimension, polynomial_size, gadget } = shape;
        ShapeError::check_positive("levels of a gadget (at least)", gadget.levels)?;
        ShapeError::check_positive("coefficients of a polynomial (at least)", polynomial_size)?;
        let factors = [ggsw_count, gadget.levels, glwe_dimension.saturating_add(1), polynomial_size];
        ShapeError::check_product("body words of a bootstrap key", &factors, bodies.len())?;
        Ok(Self { shape, seed, bodies })
    }

    /// Shape of each GGSW ciphertext.
    pub fn shape(&self) -> GgswShape {
        self.shape
    }

    /// Number of GGSW ciphertexts.
    pub fn ggsw_count(&self) -> usize {
        self.bodies.len() / self.shape.body_words()
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

/// LWE encryptions, under an output key, of every bit of an input key times every gadget weight.
///
/// Bodies lie as input bit, then level (the smallest, q/B^l, first). The mask stream runs through the same
/// order, `output_dimension` words a body; a modulus below the word's own takes ceil(log2/8) bytes a word.
#[derive(Clone, Debug, PartialEq)]
pub struct SeededKeySwitchKey<S> {
    input_dimension: usize,
    output_dimension: usize,
    gadget: Decomposition,
    modulus_log2: u32,
    seed: MaskSeed,
    bodies: Vec<S>,
}

impl<S: Torus> SeededKeySwitchKey<S> {
    /// Checks that there is one body for each input bit and level.
    pub fn new(
        input_dimension: usize,
        output_dimension: usize,
        gadget: Decomposition,
        modulus_log2: u32,
        seed: MaskSeed,
        bodies: Vec<S>,
    ) -> Result<Self, ShapeError> {
        ShapeError::check_positive("levels of a gadget (at least)", gadget.levels)?;
        ShapeError::check_product("bodies of a key-switch key", &[input_dimension, gadget.levels], bodies.len())?;
        if modulus_log2 == 0 || modulus_log2 > S::BITS {
            return Err(ShapeError {
                what: "log2 of the modulus (at most)",
                expected: S::BITS as usize,
                got: modulus_log2 as usize,
            });
        }
        Ok(Self { input_dimension, output_dimension, gadget, modulus_log2, seed, bodies })
    }

    /// Length of the key that ciphertexts come in under.
    pub fn input_dimension(&self) -> usize {
        self.input_dimension
    }

    /// Length of the key that ciphertexts go out under.
    pub fn output_dimension(&self) -> usize {
        self.output_dimension
    }

    /// Gadget.
    pub fn gadget(&self) -> Decomposition {
        self.gadget
    }

    /// log2 of the output modulus, kept in the top bits of the word.
    pub fn modulus_log2(&self) -> u32 {
        self.modulus_log2
    }

    /// Seed of the masks.
    pub fn seed(&self) -> &MaskSeed {
        &self.seed
    }

    /// All bodies.
    pub fn bodies(&self) -> &[S] {
        &self.bodies
    }
}
