//! Encryption with a public key.

use cloakwork_math::Torus;
use cloakwork_params::ParameterSet;
use cloakwork_tfhe::{CompactList, CompactPublicKey, ShapeError};
use zeroize::Zeroizing;

use crate::{
    GlweSecretKey, Randomness, SecretError, encode, encrypt::input_noise, exact_product::ExactProduct, key::check_word,
};

/// Encrypts messages of a set (0 and 1 in boolean sets) with a public key. Up to n messages share
/// one mask.
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
    // Fresh bytes are mixed in explicitly, since no mask seed is drawn: masks are computed from
    // secrets.
    let rng = randomness.renewed_secret()?;
    rng.add_noise(input_noise(set), T::BITS, &mut bodies);
    rng.add_noise(input_noise(set), T::BITS, &mut masks);
    let public_mask = public.mask();
    for (mask, bodies) in masks.chunks_exact_mut(dimension).zip(bodies.chunks_mut(dimension)) {
        // Each mask has a fresh secret. Its bits are uniform, so their order makes no difference.
        let once = GlweSecretKey::generate(1, dimension, rng)?;
        let product = ExactProduct::new::<T>(&once);
        let mut scratch = product.scratch();
        product.add_product(&public_mask, mask, &mut scratch);
        // The product of the public body and the secret reveals the messages, so it is wiped.
        let mut blinding = Zeroizing::new(vec![T::default(); dimension]);
        product.add_product(public.body(), &mut blinding, &mut scratch);
        // Ciphertext j has the mask times X^j. The product of this mask and the key is coefficient
        // n-1-j of the whole product.
        for (body, blinding) in bodies.iter_mut().zip(blinding.iter().rev()) {
            *body = body.wrapping_add(*blinding);
        }
    }
    Ok(CompactList::new(dimension, masks, bodies)?)
}
