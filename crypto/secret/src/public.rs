//! Encryption with a public key.

use cloakwork_math::Torus;
use cloakwork_params::ParameterSet;
use cloakwork_tfhe::{CompactList, CompactPublicKey, ShapeError};
use zeroize::Zeroizing;

use crate::{
    GlweSecretKey, Randomness, SecretError, encode, encrypt::input_noise, exact_product::ExactProduct, key::check_word,
};

/// Encrypts messages of a set (0 and 1 in boolean sets) with a public key: up to n of them under one mask.
pub fn encrypt_compact<T: Torus>(
    set: &ParameterSet,
    public: &CompactPublicKey<T>,
    messages: &[u64],
    randomness: &mut Randomness,
) -> Result<CompactList<T>, SecretError> {
    check_word::<T>(set)?;
    let (expected, got) = (set.input_dimension(), public.dimension());
    if expected != got {
        return Err(ShapeError { what: "dimension of the public key", expected, got }.into());
    }
    let dimension = public.dimension();
    let mut bodies: Vec<T> = encode::plaintexts(set, messages)?.to_vec();
    let mut masks = vec![T::default(); bodies.len().next_multiple_of(dimension)];
    // No seed is drawn here: masks are made of secrets.
    let rng = randomness.renewed_secret()?;
    rng.add_noise(input_noise(set), T::BITS, &mut bodies);
    rng.add_noise(input_noise(set), T::BITS, &mut masks);
    let public_mask = public.mask();
    for (mask, bodies) in masks.chunks_exact_mut(dimension).zip(bodies.chunks_mut(dimension)) {
        // A fresh secret for each mask. Its bits are uniform, so their order makes no difference.
        let once = GlweSecretKey::generate(1, dimension, rng)?;
        let product = ExactProduct::new::<T>(&once);
        let mut scratch = product.scratch();
        product.add_product(&public_mask, mask, &mut scratch);
        // Public body times a secret: whoever knows it knows the messages.
        let mut blinding = Zeroizing::new(vec![T::default(); dimension]);
        product.add_product(public.body(), &mut blinding, &mut scratch);
        // Ciphertext j has the mask times X^j, whose product with the key is coefficient n-1-j of the whole.
        for (body, blinding) in bodies.iter_mut().zip(blinding.iter().rev()) {
            *body = body.wrapping_add(*blinding);
        }
    }
    Ok(CompactList::new(dimension, masks, bodies)?)
}
