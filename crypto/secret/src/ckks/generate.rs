//! Generation of evaluation keys for a server.

use cloakwork_ckks::{
    Basis, Bootstrap, Gadget, KeyPart, KeyPlan, Poly, Ring,
    bootstrap::SeededBootstrapKeys,
    key::{SeededSwitchKey, conjugation_power, masks, rotation_power},
};
use cloakwork_params::ckks::layout::{KeyShape, Purpose};
use zeroize::Zeroizing;

use super::{
    SecretKey,
    key::{SecretPoly, small},
};
use crate::{Randomness, SecretError};

/// Generates the evaluation keys of one secret key.
pub struct KeyGenerator<'a> {
    key: &'a SecretKey,
    ring: &'a Ring,
}

impl<'a> KeyGenerator<'a> {
    /// Creates a generator for a key and the ring of its set.
    pub fn new(key: &'a SecretKey, ring: &'a Ring) -> Self {
        assert_eq!(key.set(), ring.set(), "a key and the ring of its set");
        Self { key, ring }
    }

    /// Generates the relinearization key for products of ciphertexts up to a level.
    pub fn relinearization(&self, level: usize, randomness: &mut Randomness) -> Result<SeededSwitchKey, SecretError> {
        let basis = self.basis(level);
        let secret = self.key.values(self.ring, basis);
        let mut square = self.key.values(self.ring, basis);
        for ((prime, row), other) in self.ring.primes(basis).zip(square.0.rows_mut()).zip(secret.0.rows()) {
            prime.pointwise.multiply(row, other);
        }
        self.switch_key(&square, &secret, Gadget::Digits, randomness)
    }

    /// Generates the rotation key for rotations by `steps` to the left, up to a level. Returns the
    /// power of X that identifies the automorphism, and the key.
    pub fn rotation(
        &self,
        steps: i64,
        level: usize,
        randomness: &mut Randomness,
    ) -> Result<(usize, SeededSwitchKey), SecretError> {
        self.move_key(rotation_power(self.ring, steps), level, randomness)
    }

    /// Generates the key for complex conjugates, up to a level.
    pub fn conjugation(
        &self,
        level: usize,
        randomness: &mut Randomness,
    ) -> Result<(usize, SeededSwitchKey), SecretError> {
        self.move_key(conjugation_power(self.ring), level, randomness)
    }

    /// Generates all keys of a bootstrap. Each call draws a sparse secret and drops it at the end.
    pub fn bootstrap(
        &self,
        bootstrap: &Bootstrap<'_>,
        randomness: &mut Randomness,
    ) -> Result<SeededBootstrapKeys, SecretError> {
        self.key.check(bootstrap.ring())?;
        let mut plan = KeyPlan::default();
        plan.bootstrap(self.ring, bootstrap.shape())?;
        let parts = self.parts(&plan, randomness)?.collect::<Result<Vec<_>, _>>()?;
        Ok(SeededBootstrapKeys::of_parts(parts)?)
    }

    /// Generates the keys of a plan one after the other, so that memory never holds all of them.
    /// All bootstraps of the plan share one sparse secret, which is dropped with the last key.
    pub fn parts(
        &self,
        plan: &KeyPlan,
        randomness: &mut Randomness,
    ) -> Result<impl Iterator<Item = Result<KeyPart, SecretError>>, SecretError> {
        let sparse = self.sparse_secret(randomness)?;
        let shapes: Vec<KeyShape> = plan.shapes().collect();
        Ok(shapes.into_iter().map(move |KeyShape { purpose, level }| {
            let key = match purpose {
                Purpose::Relinearization => self.relinearization(level, randomness)?,
                Purpose::Move { power } => self.move_key(power, level, randomness)?.1,
                Purpose::ToSparse => self.to_sparse(&sparse, randomness)?,
                Purpose::ToDense => self.to_dense(&sparse, level, randomness)?,
            };
            Ok(KeyPart { purpose, key })
        }))
    }

    fn sparse_secret(&self, randomness: &mut Randomness) -> Result<Zeroizing<Vec<i8>>, SecretError> {
        let mut sparse = Zeroizing::new(vec![0; self.ring.size()]);
        randomness.renewed_secret()?.fill_sparse(self.ring.set().bootstrap.sparse_weight, &mut sparse);
        Ok(sparse)
    }

    /// Generates the key that switches from the secret to a sparse one, modulo two primes. A sparse
    /// secret is weak under a large modulus.
    fn to_sparse(&self, sparse: &[i8], randomness: &mut Randomness) -> Result<SeededSwitchKey, SecretError> {
        let lowest = Basis { level: 0, special: 1 };
        let (from, to) = (self.key.values(self.ring, lowest), self.values_of(sparse, lowest));
        self.switch_key(&from, &to, Gadget::Digits, randomness)
    }

    fn to_dense(
        &self,
        sparse: &[i8],
        level: usize,
        randomness: &mut Randomness,
    ) -> Result<SeededSwitchKey, SecretError> {
        let basis = self.basis(level);
        let (from, to) = (self.values_of(sparse, basis), self.key.values(self.ring, basis));
        self.switch_key(&from, &to, Gadget::Whole, randomness)
    }

    fn values_of(&self, sparse: &[i8], basis: Basis) -> SecretPoly {
        SecretPoly::of_small(self.ring, basis, sparse.iter().map(|one| i64::from(*one)))
    }

    fn move_key(
        &self,
        power: usize,
        level: usize,
        randomness: &mut Randomness,
    ) -> Result<(usize, SeededSwitchKey), SecretError> {
        let basis = self.basis(level);
        let (from, to) = (self.key.values(self.ring, basis), self.key.values_before(self.ring, basis, power));
        Ok((power, self.switch_key(&from, &to, Gadget::Digits, randomness)?))
    }

    fn basis(&self, level: usize) -> Basis {
        Basis { level, special: self.ring.set().special.len() }
    }

    /// Encrypts under `to` the gadget parts of `from`, times the product of the special primes.
    fn switch_key(
        &self,
        from: &SecretPoly,
        to: &SecretPoly,
        gadget: Gadget,
        randomness: &mut Randomness,
    ) -> Result<SeededSwitchKey, SecretError> {
        let (ring, basis) = (self.ring, to.0.basis());
        let seed = randomness.mask_seed()?;
        let body = |part: usize, randomness: &mut Randomness| -> Poly {
            let mut body = body_of_zero(ring, &masks(ring, &seed, basis, part), to, randomness);
            for (row, (index, prime)) in ring.indices(basis).zip(ring.primes(basis)).enumerate() {
                if row <= basis.level && gadget.holds(ring, part, index) {
                    let modulus = prime.modulus();
                    let mut raised = Zeroizing::new(from.0.row(row).to_vec());
                    prime.pointwise.scale(&mut raised, modulus.factor(ring.special_product(basis.special, modulus)));
                    prime.pointwise.add(body.row_mut(row), &raised);
                }
            }
            body
        };
        let bodies = (0..gadget.parts(ring, basis.level)).map(|part| body(part, randomness)).collect();
        Ok(SeededSwitchKey { basis, gadget, seed, bodies })
    }
}

/// Computes the body of an encryption of zero with this mask: noise minus the mask times the
/// secret.
pub(super) fn body_of_zero(ring: &Ring, mask: &Poly, secret: &SecretPoly, randomness: &mut Randomness) -> Poly {
    let basis = mask.basis();
    let mut body = noise(ring, basis, randomness);
    for (row, prime) in ring.primes(basis).enumerate() {
        let mut product = Zeroizing::new(mask.row(row).to_vec());
        prime.pointwise.multiply(&mut product, secret.0.row(row));
        prime.pointwise.sub(body.row_mut(row), &product);
    }
    body
}

/// Draws a noise polynomial, in its evaluated form.
pub(super) fn noise(ring: &Ring, basis: Basis, randomness: &mut Randomness) -> Poly {
    let mut coefficients = Zeroizing::new(vec![0; ring.size()]);
    randomness.secret().fill_gaussian(ring.set().noise, &mut coefficients);
    small(ring, basis, coefficients.iter().copied())
}
