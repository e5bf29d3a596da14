//! LWE ciphertexts whose masks come from a seed: one word each on the wire.

use std::ops::Range;

use cloakwork_math::{
    Torus,
    random::{MaskSeed, MaskStream},
};

use crate::LweList;

/// LWE ciphertexts of one dimension: a body each, and the seed of all masks, ciphertext after ciphertext.
#[derive(Clone, Debug, PartialEq)]
pub struct SeededLweList<T> {
    dimension: usize,
    seed: MaskSeed,
    bodies: Vec<T>,
}

impl<T: Torus> SeededLweList<T> {
    /// Puts a list together; any number of bodies is one.
    pub fn new(dimension: usize, seed: MaskSeed, bodies: Vec<T>) -> Self {
        Self { dimension, seed, bodies }
    }

    /// Mask words of each ciphertext.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Number of ciphertexts.
    pub fn len(&self) -> usize {
        self.bodies.len()
    }

    /// True when there are no ciphertexts.
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

    /// The ciphertexts with their masks. This takes dimension + 1 times the memory of the list.
    pub fn expand(&self) -> LweList<T> {
        self.expand_range(0..self.len())
    }

    /// As [`Self::expand`] for some of the ciphertexts; those beyond the end are left out.
    pub fn expand_range(&self, range: Range<usize>) -> LweList<T> {
        let range = range.start.min(self.len())..range.end.min(self.len());
        let mut list = LweList::zeros(self.dimension, range.len());
        let skipped = range.start as u128 * (self.dimension * size_of::<T>()) as u128;
        let mut masks = MaskStream::at(&self.seed, skipped);
        for (ciphertext, body) in list.iter_mut().zip(self.bodies.iter().skip(range.start)) {
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
    fn masks_run_through_the_stream_and_bodies_stay() {
        let seed = MaskSeed { key: 5, block: 9, byte: 3 };
        let list = SeededLweList::new(7, seed, vec![10_u32, 20, 30]).expand();
        let mut masks = [0_u32; 21];
        MaskStream::new(&seed).fill(32, &mut masks);
        for (index, ciphertext) in list.iter().enumerate() {
            assert_eq!(ciphertext[..7], masks[index * 7..][..7]);
            assert_eq!(ciphertext[7], 10 * (index as u32 + 1));
        }
        assert_eq!(list.len(), 3);
        let seeded = SeededLweList::new(7, seed, vec![10_u32, 20, 30]);
        assert_eq!(seeded.expand_range(1..3).words(), &list.words()[8..]);
        assert_eq!(seeded.expand_range(1..2).words(), &list.words()[8..16]);
        assert!(seeded.expand_range(5..9).is_empty());
    }
}
