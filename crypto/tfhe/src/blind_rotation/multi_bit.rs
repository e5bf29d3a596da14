//! A group of g secret bits a step: the 2^g GGSW ciphertexts of the group, each rotated by the exponent
//! that its subset of bits would cause, add up to one that encrypts the right rotation.
//!
//! The sum is taken in the standard domain, where a rotation is exact and costs no multiplication.

use cloakwork_math::{GgswShape, Torus, polynomial, simd::Level};

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
    for (step, group) in ggsws.chunks_exact(shape.words() * subsets).enumerate() {
        let lanes = ciphertexts.chunks_exact(words).zip(accumulators.chunks_exact_mut(shape.accumulator_words::<T>()));
        for (ciphertext, accumulator) in lanes {
            let mask = &ciphertext[step * key.grouping()..][..key.grouping()];
            let mut exponents = [0; 1 << GROUPING_MAX];
            for (subset, exponent) in exponents[..subsets].iter_mut().enumerate() {
                *exponent = switch_subset(mask, subset, modulus_log2) as usize;
            }
            sum_group(level, shape, group, &exponents[..subsets], &mut scratch.bundle);
            key.product().transform(&scratch.bundle, &mut scratch.spectrum, &mut scratch.product);
            key.product().replace(&scratch.spectrum, accumulator, &mut scratch.product);
        }
    }
}

/// The sum of a group's GGSW ciphertexts, each rotated by its exponent. The group streams by in the order in
/// which it lies in memory; visiting it polynomial by polynomial, to keep the sum nearer, is slower.
fn sum_group<T: Torus>(level: Level, shape: GgswShape, group: &[T], exponents: &[usize], bundle: &mut [T]) {
    let mut ggsws = group.chunks_exact(shape.words()).zip(exponents);
    if let Some((first, _)) = ggsws.next() {
        // Subset 0, no bit set, rotates by nothing.
        bundle.copy_from_slice(first);
    }
    for (ggsw, exponent) in ggsws {
        polynomial::add_rotated(level, shape.polynomial_size, ggsw, *exponent, bundle);
    }
}
