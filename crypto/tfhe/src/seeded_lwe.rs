//! LWE ciphertexts whose masks come from a seed. Each takes one word on the wire.

use std::ops::Range;

use cloakwork_math::{
    Torus,
    random::{MaskSeed, MaskStream},
};

use crate::{LweList, ShapeError, key::DIMENSION_MAX};

/// LWE ciphertexts of one dimension: a body each, and one seed for the masks, ciphertext after
/// ciphertext.
#[derive(Clone, Debug, PartialEq)]
pub struct SeededLweList<T> {
    dimension: usize,
    seed: MaskSeed,
    bodies: Vec<T>,
}

impl<T: Torus> SeededLweList<T> {
    /// Builds a list from its parts. Any number of bodies is valid.
    pub fn new(dimension: usize, seed: MaskSeed, bodies: Vec<T>) -> Result<Self, ShapeError> {
        ShapeError::within("dimension of an LWE list", 1..=DIMENSION_MAX, dimension)?;
        Ok(Self { dimension, seed, bodies })
    }

    /// Number of mask words of each ciphertext.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Number of ciphertexts.
    pub fn len(&self) -> usize {
        self.bodies.len()
    }

    /// Whether there are no ciphertexts.
    pub fn is_empty(&self) -> bool {
        self.bodies.is_empty()
    }

    /// Seed of the masks.
    pub fn seed(&self) -> &MaskSeed {
        &self.seed
    }

    /// The bodies.
    pub fn bodies(&self) -> &[T] {
        &self.bodies
    }

    /// Expands the masks. The result takes n times the memory of the list.
    pub fn expand(&self) -> LweList<T> {
        self.expand_range(0..self.len())
    }

    /// As [`Self::expand`] for a range of the ciphertexts. Indices beyond the end are skipped.
    pub fn expand_range(&self, range: Range<usize>) -> LweList<T> {
        let range = range.start.min(self.len())..range.end.min(self.len());
        let bodies = &self.bodies[range.start..range.end.max(range.start)];
        let mut list = LweList::zeros(self.dimension, bodies.len());
        let mut masks = MaskStream::at(&self.seed, range.start as u128 * (self.dimension * size_of::<T>()) as u128);
        for (ciphertext, body) in list.iter_mut().zip(bodies) {
            masks.fill(T::BITS, &mut ciphertext[..self.dimension]);
            ciphertext[self.dimension] = *body;
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expansion_takes_masks_from_the_stream_and_keeps_bodies() {
        let seed = MaskSeed { key: 5, block: 9, byte: 3 };
        let list = SeededLweList::new(7, seed, vec![10_u32, 20, 30]).expect("a short key").expand();
        let mut masks = [0_u32; 21];
        MaskStream::new(&seed).fill(32, &mut masks);
        for (index, ciphertext) in list.iter().enumerate() {
            assert_eq!(ciphertext[..7], masks[index * 7..][..7]);
            assert_eq!(ciphertext[7], 10 * (index as u32 + 1));
        }
        assert_eq!(list.len(), 3);
    }

    #[test]
    fn an_expanded_range_equals_that_part_of_the_whole_list() {
        let seed = MaskSeed { key: 5, block: u128::MAX, byte: 15 };
        let list = SeededLweList::new(5, seed, vec![1_u64, 2, 3, 4]).expect("a short key");
        let whole = list.expand();
        assert_eq!(list.expand_range(1..3).words(), &whole.words()[6..18]);
        assert_eq!(list.expand_range(3..100).words(), &whole.words()[18..]);
        assert!(list.expand_range(7..9).is_empty());
    }
}
