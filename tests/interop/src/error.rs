//! Errors of conversions. No message contains a secret.

use cloakwork_secret::SecretError;
use cloakwork_tfhe::ShapeError;

/// A key or ciphertext without a counterpart in the other library.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConversionError {
    /// A property differs between the two libraries.
    #[error("{what}: expected {expected}, got {got}")]
    Mismatch {
        /// The compared property.
        what: &'static str,
        /// Value that the parameter set requires.
        expected: String,
        /// Value of the converted object.
        got: String,
    },
    /// The client library refused the secret key.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The shapes of two objects do not fit each other.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// No named set has these parameters of tfhe-rs.
    #[error("no named set has the parameters {parameters}")]
    UnknownParameters {
        /// The parameters, as tfhe-rs prints them.
        parameters: String,
    },
    /// The core does not support a feature of tfhe-rs.
    #[error("{what} is not supported")]
    Unsupported {
        /// Unsupported feature.
        what: &'static str,
    },
    /// The conversion needs a set of another kind.
    #[error("{set} is not a {expected} set")]
    WrongKind {
        /// Name of the set.
        set: &'static str,
        /// Kind that the conversion needs.
        expected: &'static str,
    },
}

impl ConversionError {
    /// Compares the value that a set requires with the value of the converted object.
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
