//! Bodies and a seed: the half of a key that cannot be expanded from public randomness.

use cloakwork_math::{ExternalProduct, GgswShape, Torus, random::MaskSeed};
use cloakwork_params::Decomposition;

use super::{DIMENSION_MAX, ShapeError, check_gadget};

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
    /// Checks that the shape is one that can be computed with, and that the bodies are whole GGSW ciphertexts.
    pub fn new(shape: GgswShape, ggsw_count: usize, seed: MaskSeed, bodies: Vec<T>) -> Result<Self, ShapeError> {
        check_gadget(shape.gadget, T::BITS)?;
        let kernels = usize::from(ExternalProduct::<T>::supports(shape));
        ShapeError::check("kernels made for the k, N and gadget of a bootstrap key", 1, kernels)?;
        let expected = ggsw_count.saturating_mul(shape.body_words());
        ShapeError::check("body words of a bootstrap key", expected, bodies.len())?;
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

/// The bootstrap key from the packing key to the big key. Its own type, because no server key may take its place.
#[derive(Clone, Debug, PartialEq)]
pub struct SeededDecompressionKey(pub SeededBootstrapKey<u64>);

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
    /// Checks that the gadget fits the word and that there is one body for each input bit and level.
    pub fn new(
        input_dimension: usize,
        output_dimension: usize,
        gadget: Decomposition,
        modulus_log2: u32,
        seed: MaskSeed,
        bodies: Vec<S>,
    ) -> Result<Self, ShapeError> {
        ShapeError::within("length of the output key", 1..=DIMENSION_MAX, output_dimension)?;
        ShapeError::within("log2 of the modulus", 1..=S::BITS as usize, modulus_log2 as usize)?;
        // The digits must also fit the input's word: the key switch takes none that is narrower.
        check_gadget(gadget, S::BITS)?;
        let expected = input_dimension.saturating_mul(gadget.levels);
        ShapeError::check("bodies of a key-switch key", expected, bodies.len())?;
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
