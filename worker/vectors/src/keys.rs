//! Evaluation keys of a program.

use cloakwork_ckks::{BootstrapKeys, CkksError, EvaluationKeys, KeyPart, Ring, SwitchKey, key::MoveKey};
use cloakwork_params::ckks::layout::Purpose;

/// Keys of one client, in the form that a computation reads.
pub enum Keys {
    /// Keys of a program without bootstraps.
    Evaluation(EvaluationKeys),
    /// Keys of a program with bootstraps.
    Bootstrap(BootstrapKeys),
}

/// A part of a key, with its masks. A clone shares the contents, because keys of several programs
/// have parts in common.
#[derive(Clone)]
pub enum Part {
    /// Key for products.
    Relinearization(SwitchKey),
    /// Key for rotations and conjugates, which map X to a power of X.
    Move(usize, MoveKey),
    /// Key that switches to the sparse secret, before a bootstrap.
    ToSparse(SwitchKey),
    /// Key that switches back to the dense secret.
    ToDense(SwitchKey),
}

impl Part {
    /// Computes the masks on `threads` threads.
    pub fn expand(ring: &Ring, KeyPart { purpose, key }: KeyPart, threads: usize) -> Result<Self, CkksError> {
        let key = SwitchKey::expand_on(ring, key, threads)?;
        Ok(match purpose {
            Purpose::Relinearization => Self::Relinearization(key),
            Purpose::Move { power } => Self::Move(power, MoveKey::new(ring, power, key)?),
            Purpose::ToSparse => Self::ToSparse(key),
            Purpose::ToDense => Self::ToDense(key),
        })
    }

    /// Purpose of the part.
    pub fn purpose(&self) -> Purpose {
        match self {
            Self::Relinearization(_) => Purpose::Relinearization,
            Self::Move(power, _) => Purpose::Move { power: *power },
            Self::ToSparse(_) => Purpose::ToSparse,
            Self::ToDense(_) => Purpose::ToDense,
        }
    }

    /// Bytes that the part occupies.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Relinearization(key) | Self::ToSparse(key) | Self::ToDense(key) => key.bytes(),
            Self::Move(_, key) => key.bytes(),
        }
    }
}

impl Keys {
    /// Assembles keys from parts, each of which occurs once. With the parts of the sparse secret,
    /// the keys allow bootstraps.
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

    /// The keys for products and moves.
    pub fn evaluation(&self) -> &EvaluationKeys {
        match self {
            Self::Evaluation(keys) => keys,
            Self::Bootstrap(keys) => &keys.evaluation,
        }
    }

    /// The keys for bootstraps.
    pub fn bootstrap(&self) -> Result<&BootstrapKeys, CkksError> {
        match self {
            Self::Evaluation(_) => Err(CkksError::MissingKey { what: "a bootstrap".to_owned() }),
            Self::Bootstrap(keys) => Ok(keys),
        }
    }
}
