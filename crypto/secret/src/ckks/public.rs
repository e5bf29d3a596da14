//! Encryption with a public key.

use cloakwork_ckks::{Basis, Ciphertext, CkksError, Complex, Poly, Ring, SeededPublicKey, key::masks};
use cloakwork_params::{KeyId, ckks::CkksSet};
use zeroize::Zeroizing;

use super::{
    SecretKey,
    encrypt::Plain,
    generate::{body_of_zero, noise},
    key::{SecretPoly, small},
};
use crate::{Randomness, SecretError};

/// A public key with its mask expanded for encryption.
pub struct PublicKey {
    key_id: KeyId,
    set: &'static CkksSet,
    /// Body and mask, at the set's working level.
    polys: [Poly; 2],
}

impl SecretKey {
    /// Generates a public key of this secret. The public key belongs to the secret's key id.
    pub fn public_key(&self, ring: &Ring, randomness: &mut Randomness) -> Result<SeededPublicKey, SecretError> {
        self.check(ring)?;
        let (basis, seed) = (Basis::of_level(ring.set().working_level), randomness.mask_seed()?);
        let mask = masks(ring, &seed, basis, 0);
        let body = body_of_zero(ring, &mask, &self.values(ring, basis), randomness);
        Ok(SeededPublicKey { body, seed })
    }
}

impl PublicKey {
    /// Expands the mask if the key belongs to the ring.
    pub fn expand(ring: &Ring, key_id: KeyId, seeded: SeededPublicKey) -> Result<Self, SecretError> {
        let SeededPublicKey { body, seed } = seeded;
        let basis = Basis::of_level(ring.set().working_level);
        if body.basis() != basis || body.words().len() != basis.len() * ring.size() {
            return Err(CkksError::MalformedKey { what: "its level is not the working level of the set" }.into());
        }
        Ok(Self { key_id, set: ring.set(), polys: [body, masks(ring, &seed, basis, 0)] })
    }

    /// Random public identifier of the secret key.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// Encrypts a power of two of numbers, up to N / 2, at the given level and the set's own scale.
    /// The noise is multiplied by a fresh ternary polynomial and by the secret. The result is
    /// sqrt(2N / 3 + weight) times that of encryption with the secret key.
    pub fn encrypt(
        &self,
        ring: &Ring,
        numbers: &[Complex],
        level: usize,
        randomness: &mut Randomness,
    ) -> Result<Ciphertext, SecretError> {
        if self.set != ring.set() {
            return Err(SecretError::SetNotInKey { set: ring.set().name });
        }
        let Plain { poly, scale, slots_log2 } = Plain::of(ring, numbers, level)?;
        let basis = poly.0.basis();
        let mut ternary = Zeroizing::new(vec![0_i8; ring.size()]);
        randomness.renewed_secret()?.fill_ternary(&mut ternary);
        let once = SecretPoly(small(ring, basis, ternary.iter().map(|one| i64::from(*one))));
        let mut polys = [(); 2].map(|()| noise(ring, basis, randomness));
        for (row, prime) in ring.primes(basis).enumerate() {
            for (to, public) in polys.iter_mut().zip(&self.polys) {
                let mut product = Zeroizing::new(public.row(row).to_vec());
                prime.pointwise.multiply(&mut product, once.0.row(row));
                prime.pointwise.add(to.row_mut(row), &product);
            }
        }
        poly.add_to(ring, &mut polys[0]);
        Ok(Ciphertext { polys, scale, slots_log2 })
    }
}
