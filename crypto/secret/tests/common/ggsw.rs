//! Comparison of GGSW ciphertexts with their definition.

use cloakwork_math::Torus;
use cloakwork_params::ParameterSet;
use cloakwork_secret::ClientKey;
use cloakwork_tfhe::SeededBootstrapKey;

use super::{Errors, assert_near, glwe_phase, masks, noise_limit, words};

/// Checks that every row encrypts its selector times weight times secret polynomial, and that all
/// rows together have the noise of the big key.
///
/// The library computes the phases. The schoolbook product checks those of every `step`-th
/// ciphertext.
pub(crate) fn check_ggsws<T: Torus>(
    set: &ParameterSet,
    client: &ClientKey,
    selectors: &[u8],
    key: &SeededBootstrapKey<T>,
    step: usize,
) {
    let shape = key.shape();
    let (size, k, bits) = (shape.polynomial_size, shape.glwe_dimension, client.big().bits());
    assert_eq!(selectors.len(), key.ggsw_count());
    let masks = masks::<T>(key.seed(), T::BITS, key.bodies().len() * k);
    let limit = noise_limit::<T>(set.glwe_noise, T::BITS);
    let mut errors = Errors::new(T::BITS);
    let ggsws = masks.chunks(shape.rows() * k * size).zip(key.bodies().chunks(shape.body_words()));
    for (ggsw, ((masks, bodies), &selector)) in ggsws.zip(selectors).enumerate() {
        let rows = || masks.chunks(k * size).zip(bodies.chunks(size));
        let ciphertexts: Vec<T> = rows().flat_map(|(mask, body)| mask.iter().chain(body).copied()).collect();
        let phases = client.big().phases(&ciphertexts).unwrap();
        for (place, ((mask, body), phase)) in rows().zip(phases.chunks(size)).enumerate() {
            let (level, row) = ((shape.gadget.levels - place / (k + 1)) as u32, place % (k + 1));
            let weight = T::from_u64(u64::from(selector) << (T::BITS - shape.gadget.base_log * level));
            let mut expected = vec![T::default(); size];
            if row < k {
                for (word, secret) in expected.iter_mut().zip(words::<T>(&bits[row * size..][..size])) {
                    *word = weight.wrapping_mul(secret).wrapping_neg();
                }
            } else {
                expected[0] = weight;
            }
            if ggsw % step == 0 {
                assert!(glwe_phase(bits, size, mask, body) == phase, "{}: {ggsw}, {place}", set.name);
            }
            for (index, (phase, expected)) in phase.iter().zip(&expected).enumerate() {
                assert_near(*phase, *expected, limit, &(set.name, ggsw, level, row, index));
            }
            errors.extend(phase, &expected);
        }
    }
    errors.assert_follow(set.glwe_noise, shape.body_words(), set.name);
}
