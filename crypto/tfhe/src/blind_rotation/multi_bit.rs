//! Multi-bit blind rotation, a group of g secret bits per step. A group has 2^g GGSW ciphertexts,
//! one for each subset of its bits. Each is rotated by the exponent that its subset of bits would
//! cause, and their sum encrypts the right rotation.
//!
//! The sum is taken in the standard domain, where a rotation is exact and costs no multiplication.

use cloakwork_math::{GgswShape, Torus, polynomial, random::FastMasks, simd::Level};

use super::{Scratch, load_lut};
use crate::{
    BootstrapKey,
    key::{GROUPING_MAX, Groups},
    modulus_switch::{switch_subset, switch_word},
};

pub(super) fn rotate<T: Torus, S: Torus>(
    key: &BootstrapKey<T>,
    groups: &Groups<T>,
    ciphertexts: &[S],
    luts: &[&[T]],
    accumulators: &mut [T],
    scratch: &mut Scratch<T>,
) {
    let shape = key.shape();
    let modulus_log2 = shape.rotation_modulus_log2();
    let words = key.input_dimension() + 1;
    let lanes = ciphertexts.chunks_exact(words).zip(luts);
    for ((ciphertext, lut), accumulator) in lanes.zip(accumulators.chunks_exact_mut(shape.accumulator_words::<T>())) {
        load_lut(shape.glwe_dimension, lut, switch_word(ciphertext[words - 1], modulus_log2), accumulator);
    }
    let subsets = 1 << key.grouping();
    let group_words = shape.words() * subsets;
    // A tile of one ciphertext is bound by memory reads, so it computes the masks instead of
    // reading them. A larger tile reads each mask once for all of its ciphertexts.
    let computed = groups.masks.as_ref().filter(|_| luts.len() == 1);
    for index in 0..groups.words.len() / group_words {
        let group = Group { shape, index, subsets, words: &groups.words[index * group_words..] };
        let lanes = ciphertexts.chunks_exact(words).zip(accumulators.chunks_exact_mut(shape.accumulator_words::<T>()));
        for (ciphertext, accumulator) in lanes {
            let mask = &ciphertext[index * key.grouping()..][..key.grouping()];
            let mut exponents = [0; 1 << GROUPING_MAX];
            for (subset, exponent) in exponents[..subsets].iter_mut().enumerate() {
                *exponent = switch_subset(mask, subset, modulus_log2) as usize;
            }
            let exponents = &exponents[..subsets];
            let next = match computed {
                Some(masks) => group.sum_with(masks, exponents, &mut scratch.bundle),
                None => group.sum(exponents, &mut scratch.bundle),
            };
            key.product().transform(&scratch.bundle, &mut scratch.spectrum, &mut scratch.product);
            key.product().replace(&scratch.spectrum, next, accumulator, &mut scratch.product);
        }
    }
}

/// One group of a multi-bit key.
struct Group<'a, T> {
    shape: GgswShape,
    /// Index of the group in the key.
    index: usize,
    /// Number of subsets of the group's bits, each with a GGSW ciphertext.
    subsets: usize,
    /// The group's polynomials, followed by the rest of the key. The subsets of a polynomial are
    /// adjacent.
    words: &'a [T],
}

impl<'a, T: Torus> Group<'a, T> {
    /// Writes to `sum` the sum of the GGSW ciphertexts, each rotated by its exponent, polynomial by
    /// polynomial. The group is read in memory order. Returns the words to prefetch before the next
    /// sum.
    fn sum(&self, exponents: &[usize], sum: &mut [T]) -> &'a [T] {
        let (size, level) = (self.shape.polynomial_size, Level::detect());
        for (polynomial, sum) in sum.chunks_exact_mut(size).enumerate() {
            // Subset 0 has no bit set, so its rotation is by 0.
            sum.copy_from_slice(self.polynomials(polynomial, 0, 1));
            for (subset, exponent) in exponents.iter().enumerate().skip(1) {
                let [words, next] = [subset, subset + 1].map(|subset| self.polynomials(polynomial, subset, 1));
                polynomial::add_rotated(level, size, words, next, *exponent, sum);
            }
        }
        // The loop has already prefetched subset 0 of the next group's first polynomial.
        self.polynomials(self.polynomial_count(), 1, self.polynomial_count())
    }

    /// As [`Self::sum`], row by row, but computes the masks and reads only the bodies from memory.
    fn sum_with(&self, masks: &FastMasks, exponents: &[usize], sum: &mut [T]) -> &'a [T] {
        let (mask_polynomials, columns) = (self.shape.glwe_dimension, self.shape.glwe_size());
        sum.fill(T::default());
        for (row, sum) in sum.chunks_exact_mut(self.shape.glwe_words()).enumerate() {
            let body = row * columns + mask_polynomials;
            for (subset, exponent) in exponents.iter().enumerate() {
                let last = subset + 1 == self.subsets;
                let next = if last { (body + columns, 0) } else { (body, subset + 1) };
                let [words, next] = [(body, subset), next].map(|(body, subset)| self.polynomials(body, subset, 1));
                let row = ((self.index * self.subsets + subset) * self.shape.rows() + row) as u128;
                let first_mask = row * (mask_polynomials * self.shape.polynomial_size) as u128;
                masks.add_rotated(first_mask, *exponent, words, next, sum);
            }
        }
        // Masks, which are not read, follow the last subset of the next group's first body.
        let bodies = self.polynomial_count().min(self.subsets - 1);
        self.polynomials(self.polynomial_count() + mask_polynomials, 1, bodies)
    }

    /// Number of polynomials of a GGSW ciphertext.
    fn polynomial_count(&self) -> usize {
        self.shape.words() / self.shape.polynomial_size
    }

    /// Returns `count` polynomials in memory order from `polynomial` of `subset` on. Returns none
    /// where the key ends earlier.
    fn polynomials(&self, polynomial: usize, subset: usize, count: usize) -> &'a [T] {
        let size = self.shape.polynomial_size;
        let from = (polynomial * self.subsets + subset) * size;
        self.words.get(from..from + count * size).unwrap_or_default()
    }
}
