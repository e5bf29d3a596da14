//! Bootstrap keys: GGSW encryptions of the small key's bits, or of products of a group's bits.

use cloakwork_math::{
    Torus,
    random::{MaskSeed, MaskStream, SecretRng},
};
use cloakwork_params::Noise;
use cloakwork_tfhe::{GgswShape, SeededBootstrapKey};
use zeroize::Zeroizing;

use super::{KeyGenerator, Report};
use crate::{
    GlweSecretKey, Randomness, SecretError,
    exact_product::{ExactProduct, Scratch},
    key::check_word,
    parallel,
};

impl KeyGenerator<'_> {
    /// Generates the seeded bootstrap key, classical or multi-bit as the set says. `T` is the word
    /// of its ciphertexts.
    pub fn bootstrap_key<T: Torus>(&self, randomness: &mut Randomness) -> Result<SeededBootstrapKey<T>, SecretError> {
        check_word::<T>(self.set)?;
        let shape = GgswShape::of_set(self.set, self.set.bootstrap);
        let messages = messages(self.small.bits(), self.set.grouping);
        let (seed, bodies) =
            ggsw_list(&messages, shape, self.client.big(), self.set.glwe_noise, self.threads, self.report, randomness)?;
        Ok(SeededBootstrapKey::new(shape, messages.len(), seed, bodies)?)
    }
}

/// Messages of the GGSW ciphertexts of a bootstrap key.
///
/// A classical key has one secret bit each. With groups of g > 1 bits, each index below 2^g has a
/// product over the group's bits. Its factors are the secret bit where the index has a one, and the
/// bit's complement elsewhere. The group's first bit belongs to the index's top bit.
fn messages(bits: &[u8], grouping: usize) -> Zeroizing<Vec<u8>> {
    if grouping == 1 {
        return Zeroizing::new(bits.to_vec());
    }
    // Allocate the full length at once: a vector that grows would leave copies of secrets behind.
    let mut products = Zeroizing::new(Vec::with_capacity((bits.len() / grouping) << grouping));
    products.extend(bits.chunks_exact(grouping).flat_map(|group| {
        (0..1_usize << grouping).map(move |index| {
            let selected = |place: usize| (index >> (grouping - 1 - place)) as u8 & 1;
            group.iter().enumerate().fold(1, |product, (place, &bit)| product & (bit ^ selected(place) ^ 1))
        })
    }));
    products
}

/// Encrypts bits as GGSW ciphertexts. Returns the seed and the bodies.
pub(super) fn ggsw_list<T: Torus>(
    messages: &[u8],
    shape: GgswShape,
    key: &GlweSecretKey,
    noise: Noise,
    threads: usize,
    report: &Report<'_>,
    randomness: &mut Randomness,
) -> Result<(MaskSeed, Vec<T>), SecretError> {
    let seed = randomness.mask_seed()?;
    let mut bodies = vec![T::default(); messages.len() * shape.body_words()];
    let mask_bytes = (shape.rows() * key.bits().len()) as u128 * u128::from(T::BITS / 8);
    let product = ExactProduct::new::<T>(key);
    parallel::for_each(
        threads,
        shape.body_words(),
        &mut bodies,
        randomness.secret(),
        || (product.scratch(), vec![T::default(); key.bits().len()]),
        |(scratch, mask), index, bodies, rng| {
            let masks = MaskStream::at(&seed, index as u128 * mask_bytes);
            let row = Row { shape, key, noise, product: &product };
            row.fill(messages[index], masks, rng, bodies, mask, scratch);
            report(size_of_val(bodies) as u64);
        },
    );
    Ok((seed, bodies))
}

/// Inputs that the rows of one GGSW ciphertext share.
struct Row<'a> {
    shape: GgswShape,
    key: &'a GlweSecretKey,
    noise: Noise,
    product: &'a ExactProduct,
}

impl Row<'_> {
    /// Writes the bodies of an encryption of `message` over zeros.
    fn fill<T: Torus>(
        &self,
        message: u8,
        mut masks: MaskStream,
        rng: &mut SecretRng,
        bodies: &mut [T],
        mask: &mut [T],
        scratch: &mut Scratch,
    ) {
        let GgswShape { glwe_dimension, polynomial_size, gadget } = self.shape;
        rng.add_noise(self.noise, T::BITS, bodies);
        let matrices = bodies.chunks_exact_mut((glwe_dimension + 1) * polynomial_size);
        // The smallest weight, q/B^levels, comes first.
        for (matrix, level) in matrices.zip((1..=gadget.levels as u32).rev()) {
            let weight = T::from_u64(u64::from(message) << (T::BITS - gadget.base_log * level));
            for (row, body) in matrix.chunks_exact_mut(polynomial_size).enumerate() {
                masks.fill(T::BITS, mask);
                self.product.add_product(mask, body, scratch);
                if row == glwe_dimension {
                    body[0] = body[0].wrapping_add(weight);
                } else {
                    let secret = &self.key.bits()[row * polynomial_size..][..polynomial_size];
                    for (word, &bit) in body.iter_mut().zip(secret) {
                        *word = word.wrapping_sub(weight.wrapping_mul(T::from_u64(u64::from(bit))));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_of_products_of_secret_bits_is_never_reallocated() {
        for grouping in 1..=4 {
            let messages = messages(&[1, 0, 1].repeat(4 * 77), grouping);
            assert_eq!(messages.capacity(), messages.len(), "{grouping}");
        }
    }
}
