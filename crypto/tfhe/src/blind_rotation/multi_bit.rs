//! A group of g secret bits a step: the 2^g GGSW ciphertexts of the group, each rotated by the exponent
//! that its subset of bits would cause, add up to one that encrypts the right rotation.
//!
//! The sum is taken in the standard domain, where a rotation is exact and costs no multiplication.

use cloakwork_math::{Torus, polynomial, simd::Level};

use super::{Scratch, load_lut};
use crate::{
    BootstrapKey,
    key::GROUPING_MAX,
    modulus_switch::{switch_subset, switch_word},
};

pub(super) fn rotate<T: Torus, S: Torus>(
    key: &BootstrapKey<T>,
    ggsws: &[T],
    ciphertexts: &[S],
    luts: &[&[T]],
    accumulators: &mut [T],
    scratch: &mut Scratch<T>,
) {
    let shape = key.shape();
    let level = Level::detect();
    let modulus_log2 = shape.polynomial_size.trailing_zeros() + 1;
    let words = key.input_dimension() + 1;
    let lanes = ciphertexts.chunks_exact(words).zip(luts);
    for ((ciphertext, lut), accumulator) in lanes.zip(accumulators.chunks_exact_mut(shape.accumulator_words::<T>())) {
        load_lut(shape.glwe_dimension, lut, switch_word(ciphertext[words - 1], modulus_log2), accumulator);
    }
    let subsets = 1 << key.grouping();
    let group_words = shape.words() * subsets;
    for step in 0..ggsws.len() / group_words {
        let (group, behind) = ggsws[step * group_words..].split_at(group_words);
        // A sum fetches a polynomial ahead, and thereby the first one of the next group.
        let second =
            behind.get(shape.polynomial_size..).and_then(|words| words.get(..shape.words())).unwrap_or_default();
        let lanes = ciphertexts.chunks_exact(words).zip(accumulators.chunks_exact_mut(shape.accumulator_words::<T>()));
        for (ciphertext, accumulator) in lanes {
            let mask = &ciphertext[step * key.grouping()..][..key.grouping()];
            let mut exponents = [0; 1 << GROUPING_MAX];
            for (subset, exponent) in exponents[..subsets].iter_mut().enumerate() {
                *exponent = switch_subset(mask, subset, modulus_log2) as usize;
            }
            sum_group(level, shape.polynomial_size, group, behind, &exponents[..subsets], &mut scratch.bundle);
            key.product().transform(&scratch.bundle, &mut scratch.spectrum, &mut scratch.product);
            key.product().replace(&scratch.spectrum, second, accumulator, &mut scratch.product);
        }
    }
}

/// The sum of a group's GGSW ciphertexts, each rotated by its exponent, polynomial by polynomial. The group streams by in
/// the order in which it lies in memory; `behind` it comes what is read next.
fn sum_group<T: Torus>(level: Level, size: usize, group: &[T], behind: &[T], exponents: &[usize], bundle: &mut [T]) {
    let next = |at: usize| group.get(at..at + size).or(behind.get(..size)).unwrap_or_default();
    for (index, sum) in bundle.chunks_exact_mut(size).enumerate() {
        let first = index * exponents.len() * size;
        // Subset 0, no bit set, rotates by nothing.
        sum.copy_from_slice(&group[first..][..size]);
        for (subset, exponent) in exponents.iter().enumerate().skip(1) {
            let at = first + subset * size;
            polynomial::add_rotated(level, size, &group[at..][..size], next(at + size), *exponent, sum);
        }
    }
}
