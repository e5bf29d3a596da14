//! The secret polynomial.

use std::fmt;

use cloakwork_ckks::{Basis, Poly, Ring};
use cloakwork_params::{KeyId, ckks::CkksSet};
use zeroize::{Zeroize, Zeroizing};

use crate::{Randomness, SecretError};

/// A client's secret for CKKS, under a random public name.
pub struct SecretKey {
    key_id: KeyId,
    set: &'static CkksSet,
    coefficients: Zeroizing<Vec<i8>>,
}

impl SecretKey {
    /// A fresh one.
    pub fn generate(set: &'static CkksSet, randomness: &mut Randomness) -> Result<Self, SecretError> {
        let key_id = randomness.key_id()?;
        let mut coefficients = Zeroizing::new(vec![0; set.size()]);
        randomness.secret().fill_ternary(&mut coefficients);
        Ok(Self { key_id, set, coefficients })
    }

    /// Takes over a secret from elsewhere, if it is one of the set: -1, 0 or 1 for each coefficient.
    pub(crate) fn from_parts(key_id: KeyId, set: &'static CkksSet, coefficients: Zeroizing<Vec<i8>>) -> Option<Self> {
        let is_ternary = coefficients.iter().fold(true, |all, one| all & (-1..=1).contains(one));
        let is_one = key_id != KeyId::NONE && coefficients.len() == set.size() && is_ternary;
        is_one.then_some(Self { key_id, set, coefficients })
    }

    /// Its coefficients. SECRET.
    pub(crate) fn coefficients(&self) -> &[i8] {
        &self.coefficients
    }

    /// Public random name.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The set that the key was made for.
    pub fn set(&self) -> &'static CkksSet {
        self.set
    }

    /// Is a ring the one of the key's set?
    pub(super) fn check(&self, ring: &Ring) -> Result<(), SecretError> {
        if self.set == ring.set() { Ok(()) } else { Err(SecretError::SetNotInKey { set: ring.set().name }) }
    }

    /// Its values modulo the primes of a basis.
    pub(super) fn values(&self, ring: &Ring, basis: Basis) -> SecretPoly {
        SecretPoly::of_small(ring, basis, self.coefficients.iter().map(|coefficient| i64::from(*coefficient)))
    }

    /// Those of the secret that X to X^`power` turns into this one.
    pub(super) fn values_before(&self, ring: &Ring, basis: Basis, power: usize) -> SecretPoly {
        // Coefficient k of this one is, up to its sign, coefficient k of that one moved to k * power.
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

/// A polynomial that is wiped when it is dropped.
pub(super) struct SecretPoly(pub(super) Poly);

impl SecretPoly {
    /// With these coefficients, by its values.
    pub(super) fn of_small(ring: &Ring, basis: Basis, coefficients: impl Iterator<Item = i64> + Clone) -> Self {
        Self(small(ring, basis, coefficients))
    }

    /// `to += self`.
    pub(super) fn add_to(&self, ring: &Ring, to: &mut Poly) {
        for (row, prime) in ring.primes(self.0.basis()).enumerate() {
            prime.pointwise.add(to.row_mut(row), self.0.row(row));
        }
    }
}

/// A polynomial with small coefficients, by its values.
pub(super) fn small(ring: &Ring, basis: Basis, coefficients: impl Iterator<Item = i64> + Clone) -> Poly {
    let mut poly = ring.zero(basis);
    for (prime, row) in ring.primes(basis).zip(poly.rows_mut()) {
        let modulus = prime.modulus();
        for (word, coefficient) in row.iter_mut().zip(coefficients.clone()) {
            // Negative ones are told apart without a division, or a branch.
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
