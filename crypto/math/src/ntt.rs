//! The number-theoretic transform (NTT) of polynomials modulo X^N + 1 and a prime: their values at
//! the primitive 2N-th roots of unity.
//!
//! Values are in *bit-reversed order*: value i is the value at psi^(2 r(i) + 1). Here psi is the
//! prime's least primitive 2N-th root of unity, and r reverses the log2 N bits of i. The order is
//! part of the definition and equal on every machine, so objects may be stored in it.

mod automorphism;
mod passes;
mod table;

pub use automorphism::Automorphism;

use self::{
    passes::{Finish, Inverse, Start},
    table::Table,
};
use crate::{
    modulus::{Factor, Modulus},
    simd::{Level, residues::Arithmetic},
};

/// The transform of one ring modulo one prime, and its inverse.
pub struct Ntt {
    modulus: Modulus,
    size_log2: u32,
    arithmetic: Arithmetic,
    forward: Table,
    inverse: Table,
    /// 1 / N.
    shrink: Factor,
}

/// log2 of the smallest ring: two squares of the widest vectors.
pub const SIZE_LOG2_MIN: u32 = 7;
/// Words of a part in which a transform can be finished, for rings of at least this size.
pub const PART: usize = 1 << 12;
/// log2 of the largest ring.
pub const SIZE_LOG2_MAX: u32 = 17;

impl Ntt {
    /// Creates the transform of polynomials of 2^`size_log2` coefficients on the best instruction
    /// set of this machine. Returns `None` if the prime lacks the roots of unity.
    pub fn new(modulus: Modulus, size_log2: u32) -> Option<Self> {
        Self::with_level(modulus, size_log2, Level::detect())
    }

    /// Like [`Self::new`], on one instruction set.
    pub fn with_level(modulus: Modulus, size_log2: u32, level: Level) -> Option<Self> {
        Self::with_arithmetic(modulus, size_log2, Arithmetic::fastest(level, modulus))
    }

    fn with_arithmetic(modulus: Modulus, size_log2: u32, arithmetic: Arithmetic) -> Option<Self> {
        if !(SIZE_LOG2_MIN..=SIZE_LOG2_MAX).contains(&size_log2) {
            return None;
        }
        let root = modulus.least_root_of_unity(2 << size_log2)?;
        let shrink = modulus.factor(modulus.inverse(1 << size_log2));
        let table = |root| Table::new(modulus, size_log2, root, arithmetic);
        let (forward, inverse) = (table(root), table(modulus.inverse(root)));
        Some(Self { modulus, size_log2, arithmetic, forward, inverse, shrink })
    }

    /// The prime.
    pub fn modulus(&self) -> Modulus {
        self.modulus
    }

    /// Coefficients of a polynomial.
    pub fn size(&self) -> usize {
        1 << self.size_log2
    }

    /// Name of the arithmetic, for benchmark tables.
    pub fn arithmetic_name(&self) -> &'static str {
        self.arithmetic.name()
    }

    /// Transforms coefficients to values, in place, for each polynomial. Several polynomials in one
    /// call share the reads of the tables.
    pub fn forward(&self, polynomials: &mut [&mut [u64]]) {
        self.start(polynomials);
        self.finish(0, polynomials);
    }

    /// Runs the first passes of [`Self::forward`], which go through all words.
    pub fn start(&self, polynomials: &mut [&mut [u64]]) {
        self.check(polynomials);
        self.arithmetic.run(Start { table: &self.forward, polynomials });
    }

    /// Runs the other passes on a part of each polynomial: some multiples of [`PART`] words, from
    /// word `first` on. The caller can then process the values while they are in a cache.
    pub fn finish(&self, first: usize, parts: &mut [&mut [u64]]) {
        self.finish_and_fetch(first, parts, &[]);
    }

    /// Like [`Self::finish`], and prefetches `next` meanwhile.
    pub fn finish_and_fetch(&self, first: usize, parts: &mut [&mut [u64]], next: &[&[u64]]) {
        let len = parts.first().map_or(0, |part| part.len());
        let part = PART.min(self.size());
        assert!(first.is_multiple_of(part) && len.is_multiple_of(part) && first + len <= self.size(), "whole parts");
        assert!(parts.iter().all(|part| part.len() == len), "the same part of all polynomials");
        self.arithmetic.run(Finish { table: &self.forward, first, parts, next });
    }

    /// Transforms values to coefficients, in place, for each polynomial.
    pub fn inverse(&self, polynomials: &mut [&mut [u64]]) {
        self.inverse_times(self.modulus.factor(1), polynomials);
    }

    /// Transforms values to coefficients, each times `factor`, at no extra cost.
    pub fn inverse_times(&self, factor: Factor, polynomials: &mut [&mut [u64]]) {
        self.check(polynomials);
        let scale = self.modulus.factor(self.shrink.times(factor.value()));
        self.arithmetic.run(Inverse { table: &self.inverse, scale, values: None, polynomials });
    }

    /// Like [`Self::inverse_times`], but reads `values`, leaves them unchanged, and writes the
    /// coefficients to `polynomials`.
    pub fn inverse_times_of(&self, factor: Factor, values: &[&[u64]], polynomials: &mut [&mut [u64]]) {
        self.check(polynomials);
        assert!(values.len() == polynomials.len() && values.iter().all(|values| values.len() == self.size()));
        let scale = self.modulus.factor(self.shrink.times(factor.value()));
        self.arithmetic.run(Inverse { table: &self.inverse, scale, values: Some(values), polynomials });
    }

    fn check(&self, polynomials: &[&mut [u64]]) {
        assert!(polynomials.iter().all(|polynomial| polynomial.len() == self.size()), "polynomials of N coefficients");
    }
}

#[cfg(test)]
mod tests;
