//! The external product against exact integer arithmetic.

use cloakwork_math::{ExternalProduct, GgswShape, Torus, external_product::FftProduct, polynomial, random::SecretRng};
use cloakwork_params::{Decomposition, ParameterSet};

/// The shape of a set's GGSW ciphertexts.
pub fn shape_of(set: &ParameterSet) -> GgswShape {
    GgswShape { glwe_dimension: set.glwe_dimension, polynomial_size: set.polynomial_size, gadget: set.bootstrap }
}

/// Mean square of the error on a coefficient of one external product, as a fraction of the torus squared.
///
/// Key and ciphertext are uniform words, as they are in a blind rotation. `classical` measures the step
/// `glwe += ggsw * (X^r glwe - glwe)`, otherwise `glwe = ggsw * glwe`. Of each of `products` results, `coefficients`
/// random ones are compared.
pub fn external_product_error<T: Torus>(
    shape: GgswShape,
    classical: bool,
    products: usize,
    coefficients: usize,
    seed: u64,
) -> f64 {
    let kernel = FftProduct::<T>::new(shape);
    let mut scratch = kernel.scratch();
    let mut spectrum = vec![0.0; kernel.spectrum_len()];
    let mut rng = SecretRng::insecure_for_tests(seed);
    let mut sum = 0.0;
    for _ in 0..products {
        let ggsw: Vec<T> = (0..shape.words()).map(|_| T::from_u64(rng.word())).collect();
        let glwe: Vec<T> = (0..shape.glwe_words()).map(|_| T::from_u64(rng.word())).collect();
        kernel.transform(&ggsw, &mut spectrum, &mut scratch);
        let mut result = glwe.clone();
        let multiplied = if classical {
            let rotation = rng.word() as usize % (2 * shape.polynomial_size);
            kernel.rotate_accumulate(&spectrum, &[], &mut result, &[rotation as u32], &mut scratch);
            difference(&glwe, rotation, shape.polynomial_size)
        } else {
            kernel.replace(&spectrum, &mut result, &mut scratch);
            glwe.clone()
        };
        let digits = digits(shape, &multiplied);
        for _ in 0..coefficients {
            let at = rng.word() as usize % shape.glwe_words();
            let mut expected = exact_coefficient(shape, &ggsw, &digits, at);
            if classical {
                expected = expected.wrapping_add(glwe[at]);
            }
            let error = result[at].wrapping_sub(expected).to_i64() as f64 * (-f64::from(T::BITS)).exp2();
            sum += error * error;
        }
    }
    sum / (products * coefficients) as f64
}

/// `X^rotation glwe - glwe`.
fn difference<T: Torus>(glwe: &[T], rotation: usize, size: usize) -> Vec<T> {
    let mut rotated = vec![T::default(); glwe.len()];
    for (from, to) in glwe.chunks_exact(size).zip(rotated.chunks_exact_mut(size)) {
        polynomial::rotate(from, rotation, to);
    }
    rotated.iter().zip(glwe).map(|(rotated, still)| rotated.wrapping_sub(*still)).collect()
}

/// Digits in key-row order: the smallest weight first, then polynomial by polynomial. Ties are cut as the kernel cuts
/// them, down.
fn digits<T: Torus>(shape: GgswShape, glwe: &[T]) -> Vec<i64> {
    let Decomposition { base_log, levels } = shape.gadget;
    let below = T::BITS - base_log * levels as u32;
    let half = 1_u64 << (base_log - 1);
    let halves = (0..levels as u32).fold(0, |sum, level| sum + (half << (base_log * level)));
    let shift = |level: usize| base_log * level as u32;
    let digit = |level: usize, word: &T| {
        let rounded = ((word.to_u64() >> (below - 1)) + 1) >> 1;
        let field = (rounded.wrapping_add(halves) >> shift(level)) & (2 * half - 1);
        field as i64 - half as i64
    };
    (0..levels).flat_map(|level| glwe.iter().map(move |word| digit(level, word))).collect()
}

/// One coefficient of the product, by its definition.
fn exact_coefficient<T: Torus>(shape: GgswShape, ggsw: &[T], digits: &[i64], at: usize) -> T {
    let size = shape.polynomial_size;
    let (column, at) = (at / size, at % size);
    let rows = ggsw.chunks_exact(shape.glwe_words()).zip(digits.chunks_exact(size));
    rows.fold(T::default(), |sum, (row, digits)| {
        let key = &row[column * size..][..size];
        let straight = digits[..=at].iter().zip(key[..=at].iter().rev());
        let wrapped = digits[at + 1..].iter().zip(key[at + 1..].iter().rev());
        let product = |(digit, key): (&i64, &T)| T::from_i64(*digit).wrapping_mul(*key);
        let straight = straight.fold(sum, |sum, pair| sum.wrapping_add(product(pair)));
        wrapped.fold(straight, |sum, pair| sum.wrapping_sub(product(pair)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (1 + 2X)(3 + 5X) = 3 + 11X + 10X^2 = -7 + 11X modulo X^2 + 1.
    #[test]
    fn the_exact_product_is_negacyclic() {
        let gadget = Decomposition { base_log: 8, levels: 1 };
        let shape = GgswShape { glwe_dimension: 1, polynomial_size: 2, gadget };
        // Row 0 holds 3 + 5X in column 0, all else is zero.
        let ggsw = [3_u64, 5, 0, 0, 0, 0, 0, 0];
        let digits = digits(shape, &[1_u64 << 56, 2 << 56, 0, 0]);
        assert_eq!(digits, [1, 2, 0, 0]);
        let product: Vec<i64> = (0..4).map(|at| exact_coefficient(shape, &ggsw, &digits, at) as i64).collect();
        assert_eq!(product, [-7, 11, 0, 0]);
    }

    #[test]
    fn digits_recompose_to_the_rounded_word() {
        let gadget = Decomposition { base_log: 5, levels: 3 };
        let shape = GgswShape { glwe_dimension: 1, polynomial_size: 64, gadget };
        let mut rng = SecretRng::insecure_for_tests(1);
        let words: Vec<u64> = (0..shape.glwe_words()).map(|_| rng.word()).collect();
        let digits = digits(shape, &words);
        assert!(digits.iter().all(|digit| (-16..16).contains(digit)));
        for (index, word) in words.iter().enumerate() {
            let level = |level: usize| digits[level * words.len() + index].wrapping_mul(1 << (49 + 5 * level)) as u64;
            let recomposed = level(0).wrapping_add(level(1)).wrapping_add(level(2));
            assert!((recomposed.wrapping_sub(*word) as i64).unsigned_abs() <= 1 << 48);
        }
    }
}
