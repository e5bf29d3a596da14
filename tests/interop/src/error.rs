//! What cannot be converted. No message carries a secret.

use cloakwork_secret::SecretError;
use cloakwork_tfhe::ShapeError;

/// A key or ciphertext that the other side has no counterpart for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConversionError {
    /// The two sides hold something under the same name that differs.
    #[error("{what}: expected {expected}, got {got}")]
    Mismatch {
        /// What was compared.
        what: &'static str,
        /// What the parameter set asks for.
        expected: String,
        /// What came.
        got: String,
    },
    /// The client side's refusal.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// Numbers that do not fit each other.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// tfhe-rs parameters that no named set has.
    #[error("no named set has the parameters {parameters}")]
    UnknownParameters {
        /// The parameters, as tfhe-rs prints them.
        parameters: String,
    },
    /// A feature of tfhe-rs that the core leaves out.
    #[error("{what} is not supported")]
    Unsupported {
        /// The feature.
        what: &'static str,
    },
    /// A set of one kind where another is needed.
    #[error("{set} is not a {expected} set")]
    WrongKind {
        /// The set.
        set: &'static str,
        /// Kind that was needed.
        expected: &'static str,
    },
}

impl ConversionError {
    /// Compares what a set asks for with what came.
    pub(crate) fn check<V: PartialEq + std::fmt::Debug>(
        what: &'static str,
        expected: V,
        got: V,
    ) -> Result<(), ConversionError> {
        if expected == got {
            return Ok(());
        }
        Err(Self::Mismatch { what, expected: format!("{expected:?}"), got: format!("{got:?}") })
    }
}
