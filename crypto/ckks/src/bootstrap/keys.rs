//! What a bootstrap needs of a client.

use crate::{
    key::{EvaluationKeys, MoveKey, SeededSwitchKey, SwitchKey},
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
    /// Computes the masks.
    pub fn expand(ring: &Ring, seeded: SeededBootstrapKeys) -> Self {
        let SeededBootstrapKeys { to_sparse, to_dense, relinearization, moves } = seeded;
        let expand = |key| SwitchKey::expand(ring, key);
        let moves = moves.into_iter().map(|(power, key)| (power, MoveKey::new(ring, power, expand(key)))).collect();
        let evaluation = EvaluationKeys { relinearization: Some(expand(relinearization)), moves };
        Self { to_sparse: expand(to_sparse), to_dense: expand(to_dense), evaluation }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let moves = self.evaluation.moves.values().map(|mover| &mover.key);
        let keys = [&self.to_sparse, &self.to_dense].into_iter().chain(&self.evaluation.relinearization).chain(moves);
        keys.map(SwitchKey::bytes).sum()
    }
}
