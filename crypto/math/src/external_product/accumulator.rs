//! Memory layout of a GLWE ciphertext during external products. A margin behind each polynomial
//! repeats its first words, negated. A kernel can thus read a rotated polynomial without checking
//! for the wrap-around.

use super::GgswShape;
use crate::{cache::LINE, torus::Torus};

/// Words behind each polynomial: one cache line, and at least as many words as a vector has lanes.
const fn margin<T>() -> usize {
    LINE / size_of::<T>()
}

/// Words from the start of a polynomial to the start of the next polynomial.
pub(super) const fn stride<T>(size: usize) -> usize {
    size + margin::<T>()
}

impl GgswShape {
    /// Words of an accumulator.
    pub fn accumulator_words<T: Torus>(&self) -> usize {
        self.glwe_size() * stride::<T>(self.polynomial_size)
    }
}

/// The polynomials of an accumulator, masks first, without the margins between them.
pub fn polynomials<T: Torus>(size: usize, accumulator: &[T]) -> impl Iterator<Item = &[T]> {
    accumulator.chunks_exact(stride::<T>(size)).map(move |polynomial| &polynomial[..size])
}

/// Sets every polynomial of an accumulator by `write(index, polynomial)`.
pub fn set<T: Torus>(size: usize, accumulator: &mut [T], mut write: impl FnMut(usize, &mut [T])) {
    for (index, polynomial) in accumulator.chunks_exact_mut(stride::<T>(size)).enumerate() {
        write(index, &mut polynomial[..size]);
        seal(size, polynomial);
    }
}

/// Rewrites the margin behind a polynomial.
#[inline(always)]
pub(super) fn seal<T: Torus>(size: usize, polynomial: &mut [T]) {
    let (polynomial, margin) = polynomial.split_at_mut(size);
    for (negated, word) in margin.iter_mut().zip(polynomial) {
        *negated = word.wrapping_neg();
    }
}
