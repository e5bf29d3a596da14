//! Reasons to refuse an attestation.

use crate::PublicKey;

/// Why an attestation does not prove what its user needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttestationError {
    /// The bytes are no attestation.
    #[error("not an attestation: {what}")]
    Malformed {
        /// The part that is wrong.
        what: &'static str,
    },
    /// The certificate is of an installation that the anchor does not name.
    #[error("the worker's certificate is of the installation {installation}, which the anchor does not name")]
    OtherInstallation {
        /// The public key that the certificate names.
        installation: PublicKey,
    },
    /// A signature does not fit.
    #[error("the signature of {what} does not fit")]
    Signature {
        /// The signed part: the certificate or the statement.
        what: &'static str,
    },
    /// The certificate was not valid when the statement was signed, is for a later time, or is for
    /// too long a time.
    #[error("the worker's certificate {problem}")]
    Expired {
        /// The limit that does not hold.
        problem: &'static str,
    },
    /// The statement is true of another result.
    #[error("the statement is about another result: it differs in {field}")]
    Mismatch {
        /// The first field of the statement that differs.
        field: &'static str,
    },
}

impl AttestationError {
    /// The stable code, which docs/errors explains.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed { .. } | Self::Signature { .. } => "ATTESTATION_INVALID",
            Self::OtherInstallation { .. } => "ATTESTATION_OTHER_INSTALLATION",
            Self::Expired { .. } => "ATTESTATION_EXPIRED",
            Self::Mismatch { .. } => "ATTESTATION_MISMATCH",
        }
    }
}
