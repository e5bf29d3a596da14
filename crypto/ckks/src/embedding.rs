//! The canonical embedding: n complex numbers are the values of a real polynomial in X^(N / 2n).
//! The values are taken at n roots of X^N + 1, one of each conjugate pair.
//!
//! Number j belongs to the root z^(5^j), where z is the first 4n-th root of unity. The coefficients
//! of the polynomial are stored as n complex numbers too. Coefficients k and n + k are the real and
//! the imaginary part of the k-th number.

use crate::complex::Complex;

/// The embedding for a power of two n, in both directions. The transform has log2 n steps of a
/// Fourier transform whose roots are in the order of the powers of five. [`Self::roots`] are the
/// factors of the step for blocks of `len`.
pub struct Embedding {
    /// Roots by log2 of the length of a block, from 2 on.
    roots: Vec<Vec<Complex>>,
}

impl Embedding {
    /// Creates the embedding for n = 2^`slots_log2`.
    pub fn new(slots_log2: u32) -> Self {
        let of_block = |len_log2: u32| {
            let order = 4_usize << len_log2;
            let powers = std::iter::successors(Some(1_usize), |power| Some(power * 5 % order));
            // The root of a block's j-th pair has the j-th power of five as exponent, and four
            // times the block's length as order.
            powers.take(1 << (len_log2 - 1)).map(|power| Complex::at_turn(power as f64 / order as f64)).collect()
        };
        Self { roots: (1..=slots_log2).map(of_block).collect() }
    }

    /// The number of slots n.
    pub fn slots(&self) -> usize {
        1 << self.roots.len()
    }

    /// Roots of the step that joins pairs of half blocks to blocks of 2^`len_log2`.
    pub fn roots(&self, len_log2: u32) -> &[Complex] {
        &self.roots[len_log2 as usize - 1]
    }

    /// Transforms coefficients to values.
    pub fn values(&self, coefficients: &mut [Complex]) {
        assert_eq!(coefficients.len(), self.slots());
        reverse_bits(coefficients);
        for roots in &self.roots {
            for block in coefficients.chunks_exact_mut(2 * roots.len()) {
                let (upper, lower) = block.split_at_mut(roots.len());
                for ((upper, lower), root) in upper.iter_mut().zip(lower).zip(roots) {
                    let turned = *lower * *root;
                    (*upper, *lower) = (*upper + turned, *upper - turned);
                }
            }
        }
    }

    /// Transforms values to coefficients.
    pub fn coefficients(&self, values: &mut [Complex]) {
        assert_eq!(values.len(), self.slots());
        for roots in self.roots.iter().rev() {
            for block in values.chunks_exact_mut(2 * roots.len()) {
                let (upper, lower) = block.split_at_mut(roots.len());
                for ((upper, lower), root) in upper.iter_mut().zip(lower).zip(roots) {
                    let difference = *upper - *lower;
                    (*upper, *lower) = ((*upper + *lower).scale(0.5), (difference * root.conjugate()).scale(0.5));
                }
            }
        }
        reverse_bits(values);
    }
}

/// Moves each element to the index with reversed bits.
pub(crate) fn reverse_bits<E>(elements: &mut [E]) {
    let unused = usize::BITS - elements.len().ilog2();
    for index in 0..elements.len() {
        let reversed = if unused == usize::BITS { 0 } else { index.reverse_bits() >> unused };
        if index < reversed {
            elements.swap(index, reversed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_at_the_roots_of_the_powers_of_five() {
        for slots_log2 in 0..=8 {
            let n = 1_usize << slots_log2;
            let embedding = Embedding::new(slots_log2);
            let coefficients: Vec<Complex> =
                (0..n).map(|k| Complex::new((k as f64).sin(), (3.0 * k as f64).cos())).collect();
            let mut values = coefficients.clone();
            embedding.values(&mut values);
            let mut power = 1_usize;
            for value in &values {
                let root = |k: usize| Complex::at_turn((power * k % (4 * n)) as f64 / (4 * n) as f64);
                let expected = (0..n).fold(Complex::ZERO, |sum, k| {
                    sum + root(k).scale(coefficients[k].re) + root(k + n).scale(coefficients[k].im)
                });
                assert!((*value - expected).magnitude() < 1e-12 * n as f64, "{value:?} is not {expected:?}");
                power = power * 5 % (4 * n);
            }
            embedding.coefficients(&mut values);
            assert!(values.iter().zip(&coefficients).all(|(a, b)| (*a - *b).magnitude() < 1e-13 * n as f64));
        }
    }
}
