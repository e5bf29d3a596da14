//! The two keys of list compression: the packing key and the decompression key.

use cloakwork_math::{Torus, random::MaskStream};
use cloakwork_params::CompressionSet;
use cloakwork_tfhe::{GgswShape, SeededBootstrapKey, SeededDecompressionKey, SeededPackingKey};

use super::{KeyGenerator, bootstrap::ggsw_list};
use crate::{GlweSecretKey, Randomness, SecretError, exact_product::ExactProduct, key::check_word, parallel};

/// Number of input bits that a thread takes at a time.
const BITS_AT_ONCE: usize = 16;

impl KeyGenerator<'_> {
    /// Generates the seeded packing key, from the big key to the packing key.
    pub fn packing_key<T: Torus>(
        &self,
        compression: &CompressionSet,
        randomness: &mut Randomness,
    ) -> Result<SeededPackingKey<T>, SecretError> {
        let packing = self.packing::<T>(compression)?;
        let (big, gadget, size) = (self.client.big().flattened(), compression.packing, packing.polynomial_size());
        let product = ExactProduct::new::<T>(packing);
        let seed = randomness.mask_seed()?;
        let mask_words = packing.bits().len();
        let bit_words = gadget.levels * size;
        let mut bodies = vec![T::default(); big.dimension() * bit_words];
        parallel::for_each(
            self.threads,
            BITS_AT_ONCE * bit_words,
            &mut bodies,
            randomness.secret(),
            || (product.scratch(), vec![T::default(); mask_words]),
            |(scratch, mask), index, bodies, rng| {
                let first_bit = index * BITS_AT_ONCE;
                let first_byte = first_bit as u128 * (gadget.levels * mask_words * T::BITS as usize / 8) as u128;
                let mut masks = MaskStream::at(&seed, first_byte);
                rng.add_noise(compression.packing_noise, T::BITS, bodies);
                for (&bit, bodies) in big.bits()[first_bit..].iter().zip(bodies.chunks_exact_mut(bit_words)) {
                    // The smallest weight, q/B^levels, comes first.
                    for (body, level) in bodies.chunks_exact_mut(size).zip((1..=gadget.levels as u32).rev()) {
                        masks.fill(T::BITS, mask);
                        product.add_product(mask, body, scratch);
                        let weight = T::from_u64(u64::from(bit) << (T::BITS - gadget.base_log * level));
                        body[0] = body[0].wrapping_add(weight);
                    }
                }
                (self.report)(size_of_val(bodies) as u64);
            },
        );
        Ok(SeededPackingKey::new(big.dimension(), packing.glwe_dimension(), size, gadget, seed, bodies)?)
    }

    /// Generates the seeded decompression key: a classical bootstrap key from the packing key to
    /// the big key.
    pub fn decompression_key(
        &self,
        compression: &CompressionSet,
        randomness: &mut Randomness,
    ) -> Result<SeededDecompressionKey, SecretError> {
        let messages = self.packing::<u64>(compression)?.bits();
        let shape = GgswShape::of_set(self.set, compression.bootstrap);
        let (seed, bodies) =
            ggsw_list(messages, shape, self.client.big(), self.set.glwe_noise, self.threads, self.report, randomness)?;
        Ok(SeededDecompressionKey(SeededBootstrapKey::new(shape, messages.len(), seed, bodies)?))
    }

    fn packing<T: Torus>(&self, compression: &CompressionSet) -> Result<&GlweSecretKey, SecretError> {
        check_word::<T>(self.set)?;
        if !compression.parameter_sets.contains(&self.set.id) {
            return Err(SecretError::Unsupported { set: self.set.name, what: compression.name });
        }
        self.client.packing(compression)
    }
}
