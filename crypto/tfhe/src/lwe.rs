//! LWE ciphertexts, always in lists. A single ciphertext is a list of length 1.

use cloakwork_math::Torus;

use crate::{ShapeError, key::DIMENSION_MAX};

/// Adjacent ciphertexts of one dimension, each `[a_0 .. a_{n-1}, b]` with phase `b - <a, s>`.
#[derive(Clone, Debug, PartialEq)]
pub struct LweList<T> {
    dimension: usize,
    words: Vec<T>,
}

impl<T: Torus> LweList<T> {
    /// Creates `count` trivial encryptions of zero.
    pub fn zeros(dimension: usize, count: usize) -> Self {
        Self { dimension, words: vec![T::default(); (dimension + 1) * count] }
    }

    /// Creates ciphertexts that hold these plaintexts in the clear, without mask, noise or secrecy.
    pub fn trivial(dimension: usize, plaintexts: &[T]) -> Self {
        let mut list = Self::zeros(dimension, plaintexts.len());
        for (ciphertext, plaintext) in list.iter_mut().zip(plaintexts) {
            ciphertext[dimension] = *plaintext;
        }
        list
    }

    /// Takes over words that already hold whole ciphertexts.
    pub fn from_words(dimension: usize, words: Vec<T>) -> Result<Self, ShapeError> {
        ShapeError::within("dimension of an LWE list", 1..=DIMENSION_MAX, dimension)?;
        if words.len().is_multiple_of(dimension + 1) {
            Ok(Self { dimension, words })
        } else {
            Err(ShapeError { what: "words of an LWE list (a multiple of)", expected: dimension + 1, got: words.len() })
        }
    }

    /// Number of mask words of each ciphertext.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Number of ciphertexts.
    pub fn len(&self) -> usize {
        self.words.len() / (self.dimension + 1)
    }

    /// Whether there are no ciphertexts.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// All words, ciphertext after ciphertext.
    pub fn words(&self) -> &[T] {
        &self.words
    }

    /// All words, mutable.
    pub fn words_mut(&mut self) -> &mut [T] {
        &mut self.words
    }

    /// Ciphertext `index`.
    pub fn get(&self, index: usize) -> &[T] {
        &self.words[index * (self.dimension + 1)..][..self.dimension + 1]
    }

    /// Ciphertext `index`, mutable.
    pub fn get_mut(&mut self, index: usize) -> &mut [T] {
        &mut self.words[index * (self.dimension + 1)..][..self.dimension + 1]
    }

    /// The ciphertexts in order.
    pub fn iter(&self) -> std::slice::ChunksExact<'_, T> {
        self.words.chunks_exact(self.dimension + 1)
    }

    /// The ciphertexts in order, mutable.
    pub fn iter_mut(&mut self) -> std::slice::ChunksExactMut<'_, T> {
        self.words.chunks_exact_mut(self.dimension + 1)
    }
}
