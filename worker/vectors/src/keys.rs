//! Keys that a program runs with.

use cloakwork_ckks::{BootstrapKeys, CkksError, EvaluationKeys, KeyPart, Ring, bootstrap::SeededBootstrapKeys};
use cloakwork_params::ckks::layout::Purpose;

/// Keys of one client, as a computation reads them.
pub enum Keys {
    /// Of a program without bootstraps.
    Evaluation(EvaluationKeys),
    /// Of one that has them.
    Bootstrap(BootstrapKeys),
}

impl Keys {
    /// Computes the masks of parts, each of which is there once. With those of the sparse secret, they are for bootstraps.
    pub fn of_parts(ring: &Ring, parts: Vec<KeyPart>) -> Result<Self, CkksError> {
        let is_sparse = |part: &KeyPart| matches!(part.purpose, Purpose::ToSparse | Purpose::ToDense);
        if parts.iter().any(is_sparse) {
            let seeded = SeededBootstrapKeys::of_parts(parts)?;
            return BootstrapKeys::expand(ring, seeded).map(Self::Bootstrap);
        }
        EvaluationKeys::of_parts(ring, parts).map(Self::Evaluation)
    }

    /// For products and moves.
    pub fn evaluation(&self) -> &EvaluationKeys {
        match self {
            Self::Evaluation(keys) => keys,
            Self::Bootstrap(keys) => &keys.evaluation,
        }
    }

    /// For bootstraps.
    pub fn bootstrap(&self) -> Result<&BootstrapKeys, CkksError> {
        match self {
            Self::Evaluation(_) => Err(CkksError::MissingKey { what: "a bootstrap".to_owned() }),
            Self::Bootstrap(keys) => Ok(keys),
        }
    }
}
