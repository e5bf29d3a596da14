//! Polynomials as residues modulo several primes.

use crate::{
    pool::Words,
    rows::{Rows, transposed},
};

/// Primes of a polynomial: the chain up to a level, and some of the special primes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Basis {
    /// The level, which is the number of primes of the chain minus one.
    pub level: usize,
    /// Number of special primes, taken from the first on.
    pub special: usize,
}

impl Basis {
    /// The basis of ciphertexts of a level.
    pub const fn of_level(level: usize) -> Self {
        Self { level, special: 0 }
    }

    /// Total number of primes.
    pub const fn len(self) -> usize {
        self.level + 1 + self.special
    }

    /// Always false, since a basis has at least one prime.
    pub const fn is_empty(self) -> bool {
        false
    }
}

/// A polynomial with one row for each prime of a basis, those of the chain first. Rows are values
/// in the order of `cloakwork_math::ntt`, unless stated otherwise.
pub struct Poly {
    basis: Basis,
    size: usize,
    words: Words,
}

impl Poly {
    /// Creates a polynomial in `words`, which must be written before they are read.
    pub(crate) fn blank(basis: Basis, size: usize, words: Words) -> Self {
        assert_eq!(words.len(), basis.len() * size);
        Self { basis, size, words }
    }

    /// Basis of the polynomial.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// The row of one prime.
    pub fn row(&self, index: usize) -> &[u64] {
        &self.words[index * self.size..][..self.size]
    }

    /// The row of one prime, mutable.
    pub fn row_mut(&mut self, index: usize) -> &mut [u64] {
        &mut self.words[index * self.size..][..self.size]
    }

    /// All rows.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[u64]> {
        self.words.chunks_exact(self.size)
    }

    /// All rows, mutable.
    pub fn rows_mut(&mut self) -> impl ExactSizeIterator<Item = &mut [u64]> {
        self.words.chunks_exact_mut(self.size)
    }

    /// All words, row by row.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// All words, mutable.
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// Keeps only the rows of a lower level without special primes, in the same memory.
    pub(crate) fn cut(mut self, level: usize) -> Self {
        assert!(level <= self.basis.level, "a level of the polynomial");
        self.basis = Basis::of_level(level);
        self.words.cut(self.basis.len() * self.size);
        self
    }

    /// Moves the polynomial to memory of exactly its own rows.
    pub(crate) fn fitted(self) -> Self {
        Self { words: self.words.fitted(), ..self }
    }

    /// Copies the rows of a lower level without special primes.
    pub fn at_level(&self, level: usize) -> Self {
        assert!(level <= self.basis.level, "a level of the polynomial");
        let basis = Basis::of_level(level);
        let mut words = self.words.others(basis.len() * self.size);
        words.copy_from_slice(&self.words[..basis.len() * self.size]);
        Self { basis, size: self.size, words }
    }
}

/// Groups the rows of all polynomials by row index.
pub(crate) fn by_row(polys: &mut [Poly]) -> Vec<Rows<'_>> {
    transposed(polys.iter_mut().map(Poly::rows_mut))
}

impl Clone for Poly {
    fn clone(&self) -> Self {
        let mut words = self.words.others(self.words.len());
        words.copy_from_slice(&self.words);
        Self { basis: self.basis, size: self.size, words }
    }
}
