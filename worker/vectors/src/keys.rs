//! Keys that a program runs with.

use cloakwork_ckks::{BootstrapKeys, CkksError, EvaluationKeys, KeyPart, Ring, SwitchKey, key::MoveKey};
use cloakwork_params::ckks::layout::Purpose;

/// Keys of one client, as a computation reads them.
pub enum Keys {
    /// Of a program without bootstraps.
    Evaluation(EvaluationKeys),
    /// Of one that has them.
    Bootstrap(BootstrapKeys),
}

/// A part of a key, with its masks. A clone shares what it holds: keys for several programs have parts in common.
#[derive(Clone)]
pub enum Part {
    /// For products.
    Relinearization(SwitchKey),
    /// For rotations and conjugates: X becomes X to a power.
    Move(usize, MoveKey),
    /// The way into a bootstrap.
    ToSparse(SwitchKey),
    /// The way back.
    ToDense(SwitchKey),
}

impl Part {
    /// Computes the masks, on so many threads.
    pub fn expand(ring: &Ring, KeyPart { purpose, key }: KeyPart, threads: usize) -> Result<Self, CkksError> {
        let key = SwitchKey::expand_on(ring, key, threads)?;
        Ok(match purpose {
            Purpose::Relinearization => Self::Relinearization(key),
            Purpose::Move { power } => Self::Move(power, MoveKey::new(ring, power, key)?),
            Purpose::ToSparse => Self::ToSparse(key),
            Purpose::ToDense => Self::ToDense(key),
        })
    }

    /// What it is for.
    pub fn purpose(&self) -> Purpose {
        match self {
            Self::Relinearization(_) => Purpose::Relinearization,
            Self::Move(power, _) => Purpose::Move { power: *power },
            Self::ToSparse(_) => Purpose::ToSparse,
            Self::ToDense(_) => Purpose::ToDense,
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Relinearization(key) | Self::ToSparse(key) | Self::ToDense(key) => key.bytes(),
            Self::Move(_, key) => key.bytes(),
        }
    }
}

impl Keys {
    /// Of parts, each of which is there once. With those of the sparse secret, they are for bootstraps.
    pub fn of_parts(parts: impl IntoIterator<Item = Part>) -> Result<Self, CkksError> {
        let mut evaluation = EvaluationKeys::default();
        let (mut to_sparse, mut to_dense) = (None, None);
        for part in parts {
            let purpose = part.purpose();
            let is_double = match part {
                Part::Relinearization(key) => evaluation.relinearization.replace(key).is_some(),
                Part::Move(power, key) => evaluation.moves.insert(power, key).is_some(),
                Part::ToSparse(key) => to_sparse.replace(key).is_some(),
                Part::ToDense(key) => to_dense.replace(key).is_some(),
            };
            if is_double {
                return Err(CkksError::DoubleKey { what: purpose.to_string() });
            }
        }
        match (to_sparse, to_dense) {
            (None, None) => Ok(Self::Evaluation(evaluation)),
            (Some(to_sparse), Some(to_dense)) => {
                BootstrapKeys::new(to_sparse, to_dense, evaluation).map(Self::Bootstrap)
            }
            (Some(_), None) => Err(CkksError::MissingKey { what: Purpose::ToDense.to_string() }),
            (None, Some(_)) => Err(CkksError::MissingKey { what: Purpose::ToSparse.to_string() }),
        }
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
