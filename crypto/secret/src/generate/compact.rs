//! The compact public key: an encryption of zero with which anyone can encrypt.

use cloakwork_math::{Torus, random::MaskStream};
use cloakwork_tfhe::CompactPublicKey;

use super::KeyGenerator;
use crate::{
    GlweSecretKey, Randomness, SecretError, encrypt::input_noise, exact_product::ExactProduct, key::check_word,
};

impl KeyGenerator<'_> {
    /// Generates the compact public key. Only a set whose ciphertexts have a power of two as
    /// dimension has such a key.
    pub fn compact_public_key<T: Torus>(
        &self,
        randomness: &mut Randomness,
    ) -> Result<CompactPublicKey<T>, SecretError> {
        check_word::<T>(self.set)?;
        let secret = self.client.input_key(self.set)?;
        if !secret.dimension().is_power_of_two() {
            return Err(SecretError::Unsupported { set: self.set.name, what: "compact public key" });
        }
        let reversed = GlweSecretKey::reversed(secret.bits())?;
        let product = ExactProduct::new::<T>(&reversed);
        let seed = randomness.mask_seed()?;
        let mut mask = vec![T::default(); secret.dimension()];
        MaskStream::new(&seed).fill(T::BITS, &mut mask);
        let mut body = vec![T::default(); secret.dimension()];
        randomness.secret().add_noise(input_noise(self.set), T::BITS, &mut body);
        product.add_product(&mask, &mut body, &mut product.scratch());
        Ok(CompactPublicKey::new(seed, body)?)
    }
}
