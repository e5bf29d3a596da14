//! Compression of fresh ciphertexts into a list of a few bits each.

use cloakwork_params::{CompressionSet, Encoding, ParameterSet};

use super::{CompressedList, Scratch, check_set, pack};
use crate::{LutError, LweList, PackingKey, SeededPackingKey, packing::CompressionError};

/// The key that compresses.
pub struct CompressionKey {
    set: &'static CompressionSet,
    message_modulus: u64,
    packing: PackingKey<u64>,
}

impl CompressionKey {
    /// Expands a seeded key, for ciphertexts of `parameter_set`, on `threads` threads.
    pub fn expand(
        set: &'static CompressionSet,
        parameter_set: &ParameterSet,
        seeded: &SeededPackingKey<u64>,
        threads: usize,
    ) -> Result<Self, CompressionError> {
        check_set(set, parameter_set)?;
        let Encoding::Shortint { message_modulus, .. } = parameter_set.encoding else {
            return Err(LutError::NotIntegers { set: parameter_set.name }.into());
        };
        for (what, expected, got) in [
            ("input dimension of the packing key", parameter_set.big_dimension(), seeded.input_dimension()),
            ("mask polynomials of the packing key", set.packing_glwe_dimension, seeded.glwe_dimension()),
            ("coefficients of the packing key's polynomials", set.packing_polynomial_size, seeded.polynomial_size()),
            ("levels of the packing key", set.packing.levels, seeded.gadget().levels),
            ("base of the packing key", set.packing.base_log as usize, seeded.gadget().base_log as usize),
        ] {
            crate::ShapeError::check(what, expected, got)?;
        }
        Ok(Self { set, message_modulus, packing: PackingKey::expand(seeded, threads) })
    }

    /// The packing half.
    pub fn packing_key(&self) -> &PackingKey<u64> {
        &self.packing
    }

    /// Compresses ciphertexts that come out of a bootstrap and have empty carries. A packed
    /// ciphertext holds `lwe_per_glwe` of them, the last one the rest.
    pub fn compress(
        &self,
        ciphertexts: &LweList<u64>,
        scratch: &mut Scratch<u64>,
    ) -> Result<CompressedList, CompressionError> {
        let dimension = self.packing.input_dimension();
        crate::ShapeError::check("dimension of the ciphertexts to compress", dimension, ciphertexts.dimension())?;
        let mut list = CompressedList::empty(self.set);
        let mut glwe = vec![0; self.packing.glwe_words()];
        let mut raised = Vec::new();
        for ciphertexts in ciphertexts.words().chunks(self.set.lwe_per_glwe * (dimension + 1)) {
            // Move the message to the top of the carry, as far as possible from the rounding noise
            // of the storage modulus.
            raised.clear();
            raised.extend(ciphertexts.iter().map(|word| word.wrapping_mul(self.message_modulus)));
            pack(&self.packing, &raised, &mut glwe, scratch)?;
            list.push(&glwe, ciphertexts.len() / (dimension + 1));
        }
        Ok(list)
    }
}
