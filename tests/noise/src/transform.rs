//! The external product compared with exact arithmetic.

use cloakwork_math::{
    ExternalProduct, GgswShape, Torus,
    external_product::{Scratch, accumulator},
    random::SecretRng,
    simd::Level,
};
use cloakwork_secret::GlweSecretKey;

use crate::keys::{fraction, uniform};

/// Mean squares of the error of one external product, as fractions of the torus squared.
#[derive(Clone, Copy, Debug)]
pub struct ProductError {
    /// Mean square of one coefficient of the result.
    pub coefficient: f64,
    /// Mean square of the phase under a binary key, divided by 1 + the number of ones in the key.
    /// For white error it would equal `coefficient`. The error is not white: the lowest frequency
    /// passes through the fewest roundings, and a key of zeros and ones is most sensitive to that
    /// frequency.
    pub phase: f64,
}

/// Measures the error of the step `glwe += ggsw * (X^r glwe - glwe)` if `classical`, of
/// `glwe = ggsw * glwe` otherwise.
///
/// GGSW and GLWE ciphertext are uniform words, as in a blind rotation.
pub fn product_error<T: Torus>(
    shape: GgswShape,
    level: Level,
    classical: bool,
    products: usize,
    seed: u64,
) -> ProductError {
    let kernel = ExternalProduct::<T>::with_level(shape, level);
    let mut scratch = kernel.scratch();
    let mut spectrum = vec![0.0; kernel.spectrum_len()];
    let mut rng = SecretRng::insecure_for_tests(seed);
    let (mut coefficient, mut phase) = (0.0, 0.0);
    for _ in 0..products {
        let ggsw: Vec<T> = uniform(&mut rng, T::BITS, shape.words());
        let glwe: Vec<T> = uniform(&mut rng, T::BITS, shape.glwe_words());
        kernel.transform(&ggsw, &mut spectrum, &mut scratch);
        let rotation = classical.then(|| rng.word() as u32 % (2 * shape.polynomial_size) as u32);
        let mut result = glwe.clone();
        step(&kernel, &spectrum, &mut result, rotation, &mut scratch);
        let expected = exact_step(shape, &ggsw, &glwe, rotation);
        let errors: Vec<T> = result.iter().zip(&expected).map(|(got, exact)| got.wrapping_sub(*exact)).collect();
        coefficient += mean_square(&errors);
        let key = GlweSecretKey::generate(shape.glwe_dimension, shape.polynomial_size, &mut rng)
            .expect("a shape of the table");
        let ones = key.bits().iter().filter(|bit| **bit == 1).count();
        phase += mean_square(&key.phases(&errors).expect("ciphertexts of the key's shape")) / (1 + ones) as f64;
    }
    ProductError { coefficient: coefficient / products as f64, phase: phase / products as f64 }
}

/// Unit of the error: the variance of the exact product before its reduction, times (2^-53)^2.
pub fn magnitude(shape: GgswShape) -> f64 {
    let base = f64::from(shape.gadget.base_log).exp2();
    let unit = f64::EPSILON / 2.0;
    (shape.rows() * shape.polynomial_size) as f64 * (base * base + 2.0) / 144.0 * unit * unit
}

fn mean_square<T: Torus>(words: &[T]) -> f64 {
    words.iter().map(|word| fraction(*word).powi(2)).sum::<f64>() / words.len() as f64
}

/// Computes `glwe += ggsw * (X^rotation glwe - glwe)`, or `glwe = ggsw * glwe` without a rotation.
fn step<T: Torus>(
    kernel: &ExternalProduct<T>,
    spectrum: &[f64],
    glwe: &mut [T],
    rotation: Option<u32>,
    scratch: &mut Scratch,
) {
    let (shape, size) = (kernel.shape(), kernel.shape().polynomial_size);
    let mut loaded = vec![T::default(); shape.accumulator_words::<T>()];
    accumulator::set(size, &mut loaded, |index, to| to.copy_from_slice(&glwe[index * size..][..size]));
    match rotation {
        Some(rotation) => kernel.rotate_accumulate(spectrum, &[], &mut loaded, &[rotation], scratch),
        None => kernel.replace(spectrum, &[], &mut loaded, scratch),
    }
    for (polynomial, to) in accumulator::polynomials(size, &loaded).zip(glwe.chunks_exact_mut(size)) {
        to.copy_from_slice(polynomial);
    }
}

/// The exact result of [`step`], with digits cut as the kernel cuts them.
///
/// The function multiplies with the kernel itself, by 8 bits of the key at a time. Those products
/// are integers that a double holds. So the kernel's error is far below the distance between them,
/// and rounding removes it.
fn exact_step<T: Torus>(shape: GgswShape, ggsw: &[T], glwe: &[T], rotation: Option<u32>) -> Vec<T> {
    // Narrow words go to the top of wide words, where the gadget cuts the same digits.
    let lift = 64 - T::BITS;
    let kernel = ExternalProduct::<u64>::new(shape);
    let mut scratch = kernel.scratch();
    let mut spectrum = vec![0.0; kernel.spectrum_len()];
    let lifted: Vec<u64> = glwe.iter().map(|word| word.to_u64() << lift).collect();
    let mut sum: Vec<u64> = glwe.iter().map(|word| if rotation.is_some() { word.to_u64() } else { 0 }).collect();
    for piece in (0..T::BITS).step_by(PIECE_BITS as usize) {
        let mask = (1 << PIECE_BITS) - 1;
        let words: Vec<u64> = ggsw.iter().map(|word| ((word.to_u64() >> piece) & mask) << GUARD_BITS).collect();
        kernel.transform(&words, &mut spectrum, &mut scratch);
        let mut product = lifted.clone();
        step(&kernel, &spectrum, &mut product, rotation, &mut scratch);
        for ((sum, product), before) in sum.iter_mut().zip(product).zip(&lifted) {
            let product = if rotation.is_some() { product.wrapping_sub(*before) } else { product };
            let whole = (product as i64).wrapping_add(1 << (GUARD_BITS - 1)) >> GUARD_BITS;
            *sum = sum.wrapping_add((whole as u64) << piece);
        }
    }
    sum.into_iter().map(T::from_u64).collect()
}

const PIECE_BITS: u32 = 8;
/// Room for the error of a piece's product, and for words that come out in steps of 2^-52 of the
/// torus. Together, both stay below half of 2^14.
const GUARD_BITS: u32 = 14;

#[cfg(test)]
mod tests {
    use cloakwork_params::Decomposition;

    use super::*;

    #[test]
    fn the_exact_product_equals_the_definition() {
        for (base_log, levels, glwe_dimension) in [(23, 1, 1), (15, 2, 2), (7, 3, 1)] {
            let gadget = Decomposition { base_log, levels };
            let shape = GgswShape { glwe_dimension, polynomial_size: 64, gadget };
            let mut rng = SecretRng::insecure_for_tests(1);
            let ggsw: Vec<u64> = uniform(&mut rng, 64, shape.words());
            let glwe: Vec<u64> = uniform(&mut rng, 64, shape.glwe_words());
            assert_eq!(exact_step(shape, &ggsw, &glwe, None), by_definition(shape, &ggsw, &glwe));
            // A quarter turn of each polynomial, minus the polynomial.
            let quarter = |words: &[u64]| -> Vec<u64> {
                let (stays, wraps) = words.split_at(32);
                let turned = wraps.iter().map(|word| word.wrapping_neg()).chain(stays.iter().copied());
                turned.zip(words).map(|(turned, word)| turned.wrapping_sub(*word)).collect()
            };
            let turned: Vec<u64> = glwe.chunks_exact(64).flat_map(quarter).collect();
            let product = by_definition(shape, &ggsw, &turned);
            let expected: Vec<u64> = product.iter().zip(&glwe).map(|(sum, word)| sum.wrapping_add(*word)).collect();
            assert_eq!(exact_step(shape, &ggsw, &glwe, Some(32)), expected);
        }
    }

    fn by_definition(shape: GgswShape, ggsw: &[u64], glwe: &[u64]) -> Vec<u64> {
        let (size, Decomposition { base_log, levels }) = (shape.polynomial_size, shape.gadget);
        let mut result = vec![0_u64; glwe.len()];
        for (row, key) in ggsw.chunks_exact(shape.glwe_words()).enumerate() {
            // The first rows have the smallest weight.
            let (level, polynomial) = (row / shape.glwe_size(), row % shape.glwe_size());
            for (exponent, word) in glwe[polynomial * size..][..size].iter().enumerate() {
                let half = 1_u64 << (base_log - 1);
                let halves: u64 = (0..levels as u32).map(|level| half << (base_log * level)).sum();
                let rounded = ((word >> (63 - base_log * levels as u32)) + 1) >> 1;
                let field = (rounded.wrapping_add(halves) >> (base_log * level as u32)) & (2 * half - 1);
                let digit = field.wrapping_sub(half);
                for (key, result) in key.chunks_exact(size).zip(result.chunks_exact_mut(size)) {
                    for (index, key) in key.iter().enumerate() {
                        let (at, product) = ((index + exponent) % size, digit.wrapping_mul(*key));
                        let wraps = index + exponent >= size;
                        result[at] =
                            if wraps { result[at].wrapping_sub(product) } else { result[at].wrapping_add(product) };
                    }
                }
            }
        }
        result
    }

    #[test]
    fn products_of_32_bit_words_are_exact() {
        let shape =
            GgswShape { glwe_dimension: 2, polynomial_size: 1024, gadget: Decomposition { base_log: 10, levels: 2 } };
        assert_eq!(product_error::<u32>(shape, Level::detect(), true, 4, 3).coefficient, 0.0);
    }
}
