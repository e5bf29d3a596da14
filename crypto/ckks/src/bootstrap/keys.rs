//! The keys of a client that a bootstrap needs.

use crate::{
    error::CkksError,
    key::{EvaluationKeys, Gadget, MoveKey, SeededSwitchKey, SwitchKey},
    poly::Basis,
    ring::Ring,
};

/// Keys for bootstraps in seeded form, as a client generates them.
pub struct SeededBootstrapKeys {
    /// Key switch from the secret to a sparse one, modulo the first prime and the first special
    /// prime. No other object is ever encrypted under the sparse secret.
    pub to_sparse: SeededSwitchKey,
    /// Key switch from the sparse secret to the secret.
    pub to_dense: SeededSwitchKey,
    /// Relinearization key, for products.
    pub relinearization: SeededSwitchKey,
    /// Rotation and conjugation keys, by power of X.
    pub moves: Vec<(usize, SeededSwitchKey)>,
}

/// Keys for bootstraps, expanded for computation.
pub struct BootstrapKeys {
    pub(super) to_sparse: SwitchKey,
    pub(super) to_dense: SwitchKey,
    /// Keys for products, rotations and conjugation.
    pub evaluation: EvaluationKeys,
}

impl BootstrapKeys {
    /// Expands the masks if the keys belong to the ring.
    pub fn expand(ring: &Ring, seeded: SeededBootstrapKeys) -> Result<Self, CkksError> {
        let SeededBootstrapKeys { to_sparse, to_dense, relinearization, moves } = seeded;
        let expand = |key| SwitchKey::expand(ring, key);
        let moves = moves.into_iter().map(|(power, key)| Ok((power, MoveKey::new(ring, power, expand(key)?)?)));
        let evaluation =
            EvaluationKeys { relinearization: Some(expand(relinearization)?), moves: moves.collect::<Result<_, _>>()? };
        Self::new(expand(to_sparse)?, expand(to_dense)?, evaluation)
    }

    /// Combines the keys between the two secrets and the keys for products, rotations and
    /// conjugation.
    pub fn new(to_sparse: SwitchKey, to_dense: SwitchKey, evaluation: EvaluationKeys) -> Result<Self, CkksError> {
        if to_sparse.basis() != (Basis { level: 0, special: 1 }) || to_dense.gadget() != Gadget::Whole {
            return Err(CkksError::MalformedKey {
                what: "a key to or from the sparse secret has the wrong basis or gadget",
            });
        }
        Ok(Self { to_sparse, to_dense, evaluation })
    }

    /// Size of the keys in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let keys = [&self.to_sparse, &self.to_dense].into_iter().chain(&self.evaluation.relinearization);
        keys.map(SwitchKey::bytes).chain(self.evaluation.moves.values().map(MoveKey::bytes)).sum()
    }
}
