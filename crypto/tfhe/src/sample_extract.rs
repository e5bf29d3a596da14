//! Sample extraction: one coefficient of a GLWE ciphertext as an LWE ciphertext under the flattened key.

use cloakwork_math::Torus;

/// Extracts the coefficient of `X^index`. `output` has k N + 1 words. Exact.
pub fn sample_extract<T: Torus>(polynomial_size: usize, glwe: &[T], index: usize, output: &mut [T]) {
    let (body, mask) = output.split_last_mut().expect("a ciphertext has a body");
    let (masks_in, body_in) = glwe.split_at(mask.len());
    *body = body_in[index];
    for (out, polynomial) in mask.chunks_exact_mut(polynomial_size).zip(masks_in.chunks_exact(polynomial_size)) {
        // Coefficient `index` of a * s takes a_{index-i} for s_i, and -a_{N+index-i} where that wraps round.
        let (same, wrapped) = out.split_at_mut(index + 1);
        for (out, word) in same.iter_mut().zip(polynomial[..=index].iter().rev()) {
            *out = *word;
        }
        for (out, word) in wrapped.iter_mut().zip(polynomial[index + 1..].iter().rev()) {
            *out = word.wrapping_neg();
        }
    }
}
