//! What follows from a parameter set: transforms, and changes between bases.

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
};

/// A set's ring with all that is worked out once: some megabytes for each prime. Shared by everybody who computes under it.
pub struct Ring {
    set: &'static CkksSet,
    /// Those of the chain, then the special ones.
    primes: Vec<Prime>,
    digits: Vec<Digit>,
    /// By number of special primes that go, then by level; of each, the second takes a prime of the chain as well.
    lowerings: HashMap<usize, Vec<[Option<Lowering>; 2]>>,
    /// From the first prime to all others.
    raising: BasisChange,
    /// By log2 of the slots, as they are asked for.
    embeddings: Vec<OnceLock<Embedding>>,
    /// By prime, what multiplies the first half of all values, and the second, when numbers are multiplied by i.
    imaginary: Vec<[Factor; 2]>,
    pool: Arc<Pool>,
}

/// One prime of a ring.
pub struct Prime {
    /// Its transform.
    pub ntt: Ntt,
    /// Sums and products modulo it.
    pub pointwise: Pointwise,
}

impl Prime {
    /// The prime itself.
    pub fn modulus(&self) -> Modulus {
        self.ntt.modulus()
    }
}

/// Some primes of the chain that lie together: what a key switch cuts a polynomial into.
pub(crate) struct Digit {
    /// Their places in the chain.
    pub(crate) rows: Range<usize>,
    /// By number of them that a level has, from 1 on: to all primes outside of the digit, special ones last.
    changes: Vec<BasisChange>,
}

impl Digit {
    /// The primes of the digit that a level has.
    pub(crate) fn at_level(&self, level: usize) -> Range<usize> {
        self.rows.start..self.rows.end.min(level + 1)
    }

    /// From those to others.
    pub(crate) fn change(&self, level: usize) -> &BasisChange {
        &self.changes[self.at_level(level).len() - 1]
    }

    /// Where a prime outside of the digit is in [`Self::change`].
    pub(crate) fn target(&self, prime: usize) -> usize {
        if prime < self.rows.start { prime } else { prime - self.rows.len() }
    }
}

/// What takes away some primes: a division by their product, rounded.
pub(crate) struct Lowering {
    /// From the primes that go to those of the chain that stay.
    pub(crate) change: BasisChange,
    /// One over the product, modulo each that stays.
    pub(crate) inverses: Vec<Factor>,
}

impl Ring {
    /// The ring of a set, on the best instruction set of this machine.
    pub fn new(set: &'static CkksSet) -> Self {
        Self::with_level(set, Level::detect())
    }

    /// The same on one instruction set.
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
        // None for a rescale, one for the key to a sparse secret, all for every other key.
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

    /// N.
    pub fn size(&self) -> usize {
        self.set.size()
    }

    /// Numbers in a ciphertext, at most.
    pub fn slots(&self) -> usize {
        self.set.slots()
    }

    /// log2 of that.
    pub fn slots_log2(&self) -> u32 {
        self.set.size_log2 - 1
    }

    /// The highest level.
    pub fn level_max(&self) -> usize {
        self.set.level_max()
    }

    /// A prime of the chain, or, from its end on, a special one.
    pub fn prime(&self, index: usize) -> &Prime {
        &self.primes[index]
    }

    /// The indices of a basis' primes, row by row.
    pub fn indices(&self, basis: Basis) -> impl ExactSizeIterator<Item = usize> + Clone + use<> {
        let chain = self.set.chain.len();
        (0..basis.len()).map(move |row| index_of_row(chain, basis, row))
    }

    /// The index of the prime of one row.
    pub(crate) fn index(&self, basis: Basis, row: usize) -> usize {
        index_of_row(self.set.chain.len(), basis, row)
    }

    /// The primes of a basis, row by row.
    pub fn primes(&self, basis: Basis) -> impl ExactSizeIterator<Item = &Prime> {
        self.indices(basis).map(|index| &self.primes[index])
    }

    /// Zero.
    pub fn zero(&self, basis: Basis) -> Poly {
        let mut zero = self.blank(basis);
        zero.words_mut().fill(0);
        zero
    }

    /// A polynomial to be written before it is read.
    pub(crate) fn blank(&self, basis: Basis) -> Poly {
        Poly::blank(basis, self.size(), self.pool.take(basis.len() * self.size()))
    }

    /// The same for what stays for long, as keys do: no larger than it has to be.
    pub(crate) fn blank_to_keep(&self, basis: Basis) -> Poly {
        Poly::blank(basis, self.size(), self.pool.take_exactly(basis.len() * self.size()))
    }

    /// Some rows, to be written before they are read.
    pub(crate) fn blank_rows(&self, count: usize) -> Words {
        self.pool.take(count * self.size())
    }

    /// Some words, to be written before they are read.
    pub(crate) fn blank_words(&self, count: usize) -> Words {
        self.pool.take(count)
    }

    /// What numbers are multiplied by, unless somebody says otherwise.
    pub fn scale(&self) -> f64 {
        2_f64.powi(self.set.scale_log2 as i32)
    }

    /// The transform between n numbers and coefficients.
    pub fn embedding(&self, slots_log2: u32) -> &Embedding {
        self.embeddings[slots_log2 as usize].get_or_init(|| Embedding::new(slots_log2))
    }

    /// The product of the first `special` special primes, modulo another.
    pub fn special_product(&self, special: usize, modulus: Modulus) -> u64 {
        let primes = self.set.special[..special].iter();
        primes.fold(1, |product, prime| modulus.mul(product, modulus.reduce(*prime)))
    }

    /// The digits that a level has primes of.
    pub(crate) fn digits(&self, level: usize) -> impl Iterator<Item = &Digit> + Clone {
        self.digits.iter().take_while(move |digit| digit.rows.start <= level)
    }

    /// What takes away the special primes of a basis, and what it has of the chain above a level.
    pub(crate) fn lowering(&self, basis: Basis, level: usize) -> &Lowering {
        let lowering = &self.lowerings[&basis.special][basis.level][basis.level - level];
        lowering.as_ref().expect("primes that go, and primes that stay")
    }

    /// From the first prime to all others.
    pub(crate) fn raising(&self) -> &BasisChange {
        &self.raising
    }

    /// How much memory is in use, of everybody who computes with this ring.
    pub fn memory_use(&self) -> MemoryUse {
        self.pool.memory_use()
    }

    /// Every number times i, which is X^(N / 2): exact, and at no cost of levels.
    pub(crate) fn times_i(&self, index: usize, row: &mut [u64]) {
        for (half, factor) in row.chunks_exact_mut(self.size() / 2).zip(self.imaginary[index]) {
            self.primes[index].pointwise.scale(half, factor);
        }
    }

    /// Adds the number times i to every number, given what it is modulo the prime.
    pub(crate) fn add_imaginary(&self, index: usize, row: &mut [u64], number: u64) {
        for (half, factor) in row.chunks_exact_mut(self.size() / 2).zip(self.imaginary[index]) {
            self.primes[index].pointwise.add_constant(half, factor.times(number));
        }
    }

    /// Coefficients as values, row by row.
    pub fn forward(&self, poly: &mut Poly) {
        for (prime, row) in self.primes(poly.basis()).zip(poly.rows_mut()) {
            prime.ntt.forward(&mut [row]);
        }
    }

    /// Values as coefficients, row by row.
    pub fn inverse(&self, poly: &mut Poly) {
        for (prime, row) in self.primes(poly.basis()).zip(poly.rows_mut()) {
            prime.ntt.inverse(&mut [row]);
        }
    }

    /// A polynomial with these coefficients, by its values.
    pub fn of_coefficients(&self, basis: Basis, coefficients: &[i128]) -> Poly {
        let mut poly = self.blank(basis);
        for (prime, row) in self.primes(basis).zip(poly.rows_mut()) {
            let modulus = prime.modulus();
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

/// X^(N / 2) has two values, a root of -1 and its negative: one in the first half of all places, one in the second.
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
