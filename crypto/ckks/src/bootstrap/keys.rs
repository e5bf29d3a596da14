//! What a bootstrap needs of a client.

use crate::{
    error::CkksError,
    key::{EvaluationKeys, Gadget, MoveKey, SeededSwitchKey, SwitchKey},
    poly::Basis,
    ring::Ring,
};

/// Keys for bootstraps, as a client makes them.
pub struct SeededBootstrapKeys {
    /// From the secret to a sparse one, modulo the first prime and the first special one: nothing else is ever under that.
    pub to_sparse: SeededSwitchKey,
    /// From the sparse secret to the secret.
    pub to_dense: SeededSwitchKey,
    /// For products.
    pub relinearization: SeededSwitchKey,
    /// By power of X.
    pub moves: Vec<(usize, SeededSwitchKey)>,
}

/// The same, as a computation reads them.
pub struct BootstrapKeys {
    pub(super) to_sparse: SwitchKey,
    pub(super) to_dense: SwitchKey,
    /// For products and moves.
    pub evaluation: EvaluationKeys,
}

impl BootstrapKeys {
    /// Computes the masks, if the keys are those of the ring.
    pub fn expand(ring: &Ring, seeded: SeededBootstrapKeys) -> Result<Self, CkksError> {
        let SeededBootstrapKeys { to_sparse, to_dense, relinearization, moves } = seeded;
        let expand = |key| SwitchKey::expand(ring, key);
        let moves = moves.into_iter().map(|(power, key)| Ok((power, MoveKey::new(ring, power, expand(key)?)?)));
        let evaluation =
            EvaluationKeys { relinearization: Some(expand(relinearization)?), moves: moves.collect::<Result<_, _>>()? };
        Self::new(expand(to_sparse)?, expand(to_dense)?, evaluation)
    }

    /// The keys between the two secrets, and those for products and moves.
    pub fn new(to_sparse: SwitchKey, to_dense: SwitchKey, evaluation: EvaluationKeys) -> Result<Self, CkksError> {
        if to_sparse.basis() != (Basis { level: 0, special: 1 }) || to_dense.gadget() != Gadget::Whole {
            return Err(CkksError::MalformedKey { what: "the sparse secret is not where it belongs" });
        }
        Ok(Self { to_sparse, to_dense, evaluation })
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let keys = [&self.to_sparse, &self.to_dense].into_iter().chain(&self.evaluation.relinearization);
        keys.map(SwitchKey::bytes).chain(self.evaluation.moves.values().map(MoveKey::bytes)).sum()
    }
}
