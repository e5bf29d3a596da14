//! Polynomials by their residues modulo several primes.

use crate::{
    pool::Words,
    rows::{Rows, transposed},
};

/// Primes that a polynomial is modulo: the chain up to a level, and some of the special ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Basis {
    /// The level: one prime less than there are of the chain.
    pub level: usize,
    /// Special primes, the first ones.
    pub special: usize,
}

impl Basis {
    /// Of ciphertexts of a level.
    pub const fn of_level(level: usize) -> Self {
        Self { level, special: 0 }
    }

    /// Primes in all.
    pub const fn len(self) -> usize {
        self.level + 1 + self.special
    }

    /// There is always one prime.
    pub const fn is_empty(self) -> bool {
        false
    }
}

/// A polynomial modulo each prime of a basis, a row for each, those of the chain first. Rows are values in the order of
/// `cloakwork_math::ntt`, unless said otherwise.
pub struct Poly {
    basis: Basis,
    size: usize,
    words: Words,
}

impl Poly {
    /// In these words, to be written before they are read.
    pub(crate) fn blank(basis: Basis, size: usize, words: Words) -> Self {
        assert_eq!(words.len(), basis.len() * size);
        Self { basis, size, words }
    }

    /// What it is modulo.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// The row of one prime.
    pub fn row(&self, index: usize) -> &[u64] {
        &self.words[index * self.size..][..self.size]
    }

    /// The same, to be written.
    pub fn row_mut(&mut self, index: usize) -> &mut [u64] {
        &mut self.words[index * self.size..][..self.size]
    }

    /// All rows.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[u64]> {
        self.words.chunks_exact(self.size)
    }

    /// All rows, to be written.
    pub fn rows_mut(&mut self) -> impl ExactSizeIterator<Item = &mut [u64]> {
        self.words.chunks_exact_mut(self.size)
    }

    /// All words, row by row.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The same, to be written.
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// The same memory, of which only the rows of a lower level are used, without special primes.
    pub(crate) fn cut(mut self, level: usize) -> Self {
        assert!(level <= self.basis.level, "a level that there is");
        self.basis = Basis::of_level(level);
        self.words.cut(self.basis.len() * self.size);
        self
    }

    /// The same in memory for its own rows only.
    pub(crate) fn fitted(self) -> Self {
        Self { words: self.words.fitted(), ..self }
    }

    /// The rows of a lower level, without special primes.
    pub fn at_level(&self, level: usize) -> Self {
        assert!(level <= self.basis.level, "a level that there is");
        let basis = Basis::of_level(level);
        let mut words = self.words.others(basis.len() * self.size);
        words.copy_from_slice(&self.words[..basis.len() * self.size]);
        Self { basis, size: self.size, words }
    }
}

/// Row by row, those of all polynomials.
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
