//! The number-theoretic transform: polynomials modulo X^N + 1 and a prime, as their values at the 2N-th roots of unity
//! that have no smaller order.
//!
//! Values lie in *bit-reversed order*: value i is the one at psi^(2 r(i) + 1), where psi is the prime's least primitive
//! 2N-th root of unity and r reverses the log2 N bits of i. So the order is part of the definition, the same on every
//! machine, and objects may be stored in it.

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

/// The transform of one ring modulo one prime, there and back.
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
/// Words that a transform can be finished in, of rings that have as many.
pub const PART: usize = 1 << 12;
/// log2 of the largest ring.
pub const SIZE_LOG2_MAX: u32 = 17;

impl Ntt {
    /// The transform of polynomials of 2^`size_log2` coefficients on the best instruction set of this machine, if the
    /// prime has the roots for it.
    pub fn new(modulus: Modulus, size_log2: u32) -> Option<Self> {
        Self::with_level(modulus, size_log2, Level::detect())
    }

    /// The same on one instruction set.
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

    /// Coefficients to values, in place, of each polynomial. Several at once share what is read of the tables.
    pub fn forward(&self, polynomials: &mut [&mut [u64]]) {
        self.start(polynomials);
        self.finish(0, polynomials);
    }

    /// The first passes of that, which go through all words.
    pub fn start(&self, polynomials: &mut [&mut [u64]]) {
        self.check(polynomials);
        self.arithmetic.run(Start { table: &self.forward, polynomials });
    }

    /// The other passes, of a part of each polynomial: some multiples of [`PART`] words, from word `first` on. What is
    /// done with the values can be done while they are in a cache.
    pub fn finish(&self, first: usize, parts: &mut [&mut [u64]]) {
        self.finish_and_fetch(first, parts, &[]);
    }

    /// The same, while what will be read next is on its way from memory.
    pub fn finish_and_fetch(&self, first: usize, parts: &mut [&mut [u64]], next: &[&[u64]]) {
        let len = parts.first().map_or(0, |part| part.len());
        let part = PART.min(self.size());
        assert!(first.is_multiple_of(part) && len.is_multiple_of(part) && first + len <= self.size(), "whole parts");
        assert!(parts.iter().all(|part| part.len() == len), "the same part of all polynomials");
        self.arithmetic.run(Finish { table: &self.forward, first, parts, next });
    }

    /// Values to coefficients, in place, of each polynomial.
    pub fn inverse(&self, polynomials: &mut [&mut [u64]]) {
        self.inverse_times(self.modulus.factor(1), polynomials);
    }

    /// Values to coefficients, each times `factor`, which costs nothing more.
    pub fn inverse_times(&self, factor: Factor, polynomials: &mut [&mut [u64]]) {
        self.check(polynomials);
        let scale = self.modulus.factor(self.shrink.times(factor.value()));
        self.arithmetic.run(Inverse { table: &self.inverse, scale, values: None, polynomials });
    }

    /// The same of values that stay where they are: coefficients go elsewhere.
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
