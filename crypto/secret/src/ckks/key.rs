//! The secret polynomial.

use std::fmt;

use cloakwork_ckks::{Basis, Poly, Ring};
use cloakwork_params::{KeyId, ckks::CkksSet};
use zeroize::{Zeroize, Zeroizing};

use crate::{Randomness, SecretError};

/// A client's secret key for CKKS, with a random public identifier.
pub struct SecretKey {
    key_id: KeyId,
    set: &'static CkksSet,
    coefficients: Zeroizing<Vec<i8>>,
}

impl SecretKey {
    /// Generates a fresh key.
    pub fn generate(set: &'static CkksSet, randomness: &mut Randomness) -> Result<Self, SecretError> {
        let key_id = randomness.key_id()?;
        let mut coefficients = Zeroizing::new(vec![0; set.size()]);
        randomness.secret().fill_sparse(set.secret_weight, &mut coefficients);
        Ok(Self { key_id, set, coefficients })
    }

    /// Takes over a secret from elsewhere if it is at least as strong as a fresh one of the set.
    /// Every coefficient must be -1, 0 or 1, and at least `secret_weight` of them must not be 0.
    /// Secrets from before sets had a weight have 2/3 of their coefficients not 0 and remain valid.
    pub(crate) fn from_parts(key_id: KeyId, set: &'static CkksSet, coefficients: Zeroizing<Vec<i8>>) -> Option<Self> {
        let is_ternary = coefficients.iter().fold(true, |all, one| all & (-1..=1).contains(one));
        let weight: usize = coefficients.iter().map(|one| usize::from(one & 1 != 0)).sum();
        let is_enough = is_ternary & (weight >= set.secret_weight);
        let is_valid = key_id != KeyId::NONE && coefficients.len() == set.size() && is_enough;
        is_valid.then_some(Self { key_id, set, coefficients })
    }

    /// The coefficients. SECRET.
    pub(crate) fn coefficients(&self) -> &[i8] {
        &self.coefficients
    }

    /// Random public identifier.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The set that the key was made for.
    pub fn set(&self) -> &'static CkksSet {
        self.set
    }

    /// Checks that a ring is that of the key's set.
    pub(super) fn check(&self, ring: &Ring) -> Result<(), SecretError> {
        if self.set == ring.set() { Ok(()) } else { Err(SecretError::SetNotInKey { set: ring.set().name }) }
    }

    /// Values of the secret polynomial modulo the primes of a basis.
    pub(super) fn values(&self, ring: &Ring, basis: Basis) -> SecretPoly {
        SecretPoly::of_small(ring, basis, self.coefficients.iter().map(|coefficient| i64::from(*coefficient)))
    }

    /// Values of the secret that the automorphism X to X^`power` maps to this one.
    pub(super) fn values_before(&self, ring: &Ring, basis: Basis, power: usize) -> SecretPoly {
        // Coefficient k of the preimage moves to k * power, where it is a coefficient of this
        // secret up to its sign.
        let size = self.coefficients.len();
        let before = (0..size).map(|place| {
            let to = place * power % (2 * size);
            let sign = if to < size { 1 } else { -1 };
            sign * i64::from(self.coefficients[to % size])
        });
        SecretPoly::of_small(ring, basis, before)
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SecretKey({}, {})", self.key_id, self.set.name)
    }
}

/// A polynomial that is wiped on drop.
pub(super) struct SecretPoly(pub(super) Poly);

impl SecretPoly {
    /// Evaluates the polynomial with these coefficients.
    pub(super) fn of_small(ring: &Ring, basis: Basis, coefficients: impl Iterator<Item = i64> + Clone) -> Self {
        Self(small(ring, basis, coefficients))
    }

    /// Adds this polynomial to `to`.
    pub(super) fn add_to(&self, ring: &Ring, to: &mut Poly) {
        for (row, prime) in ring.primes(self.0.basis()).enumerate() {
            prime.pointwise.add(to.row_mut(row), self.0.row(row));
        }
    }
}

/// Evaluates a polynomial with small coefficients.
pub(super) fn small(ring: &Ring, basis: Basis, coefficients: impl Iterator<Item = i64> + Clone) -> Poly {
    let mut poly = ring.zero(basis);
    for (prime, row) in ring.primes(basis).zip(poly.rows_mut()) {
        let modulus = prime.modulus();
        for (word, coefficient) in row.iter_mut().zip(coefficients.clone()) {
            // A mask of the sign selects the negative coefficients, without a division or a branch.
            *word = (coefficient as u64).wrapping_add(modulus.value() & (coefficient >> 63) as u64);
        }
    }
    ring.forward(&mut poly);
    poly
}

impl Drop for SecretPoly {
    fn drop(&mut self) {
        self.0.words_mut().zeroize();
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_params::ckks::{self, CKKS_SETS};

    use super::*;

    fn key(set: &'static CkksSet, seed: u64) -> SecretKey {
        SecretKey::generate(set, &mut Randomness::insecure_for_tests(seed)).expect("a key")
    }

    #[test]
    fn secrets_have_the_weight_of_their_set() {
        for set in CKKS_SETS {
            for seed in 0..10 {
                let key = key(set, seed);
                assert!(key.coefficients().iter().all(|one| (-1..=1).contains(one)));
                assert_eq!(key.coefficients().iter().filter(|one| **one != 0).count(), set.secret_weight);
            }
        }
    }

    /// Over many secrets, each position is equally often nonzero, each sign is equally frequent,
    /// and neighbouring coefficients are independent. The bounds are six standard deviations.
    #[test]
    fn positions_and_signs_of_secrets_are_uniform_and_independent() {
        const KEYS: u64 = 2000;
        let set = ckks::by_name("TOY_CKKS_54_60").expect("a set");
        let part = set.secret_weight as f64 / set.size() as f64;
        let (mut taken, mut sums) = (vec![0.0; set.size()], vec![0.0; set.size()]);
        let (mut both, mut equal) = (0.0, 0.0);
        for seed in 0..KEYS {
            let key = key(set, seed);
            for (place, one) in key.coefficients().iter().enumerate() {
                let next = key.coefficients()[(place + 1) % set.size()];
                taken[place] += f64::from(one * one);
                sums[place] += f64::from(*one);
                both += f64::from((one * next).abs());
                equal += f64::from(one * next);
            }
        }
        let keys = KEYS as f64;
        let most = |values: &[f64], mean: f64| values.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max);
        assert!(most(&taken, keys * part) < 6.0 * (keys * part * (1.0 - part)).sqrt());
        assert!(most(&sums, 0.0) < 6.0 * (keys * part).sqrt());
        let sum: f64 = sums.iter().sum();
        assert!(sum.abs() < 6.0 * (keys * set.secret_weight as f64).sqrt(), "{sum}");
        let pairs = keys * set.secret_weight as f64 * (set.secret_weight - 1) as f64 / (set.size() - 1) as f64;
        assert!((both - pairs).abs() < 6.0 * pairs.sqrt(), "{both}, expected {pairs}");
        assert!(equal.abs() < 6.0 * pairs.sqrt(), "{equal}");
    }
}
