//! Parameter sets of CKKS, arithmetic on encrypted approximate numbers.

pub mod bootstrap;
pub mod chebyshev;
pub mod key_use;
pub mod layout;
pub mod offsets;
mod rows;

use std::ops::Range;

pub use rows::CKKS_SETS;

use crate::set::{SetId, Standing};

/// Every number that a CKKS computation needs, with its provenance. Sets exist only as rows of [`CKKS_SETS`].
///
/// A ciphertext of level l is modulo the first l + 1 primes of the chain; a multiplication takes the last of them away.
#[derive(Debug, PartialEq)]
pub struct CkksSet {
    /// Stable number, as on the wire; no set of TFHE has it.
    pub id: SetId,
    /// Name.
    pub name: &'static str,
    /// log2 of N, the coefficients of a polynomial. Half as many numbers fit a ciphertext.
    pub size_log2: u32,
    /// The chain: primes that ciphertexts are modulo, the last one to be taken away first.
    pub chain: &'static [u64],
    /// Primes that only keys and what is switched between them are modulo.
    pub special: &'static [u64],
    /// Primes of the chain that make a digit of a key switch, digit by digit from the first prime on.
    pub digit_sizes: &'static [usize],
    /// log2 of what numbers are multiplied by to be whole ones.
    pub scale_log2: u32,
    /// The highest level that numbers are encrypted at and computed on: the primes above it are for bootstraps.
    pub working_level: usize,
    /// Coefficients of a secret that are not zero, but -1 or 1: all secrets with so many are as likely as each other. The fewer
    /// they are, the less noise is left by a division of a ciphertext.
    pub secret_weight: usize,
    /// Standard deviation of the noise, in steps of the modulus.
    pub noise: f64,
    /// How ciphertexts get new levels.
    pub bootstrap: CkksBootstrap,
    /// Cost of the best of the attacks that were estimated.
    pub security: CkksSecurity,
    /// May a server use it without being told to allow weak sets?
    pub standing: Standing,
    /// Where the numbers were read.
    pub source: &'static str,
}

/// The numbers of a bootstrap: it raises a ciphertext of level 0, under a sparse secret of its own, to a high level, turns
/// coefficients to numbers, takes multiples of the first prime off them, and turns them back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CkksBootstrap {
    /// Coefficients of the sparse secret that are not zero.
    pub sparse_weight: usize,
    /// log2 of what the attack costs that docs/ckks.md names, on the sparse secret, modulo the first and the first special prime.
    pub sparse_security_log2: f64,
    /// log2 of the probability that a raised coefficient is off by more multiples of the first prime than are taken off it.
    pub coefficient_failure_log2: f64,
    /// How often the angle of a cosine is doubled, two or three times: more often is faster, and has more noise.
    pub doublings: usize,
    /// The level that is raised to, by the number of matrices for turning coefficients to numbers, from 1 on.
    pub raised: [usize; 5],
}

/// log2 of the least cost of an attack on a key modulo all primes, among those that were estimated, and their provenance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CkksSecurity {
    /// log2 of the cost.
    pub log2: f64,
    /// The attacks, their cost model, and what was not estimated.
    pub model: &'static str,
}

impl CkksBootstrap {
    /// Degree of the polynomial that is a cosine of the angle before it is doubled: the more often it is, the less the
    /// cosine goes up and down.
    pub const fn cosine_degree(&self) -> usize {
        match self.doublings {
            2 => 54,
            _ => 30,
        }
    }
}

impl CkksSet {
    /// N.
    pub const fn size(&self) -> usize {
        1 << self.size_log2
    }

    /// log2 of the probability that a bootstrap loses its ciphertext, which any of N coefficients does.
    pub fn failure_log2(&self) -> f64 {
        self.bootstrap.coefficient_failure_log2 + f64::from(self.size_log2)
    }

    /// Numbers in a ciphertext, at most.
    pub const fn slots(&self) -> usize {
        self.size() / 2
    }

    /// Places in the chain of the primes of each digit, of all its primes.
    pub fn digits(&self) -> impl Iterator<Item = Range<usize>> + Clone {
        self.digit_sizes.iter().scan(0, |end, size| {
            *end += size;
            Some(*end - size..*end)
        })
    }

    /// The highest level of a ciphertext.
    pub const fn level_max(&self) -> usize {
        self.chain.len() - 1
    }

    /// Bytes of a polynomial modulo the chain up to a level and some special primes, each residue in as many bits as its
    /// prime has: a row of N of them is whole bytes.
    pub fn packed_bytes(&self, level: usize, special: usize) -> u64 {
        let primes = self.chain[..=level].iter().chain(&self.special[..special]);
        let bits: u64 = primes.map(|prime| u64::from(prime.ilog2()) + 1).sum();
        self.size() as u64 / 8 * bits
    }

    /// log2 of the product of all primes, which security is estimated for.
    pub fn modulus_log2(&self) -> f64 {
        self.chain.iter().chain(self.special).map(|prime| (*prime as f64).log2()).sum()
    }
}

/// The set with this name.
pub fn by_name(name: &str) -> Option<&'static CkksSet> {
    CKKS_SETS.iter().find(|set| set.name == name)
}

/// The set with this number.
pub fn find(id: SetId) -> Option<&'static CkksSet> {
    CKKS_SETS.iter().find(|set| set.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;

    #[test]
    fn numbers_and_names_are_nobody_elses() {
        for (index, set) in CKKS_SETS.iter().enumerate() {
            assert!(table::find(set.id).is_none() && table::by_name(set.name).is_none(), "{}", set.name);
            assert!(CKKS_SETS[..index].iter().all(|other| other.id != set.id && other.name != set.name));
            assert_eq!((find(set.id), by_name(set.name)), (Some(set), Some(set)));
        }
    }

    #[test]
    fn a_bootstrap_loses_nothing_that_anybody_will_see() {
        for set in CKKS_SETS {
            let weight = set.bootstrap.sparse_weight as u32;
            let permutations: f64 = (1..=weight).map(|count| f64::from(count).log2()).sum();
            let of_coefficient = 1.0 - f64::from(weight) - permutations;
            assert!((set.bootstrap.coefficient_failure_log2 - of_coefficient).abs() < 0.01, "{of_coefficient}");
            assert!(set.failure_log2() <= -128.0, "{}: 2^{}", set.name, set.failure_log2());
            // A message takes room away: numbers of one, at twice the scale, at most. As in docs/ckks.md.
            let message = 2_f64.powi(set.scale_log2 as i32 + 1) / set.chain[0] as f64;
            let of_coefficient = 1.0 + f64::from(weight) * (0.5 + message).log2() - permutations;
            let at_most = of_coefficient + f64::from(set.size_log2);
            assert!(at_most <= -129.8, "{}: 2^{at_most}", set.name);
        }
    }

    #[test]
    fn chains_are_different_primes_cut_into_digits_that_the_special_ones_outweigh() {
        for set in CKKS_SETS {
            let primes: Vec<u64> = set.chain.iter().chain(set.special).copied().collect();
            for (index, prime) in primes.iter().enumerate() {
                assert_eq!(prime % (2 << set.size_log2), 1, "{}: {prime:#x} has no root of order 2N", set.name);
                assert!(!primes[..index].contains(prime), "{}: {prime:#x} twice", set.name);
            }
            assert_eq!(set.digit_sizes.iter().sum::<usize>(), set.chain.len(), "{}", set.name);
            let bits = |primes: &[u64]| primes.iter().map(|prime| (*prime as f64).log2()).sum::<f64>();
            let mut rest = set.chain;
            for digit in set.digit_sizes {
                let (of_digit, after) = rest.split_at(*digit);
                assert!(bits(of_digit) <= bits(set.special) + 0.5, "{}: a digit of {digit}", set.name);
                rest = after;
            }
        }
    }

    /// The table of the guidelines for homomorphic encryption: bits of the modulus that a ring bears at 128 bits of security.
    /// It is for uniform ternary secrets; what fewer coefficients mean for that is what the next test is about.
    #[test]
    fn what_is_served_is_within_the_guidelines() {
        const BEARS: [(u32, f64); 5] = [(13, 214.0), (14, 430.0), (15, 868.0), (16, 1747.0), (17, 3523.0)];
        for set in served() {
            let bears = BEARS.iter().find(|(size_log2, _)| *size_log2 == set.size_log2).map(|(_, bits)| *bits);
            assert!(bears.is_some_and(|bits| set.modulus_log2() <= bits), "{}: {}", set.name, set.modulus_log2());
            assert!(set.security.log2 >= 128.0 && set.bootstrap.sparse_security_log2 >= 128.0, "{}", set.name);
        }
    }

    /// log2 of what attacks cost, for 1024 coefficients of 2^16 that are not zero: primal uSVP and hybrid, dual and dual hybrid.
    /// As in docs/ckks.md.
    #[test]
    fn security_is_the_least_of_what_was_estimated() {
        const ESTIMATES: [(f64, [f64; 4]); 2] =
            [(1704.0, [131.2, 131.8, 132.1, 131.9]), (1713.0, [130.4, 131.1, 131.3, 131.3])];
        for set in served() {
            assert_eq!((set.size_log2, set.secret_weight), (16, 1024), "{}", set.name);
            // Primes are not quite powers of two.
            let costs =
                ESTIMATES.iter().find(|(bits, _)| (set.modulus_log2() - bits).abs() < 0.01).map(|(_, costs)| costs);
            let least = costs.and_then(|costs| costs.iter().copied().min_by(f64::total_cmp));
            assert_eq!(Some(set.security.log2), least, "{}", set.name);
        }
    }

    /// The sparse secret of a bootstrap has an estimate of its own, modulo two primes: no other secret is to be like it.
    #[test]
    fn secrets_are_denser_than_the_sparse_one() {
        for set in CKKS_SETS {
            let is_between = 4 * set.bootstrap.sparse_weight <= set.secret_weight && set.secret_weight <= set.size();
            assert!(is_between, "{}: {}", set.name, set.secret_weight);
        }
    }

    fn served() -> impl Iterator<Item = &'static CkksSet> {
        CKKS_SETS.iter().filter(|set| set.standing == Standing::Served)
    }
}
