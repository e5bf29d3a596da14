//! Ciphertexts encrypted with a public key. Up to n of them share one mask.

use std::ops::Range;

use cloakwork_math::{
    Torus, polynomial,
    random::{MaskSeed, MaskStream},
};

use crate::{LweList, ShapeError};

/// A public key for encryption: an encryption of zero as a polynomial modulo X^n + 1, with a seeded
/// mask.
///
/// For a secret key s of n bits, the body is noise plus the mask times s with its bits in reverse
/// order.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactPublicKey<T> {
    seed: MaskSeed,
    body: Vec<T>,
}

impl<T: Torus> CompactPublicKey<T> {
    /// Checks that the body is a polynomial modulo X^n + 1 with n a power of two.
    pub fn new(seed: MaskSeed, body: Vec<T>) -> Result<Self, ShapeError> {
        check_power_of_two(body.len())?;
        Ok(Self { seed, body })
    }

    /// The dimension n.
    pub fn dimension(&self) -> usize {
        self.body.len()
    }

    /// Seed of the mask.
    pub fn seed(&self) -> &MaskSeed {
        &self.seed
    }

    /// The body.
    pub fn body(&self) -> &[T] {
        &self.body
    }

    /// Expands the mask.
    pub fn mask(&self) -> Vec<T> {
        let mut mask = vec![T::default(); self.dimension()];
        MaskStream::new(&self.seed).fill(T::BITS, &mut mask);
        mask
    }
}

/// LWE ciphertexts that share masks: ciphertext j of each run of n has the run's mask times X^j.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactList<T> {
    dimension: usize,
    masks: Vec<T>,
    bodies: Vec<T>,
}

impl<T: Torus> CompactList<T> {
    /// Checks that there is one mask for each run of n bodies. The mask of a partial last run is
    /// whole too.
    pub fn new(dimension: usize, masks: Vec<T>, bodies: Vec<T>) -> Result<Self, ShapeError> {
        check_power_of_two(dimension)?;
        let expected = bodies.len().next_multiple_of(dimension);
        ShapeError::check("mask words of a compact list", expected, masks.len())?;
        Ok(Self { dimension, masks, bodies })
    }

    /// The dimension n: number of mask words of each expanded ciphertext.
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

    /// All masks, n words each.
    pub fn masks(&self) -> &[T] {
        &self.masks
    }

    /// All bodies.
    pub fn bodies(&self) -> &[T] {
        &self.bodies
    }

    /// Expands each ciphertext to its own mask. The result takes n times the memory of the list.
    pub fn expand(&self) -> LweList<T> {
        self.expand_range(0..self.len())
    }

    /// As [`Self::expand`] for a range of the ciphertexts. Indices beyond the end are skipped.
    pub fn expand_range(&self, range: Range<usize>) -> LweList<T> {
        let range = range.start.min(self.len())..range.end.min(self.len());
        let mut list = LweList::zeros(self.dimension, range.len());
        for (index, ciphertext) in range.zip(list.iter_mut()) {
            let (run, exponent) = (index / self.dimension, index % self.dimension);
            let (mask, body) = ciphertext.split_at_mut(self.dimension);
            polynomial::rotate(&self.masks[run * self.dimension..][..self.dimension], exponent, mask);
            body[0] = self.bodies[index];
        }
        list
    }
}

fn check_power_of_two(dimension: usize) -> Result<(), ShapeError> {
    let expected = dimension.checked_next_power_of_two().unwrap_or(1 << (usize::BITS - 1));
    ShapeError::check("dimension of a compact key or list (a power of two)", expected, dimension)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_run_rotates_its_own_mask() {
        let list = CompactList::new(2, vec![1_u64, 2, 10, 20], vec![7, 8, 9]).unwrap();
        let expected = [1, 2, 7, 2_u64.wrapping_neg(), 1, 8, 10, 20, 9];
        assert_eq!(list.expand().words(), expected);
        assert_eq!(list.expand_range(1..2).words(), &expected[3..6]);
        assert!(list.expand_range(5..9).is_empty());
    }

    #[test]
    fn invalid_shapes_are_refused() {
        assert!(CompactPublicKey::new(MaskSeed { key: 0, block: 0, byte: 0 }, vec![0_u64; 805]).is_err());
        assert!(CompactPublicKey::new(MaskSeed { key: 0, block: 0, byte: 0 }, Vec::<u64>::new()).is_err());
        assert!(CompactList::new(0, vec![0_u64], vec![0]).is_err());
        let error = CompactList::new(4, vec![0_u64; 4], vec![0; 5]).unwrap_err();
        assert_eq!((error.expected, error.got), (8, 4));
    }
}
