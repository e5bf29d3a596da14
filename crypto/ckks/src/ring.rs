//! Precomputed data of a parameter set: transforms and changes of basis.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, OnceLock},
};

use cloakwork_math::{
    basis::BasisChange,
    modulus::{Factor, Modulus},
    ntt::Ntt,
    pointwise::Pointwise,
    simd::Level,
};
use cloakwork_params::ckks::CkksSet;

use crate::{
    embedding::Embedding,
    poly::{Basis, Poly},
    pool::{MemoryUse, Pool, Words},
    prime::Prime,
};

/// The ring of a set with all precomputed data, some megabytes for each prime. All computations
/// under the set share one instance.
pub struct Ring {
    set: &'static CkksSet,
    /// The primes of the chain, followed by the special primes.
    primes: Vec<Prime>,
    digits: Vec<Digit>,
    /// Lowerings by number of removed special primes, then by level. Of each pair, the second
    /// removes a prime of the chain as well.
    lowerings: HashMap<usize, Vec<[Option<Lowering>; 2]>>,
    /// Change of basis from the first prime to all others.
    raising: BasisChange,
    /// Embeddings by log2 of the number of slots, created on first use.
    embeddings: Vec<OnceLock<Embedding>>,
    /// By prime, the factors of the first and second half of all values in a multiplication by i.
    imaginary: Vec<[Factor; 2]>,
    pool: Arc<Pool>,
}

/// A digit of the key-switching gadget: some adjacent primes of the chain.
pub(crate) struct Digit {
    /// Indices of the digit's primes in the chain.
    pub(crate) rows: Range<usize>,
    /// Changes of basis to all primes outside of the digit, special primes last. The index is the
    /// number of the digit's primes that a level has, from 1 on, minus one.
    changes: Vec<BasisChange>,
}

impl Digit {
    /// The primes of the digit that a level has.
    pub(crate) fn at_level(&self, level: usize) -> Range<usize> {
        self.rows.start..self.rows.end.min(level + 1)
    }

    /// The change of basis from these primes to all primes outside of the digit.
    pub(crate) fn change(&self, level: usize) -> &BasisChange {
        &self.changes[self.at_level(level).len() - 1]
    }

    /// Index in [`Self::change`] of a prime outside of the digit.
    pub(crate) fn target(&self, prime: usize) -> usize {
        if prime < self.rows.start { prime } else { prime - self.rows.len() }
    }
}

/// The removal of some primes: a rounded division by their product.
pub(crate) struct Lowering {
    /// Change of basis from the removed primes to the remaining primes of the chain.
    pub(crate) change: BasisChange,
    /// Inverse of the product, modulo each remaining prime.
    pub(crate) inverses: Vec<Factor>,
}

impl Ring {
    /// Creates the ring of a set for the best instruction set of this machine.
    pub fn new(set: &'static CkksSet) -> Self {
        Self::with_level(set, Level::detect())
    }

    /// Creates the ring of a set for one instruction set.
    pub fn with_level(set: &'static CkksSet, level: Level) -> Self {
        let moduli: Vec<Modulus> = set.chain.iter().chain(set.special).map(|prime| modulus(*prime)).collect();
        let prime = |modulus: &Modulus| Prime {
            ntt: Ntt::with_level(*modulus, set.size_log2, level).expect("primes of a set have roots of order 2N"),
            pointwise: Pointwise::with_level(*modulus, level),
        };
        let (chain, special) = moduli.split_at(set.chain.len());
        let digit = |rows: Range<usize>| {
            let others = [&moduli[..rows.start], &moduli[rows.end..]].concat();
            let changes = (1..=rows.len())
                .map(|present| BasisChange::with_level(&chain[rows.start..][..present], &others, level))
                .collect();
            Digit { rows, changes }
        };
        let lowering = |count: usize, from: usize, kept: usize| {
            let gone = [&chain[kept..=from], &special[..count]].concat();
            let kept = &chain[..kept];
            (!gone.is_empty() && !kept.is_empty()).then(|| lowering_of(&gone, kept, level))
        };
        let by_level = |count: usize| -> Vec<_> {
            (0..chain.len()).map(|level| [lowering(count, level, level + 1), lowering(count, level, level)]).collect()
        };
        // A rescale removes no special primes, the key to a sparse secret uses one, and every other
        // key uses all.
        let lowerings = [0, 1, special.len()].map(|count| (count, by_level(count))).into();
        let primes: Vec<Prime> = moduli.iter().map(prime).collect();
        Self {
            set,
            imaginary: primes.iter().map(imaginary).collect(),
            primes,
            digits: set.digits().map(digit).collect(),
            lowerings,
            embeddings: (0..set.size_log2).map(|_| OnceLock::new()).collect(),
            pool: Arc::default(),
            raising: BasisChange::with_level(&moduli[..1], &moduli[1..], level),
        }
    }

    /// The set.
    pub fn set(&self) -> &'static CkksSet {
        self.set
    }

    /// The ring dimension N.
    pub fn size(&self) -> usize {
        self.set.size()
    }

    /// Maximum number of slots in a ciphertext.
    pub fn slots(&self) -> usize {
        self.set.slots()
    }

    /// log2 of the maximum number of slots.
    pub fn slots_log2(&self) -> u32 {
        self.set.size_log2 - 1
    }

    /// The highest level.
    pub fn level_max(&self) -> usize {
        self.set.level_max()
    }

    /// A prime of the chain or, from the chain's end on, a special prime.
    pub fn prime(&self, index: usize) -> &Prime {
        &self.primes[index]
    }

    /// Indices of the primes of a basis, row by row.
    pub fn indices(&self, basis: Basis) -> impl ExactSizeIterator<Item = usize> + Clone + use<> {
        let chain = self.set.chain.len();
        (0..basis.len()).map(move |row| index_of_row(chain, basis, row))
    }

    /// Index of the prime of one row.
    pub(crate) fn index(&self, basis: Basis, row: usize) -> usize {
        index_of_row(self.set.chain.len(), basis, row)
    }

    /// The primes of a basis, row by row.
    pub fn primes(&self, basis: Basis) -> impl ExactSizeIterator<Item = &Prime> {
        self.indices(basis).map(|index| &self.primes[index])
    }

    /// The zero polynomial.
    pub fn zero(&self, basis: Basis) -> Poly {
        let mut zero = self.blank(basis);
        zero.words_mut().fill(0);
        zero
    }

    /// Allocates a polynomial that must be written before it is read.
    pub(crate) fn blank(&self, basis: Basis) -> Poly {
        Poly::blank(basis, self.size(), self.pool.take(basis.len() * self.size()))
    }

    /// As [`Self::blank`], in memory of exact size for long-lived data such as keys.
    pub(crate) fn blank_to_keep(&self, basis: Basis) -> Poly {
        Poly::blank(basis, self.size(), self.pool.take_exactly(basis.len() * self.size()))
    }

    /// Allocates some rows that must be written before they are read.
    pub(crate) fn blank_rows(&self, count: usize) -> Words {
        self.pool.take(count * self.size())
    }

    /// Allocates some words that must be written before they are read.
    pub(crate) fn blank_words(&self, count: usize) -> Words {
        self.pool.take(count)
    }

    /// The default scale of numbers.
    pub fn scale(&self) -> f64 {
        2_f64.powi(self.set.scale_log2 as i32)
    }

    /// The transform between numbers and coefficients for 2^`slots_log2` slots.
    pub fn embedding(&self, slots_log2: u32) -> &Embedding {
        self.embeddings[slots_log2 as usize].get_or_init(|| Embedding::new(slots_log2))
    }

    /// The product of the first `special` special primes, modulo another prime.
    pub fn special_product(&self, special: usize, modulus: Modulus) -> u64 {
        let primes = self.set.special[..special].iter();
        primes.fold(1, |product, prime| modulus.mul(product, modulus.reduce(*prime)))
    }

    /// The digits that have at least one prime at a level.
    pub(crate) fn digits(&self, level: usize) -> impl Iterator<Item = &Digit> + Clone {
        self.digits.iter().take_while(move |digit| digit.rows.start <= level)
    }

    /// The removal of the special primes of a basis and of its primes of the chain above a level.
    pub(crate) fn lowering(&self, basis: Basis, level: usize) -> &Lowering {
        let lowering = &self.lowerings[&basis.special][basis.level][basis.level - level];
        lowering.as_ref().expect("removed primes and remaining primes")
    }

    /// Change of basis from the first prime to all others.
    pub(crate) fn raising(&self) -> &BasisChange {
        &self.raising
    }

    /// Memory in use by all computations with this ring.
    pub fn memory_use(&self) -> MemoryUse {
        self.pool.memory_use()
    }

    /// Multiplies every number by i, which is X^(N / 2), exactly and without a level.
    pub(crate) fn times_i(&self, index: usize, row: &mut [u64]) {
        for (half, factor) in row.chunks_exact_mut(self.size() / 2).zip(self.imaginary[index]) {
            self.primes[index].pointwise.scale(half, factor);
        }
    }

    /// Adds i times a number to every number. `number` is its residue modulo the prime.
    pub(crate) fn add_imaginary(&self, index: usize, row: &mut [u64], number: u64) {
        for (half, factor) in row.chunks_exact_mut(self.size() / 2).zip(self.imaginary[index]) {
            self.primes[index].pointwise.add_constant(half, factor.times(number));
        }
    }

    /// Transforms coefficients to values, row by row.
    pub fn forward(&self, poly: &mut Poly) {
        for (prime, row) in self.primes(poly.basis()).zip(poly.rows_mut()) {
            prime.ntt.forward(&mut [row]);
        }
    }

    /// Transforms values to coefficients, row by row.
    pub fn inverse(&self, poly: &mut Poly) {
        for (prime, row) in self.primes(poly.basis()).zip(poly.rows_mut()) {
            prime.ntt.inverse(&mut [row]);
        }
    }

    /// Evaluates a polynomial with these coefficients.
    pub fn of_coefficients(&self, basis: Basis, coefficients: &[i128]) -> Poly {
        let mut poly = self.blank(basis);
        for (prime, row) in self.primes(basis).zip(poly.rows_mut()) {
            // On a client the coefficients are secret.
            let modulus = prime.modulus().constant_time();
            for (word, coefficient) in row.iter_mut().zip(coefficients) {
                *word = modulus.of_signed(*coefficient);
            }
        }
        self.forward(&mut poly);
        poly
    }
}

fn index_of_row(chain: usize, basis: Basis, row: usize) -> usize {
    if row <= basis.level { row } else { chain + row - basis.level - 1 }
}

/// Values of X^(N / 2): a root of -1 in the first half of all values, its negative in the second
/// half.
fn imaginary(prime: &Prime) -> [Factor; 2] {
    let size = prime.ntt.size();
    let mut power = vec![0; size];
    power[size / 2] = 1;
    prime.ntt.forward(&mut [&mut power]);
    [power[0], power[size / 2]].map(|value| prime.modulus().factor(value))
}

fn lowering_of(gone: &[Modulus], kept: &[Modulus], level: Level) -> Lowering {
    let inverse = |kept: &Modulus| {
        let product = gone.iter().fold(1, |product, gone| kept.mul(product, kept.reduce(gone.value())));
        kept.factor(kept.inverse(product))
    };
    Lowering { change: BasisChange::with_level(gone, kept, level), inverses: kept.iter().map(inverse).collect() }
}

fn modulus(prime: u64) -> Modulus {
    Modulus::new(prime).expect("a set's primes are primes")
}
