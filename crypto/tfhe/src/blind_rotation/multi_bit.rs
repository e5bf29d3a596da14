//! A group of g secret bits a step: the 2^g GGSW ciphertexts of the group, each rotated by the exponent
//! that its subset of bits would cause, add up to one that encrypts the right rotation.
//!
//! The sum is taken in the standard domain, where a rotation is exact and costs no multiplication.

use cloakwork_math::{Torus, polynomial, simd::Level};

use super::{Scratch, load_lut};
use crate::{BootstrapKey, modulus_switch::{switch_subset, switch_word}};

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
    for ((ciphertext, lut), accumulator) in lanes.zip(accumulators.chunks_exact_mut(shape.glwe_words())) {
        load_lut(lut, switch_word(ciphertext[words - 1], modulus_log2), accumulator);
    }
    for (step, group) in ggsws.chunks_exact(shape.words() << key.grouping()).enumerate() {
        let lanes = ciphertexts.chunks_exact(words).zip(accumulators.chunks_exact_mut(shape.glwe_words()));
        for (ciphertext, accumulator) in lanes {
            let mask = &ciphertext[step * key.grouping()..][..key.grouping()];
            // Subset 0, no bit set, rotates by nothing.
            let (first, rest) = group.split_at(shape.words());
            scratch.bundle.copy_from_slice(first);
            for (subset, ggsw) in (1..).zip(rest.chunks_exact(shape.words())) {
                let exponent = switch_subset(mask, subset, modulus_log2);
                let size = shape.polynomial_size;
                polynomial::add_rotated(level, size, ggsw, exponent as usize, &mut scratch.bundle);
            }
            key.product().transform(&scratch.bundle, &mut scratch.spectrum, &mut scratch.product);
            key.product().replace(&scratch.spectrum, accumulator, &mut scratch.product);
        }
    }
}
