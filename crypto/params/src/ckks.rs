//! Parameter sets of CKKS, which is arithmetic on encrypted approximate numbers.

pub mod bootstrap;
pub mod chebyshev;
pub mod key_use;
pub mod layout;
pub mod offsets;
mod rows;

use std::ops::Range;

pub use rows::CKKS_SETS;

use crate::set::{SetId, Standing};

/// Every number that a CKKS computation needs, with its provenance. Sets exist only as rows of
/// [`CKKS_SETS`].
///
/// The modulus of a ciphertext of level l is the product of the first l + 1 primes of the chain.
/// The rescaling after a multiplication removes the last of these primes.
#[derive(Debug, PartialEq)]
pub struct CkksSet {
    /// Stable number, as on the wire. No set of TFHE has this number.
    pub id: SetId,
    /// Name of the set.
    pub name: &'static str,
    /// log2 of N, the number of coefficients of a polynomial. A ciphertext has room for N / 2
    /// numbers.
    pub size_log2: u32,
    /// The chain: the primes of the ciphertext modulus. The last prime is removed first.
    pub chain: &'static [u64],
    /// Special primes, which are moduli only of keys and of intermediate results of key switches.
    pub special: &'static [u64],
    /// Number of chain primes in each digit of a key switch, digit by digit from the first prime
    /// on.
    pub digit_sizes: &'static [usize],
    /// log2 of the scale, by which numbers are multiplied to become integers.
    pub scale_log2: u32,
    /// Number of digits behind the point that results keep. The last one is about ten bits above
    /// the error of a bootstrap (docs/ckks.md).
    pub result_digits: u8,
    /// The highest level at which numbers are encrypted and computed on. The primes above this
    /// level are for bootstraps.
    pub working_level: usize,
    /// Number of nonzero coefficients of a secret, each -1 or 1. All secrets of this weight are
    /// equally likely. A secret with lower weight leaves less noise when a ciphertext is divided.
    pub secret_weight: usize,
    /// Standard deviation of the noise, in steps of the modulus.
    pub noise: f64,
    /// Parameters of the bootstrap, which gives ciphertexts new levels.
    pub bootstrap: CkksBootstrap,
    /// Cost of the best of the estimated attacks.
    pub security: CkksSecurity,
    /// Whether a server may use the set without an explicit permission for weak sets.
    pub standing: Standing,
    /// Source of the numbers.
    pub source: &'static str,
}

/// Parameters of a bootstrap. Under a sparse secret of its own, a bootstrap raises a ciphertext of
/// level 0 to a high level. The bootstrap then moves the coefficients into the slots (CoeffToSlot),
/// removes multiples of the first prime, and moves the coefficients back (SlotToCoeff).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CkksBootstrap {
    /// Number of nonzero coefficients of the sparse secret.
    pub sparse_weight: usize,
    /// log2 of the cost of the attack that docs/ckks.md names, on the sparse secret, modulo the
    /// first prime and the first special prime.
    pub sparse_security_log2: f64,
    /// log2 of the probability that a raised coefficient contains more multiples of the first prime
    /// than the bootstrap removes.
    pub coefficient_failure_log2: f64,
    /// Number of times that the angle of the cosine is doubled, two or three. More doublings are
    /// faster and add more noise.
    pub doublings: usize,
    /// Level after raising, by the number of CoeffToSlot matrices, from 1 on.
    pub raised: [usize; 5],
}

/// log2 of the least cost of an attack on a key modulo all primes, among the estimated attacks, and
/// their provenance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CkksSecurity {
    /// log2 of the cost.
    pub log2: f64,
    /// The attacks, their cost model, and the attacks that were not estimated.
    pub model: &'static str,
}

impl CkksBootstrap {
    /// Degree of the polynomial that approximates the cosine of the angle before doubling. With
    /// more doublings, the cosine oscillates less and needs a lower degree.
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

    /// log2 of the probability that a bootstrap loses its ciphertext. A failure of any of the N
    /// coefficients is enough.
    pub fn failure_log2(&self) -> f64 {
        self.bootstrap.coefficient_failure_log2 + f64::from(self.size_log2)
    }

    /// Maximum number of numbers in a ciphertext.
    pub const fn slots(&self) -> usize {
        self.size() / 2
    }

    /// Indices in the chain of each digit's primes, for a modulus of all chain primes.
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

    /// Bytes of a polynomial modulo the chain up to a level and some special primes. Each residue
    /// takes as many bits as its prime. A row of N residues fills whole bytes.
    pub fn packed_bytes(&self, level: usize, special: usize) -> u64 {
        let primes = self.chain[..=level].iter().chain(&self.special[..special]);
        let bits: u64 = primes.map(|prime| u64::from(prime.ilog2()) + 1).sum();
        self.size() as u64 / 8 * bits
    }

    /// log2 of the product of all primes, the modulus of the security estimate.
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
    fn numbers_and_names_are_unique_across_schemes() {
        for (index, set) in CKKS_SETS.iter().enumerate() {
            assert!(table::find(set.id).is_none() && table::by_name(set.name).is_none(), "{}", set.name);
            assert!(CKKS_SETS[..index].iter().all(|other| other.id != set.id && other.name != set.name));
            assert_eq!((find(set.id), by_name(set.name)), (Some(set), Some(set)));
        }
    }

    #[test]
    fn bootstrap_failures_are_negligible() {
        for set in CKKS_SETS {
            let weight = set.bootstrap.sparse_weight as u32;
            let permutations: f64 = (1..=weight).map(|count| f64::from(count).log2()).sum();
            let of_coefficient = 1.0 - f64::from(weight) - permutations;
            assert!((set.bootstrap.coefficient_failure_log2 - of_coefficient).abs() < 0.01, "{of_coefficient}");
            assert!(set.failure_log2() <= -128.0, "{}: 2^{}", set.name, set.failure_log2());
            // The message reduces the margin: numbers have a magnitude of at most one, at twice the
            // scale, as in docs/ckks.md.
            let message = 2_f64.powi(set.scale_log2 as i32 + 1) / set.chain[0] as f64;
            let of_coefficient = 1.0 + f64::from(weight) * (0.5 + message).log2() - permutations;
            let at_most = of_coefficient + f64::from(set.size_log2);
            assert!(at_most <= -129.8, "{}: 2^{at_most}", set.name);
        }
    }

    #[test]
    fn chain_primes_differ_and_special_primes_outweigh_each_digit() {
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

    /// Compares with the table of the guidelines for homomorphic encryption: the maximum bits of a
    /// ring's modulus at 128 bits of security. The table is for uniform ternary secrets. The next
    /// test covers secrets with fewer nonzero coefficients.
    #[test]
    fn served_sets_are_within_the_guidelines() {
        const MODULUS_BITS_MAX: [(u32, f64); 5] = [(13, 214.0), (14, 430.0), (15, 868.0), (16, 1747.0), (17, 3523.0)];
        for set in served() {
            let bears =
                MODULUS_BITS_MAX.iter().find(|(size_log2, _)| *size_log2 == set.size_log2).map(|(_, bits)| *bits);
            assert!(bears.is_some_and(|bits| set.modulus_log2() <= bits), "{}: {}", set.name, set.modulus_log2());
        }
    }

    #[test]
    fn served_sets_have_128_bits_and_retired_ones_state_what_they_have() {
        for set in CKKS_SETS {
            let least = set.security.log2.min(set.bootstrap.sparse_security_log2);
            match set.standing {
                Standing::Served => assert!(least >= 128.0, "{}", set.name),
                Standing::Retired(reason) => {
                    assert!(least < 128.0 && reason.ends_with(&format!("2^{least:.1}")), "{}: {reason}", set.name);
                }
                Standing::Weak(_) | Standing::Toy => {
                    assert_eq!((set.security.log2, least), (0.0, 0.0), "{}", set.name);
                }
            }
        }
    }

    /// The sparse secret of a bootstrap has an estimate of its own, modulo two primes. No other
    /// secret may be as sparse.
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
