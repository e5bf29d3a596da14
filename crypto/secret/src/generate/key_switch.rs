//! Key-switch keys from the big key to the small key, in either order of the bootstrap.

use cloakwork_math::{Torus, random::MaskStream};
use cloakwork_tfhe::SeededKeySwitchKey;

use super::KeyGenerator;
use crate::{Randomness, SecretError, parallel};

/// Number of input bits that a thread takes at a time.
const BITS_AT_ONCE: usize = 64;

impl KeyGenerator<'_> {
    /// Generates the seeded key-switch key. `S` is the word of the set's small modulus.
    pub fn key_switch_key<S: Torus>(&self, randomness: &mut Randomness) -> Result<SeededKeySwitchKey<S>, SecretError> {
        let modulus_log2 = self.set.small_modulus_log2;
        let expected = self.set.small_word_bits();
        if S::BITS != expected {
            let what = "the key-switch key";
            return Err(SecretError::WrongWord { what, set: self.set.name, expected, got: S::BITS });
        }
        let (small, big, gadget) = (self.small, self.client.big().flattened(), self.set.key_switch);
        let seed = randomness.mask_seed()?;
        let mut bodies = vec![S::default(); big.dimension() * gadget.levels];
        let row_bytes = small.dimension() * MaskStream::bytes_per_word(modulus_log2);
        parallel::for_each(
            self.threads,
            BITS_AT_ONCE * gadget.levels,
            &mut bodies,
            randomness.secret(),
            || vec![S::default(); small.dimension()],
            |mask, index, bodies, rng| {
                let first_bit = index * BITS_AT_ONCE;
                let mut masks = MaskStream::at(&seed, (first_bit * gadget.levels) as u128 * row_bytes as u128);
                rng.add_noise(self.set.lwe_noise, modulus_log2, bodies);
                for (&bit, bodies) in big.bits()[first_bit..].iter().zip(bodies.chunks_exact_mut(gadget.levels)) {
                    // The smallest weight, q/B^levels, comes first.
                    for (body, level) in bodies.iter_mut().zip((1..=gadget.levels as u32).rev()) {
                        masks.fill(modulus_log2, mask);
                        let weight = S::from_u64(u64::from(bit) << (S::BITS - gadget.base_log * level));
                        *body = body.wrapping_add(small.product(mask)).wrapping_add(weight);
                    }
                }
                (self.report)(size_of_val(bodies) as u64);
            },
        );
        Ok(SeededKeySwitchKey::new(big.dimension(), small.dimension(), gadget, modulus_log2, seed, bodies)?)
    }
}
