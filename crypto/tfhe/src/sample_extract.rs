//! Sample extraction: one coefficient of a GLWE ciphertext becomes an LWE ciphertext under the
//! flattened key.

use cloakwork_math::Torus;

/// Extracts the coefficient of `X^index` from a ciphertext's polynomials, masks first. `output` has
/// k N + 1 words. Exact.
pub fn sample_extract<'a, T: Torus>(
    mut polynomials: impl Iterator<Item = &'a [T]>,
    polynomial_size: usize,
    index: usize,
    output: &mut [T],
) {
    let (body, mask) = output.split_last_mut().expect("a ciphertext has a body");
    for (out, polynomial) in mask.chunks_exact_mut(polynomial_size).zip(&mut polynomials) {
        // Coefficient `index` of a * s has the factor a_{index-i} for s_i, or -a_{N+index-i} where
        // it wraps.
        let (same, wrapped) = out.split_at_mut(index + 1);
        for (out, word) in same.iter_mut().zip(polynomial[..=index].iter().rev()) {
            *out = *word;
        }
        for (out, word) in wrapped.iter_mut().zip(polynomial[index + 1..].iter().rev()) {
            *out = word.wrapping_neg();
        }
    }
    *body = polynomials.next().expect("the body comes after the masks")[index];
}
