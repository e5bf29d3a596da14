//! Seeded keys: the bodies and a seed. Bodies depend on the secret key, so that no seed can replace
//! them.

use cloakwork_math::{ExternalProduct, GgswShape, Torus, random::MaskSeed};
use cloakwork_params::Decomposition;

use super::{DIMENSION_MAX, ShapeError, check_gadget};

/// GGSW encryptions, under the big key, of secret bits or of products of a group's bits.
///
/// Bodies are in the order ciphertext, level (the smallest, q/B^l, first), row (k mask rows, then
/// the body row), coefficient. The mask stream follows the same order, with k polynomials per row.
#[derive(Clone, Debug, PartialEq)]
pub struct SeededBootstrapKey<T> {
    shape: GgswShape,
    seed: MaskSeed,
    bodies: Vec<T>,
}

impl<T: Torus> SeededBootstrapKey<T> {
    /// Checks that a kernel supports the shape and that the bodies form whole GGSW ciphertexts.
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

/// The bootstrap key from the packing key to the big key. The separate type keeps the bootstrap key
/// of a server key from being used in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct SeededDecompressionKey(pub SeededBootstrapKey<u64>);

/// LWE encryptions, under an output key, of every bit of an input key times every gadget weight.
///
/// Bodies are in the order input bit, level (the smallest, q/B^l, first). The mask stream follows
/// the same order, with `output_dimension` words per body. A word of a modulus smaller than the
/// word's own takes ceil(log2/8) bytes of the stream.
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
    /// Checks that the gadget fits the word and that there is one body for each input bit and
    /// level.
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
        // The digits must also fit the input's word. The output word is the bound, since the key
        // switch refuses inputs with a narrower word.
        check_gadget(gadget, S::BITS)?;
        let expected = input_dimension.saturating_mul(gadget.levels);
        ShapeError::check("bodies of a key-switch key", expected, bodies.len())?;
        Ok(Self { input_dimension, output_dimension, gadget, modulus_log2, seed, bodies })
    }

    /// Length of the key of the input ciphertexts.
    pub fn input_dimension(&self) -> usize {
        self.input_dimension
    }

    /// Length of the key of the output ciphertexts.
    pub fn output_dimension(&self) -> usize {
        self.output_dimension
    }

    /// Key-switching gadget.
    pub fn gadget(&self) -> Decomposition {
        self.gadget
    }

    /// log2 of the output modulus. Values occupy the top bits of the word.
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
