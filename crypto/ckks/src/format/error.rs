//! Errors of writing and reading objects.

use cloakwork_params::EnvelopeError;

use crate::error::CkksError;

/// An object that cannot be written, or an envelope that holds no valid object.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The envelope around the object is invalid.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// The object itself is invalid.
    #[error(transparent)]
    Object(#[from] CkksError),
    /// A word is not a residue of its prime.
    #[error("residue {index} of row {row}: expected a value below {prime}")]
    ResidueTooLarge {
        /// The row: a prime of the basis.
        row: usize,
        /// Index in the row.
        index: usize,
        /// The prime.
        prime: u64,
    },
    /// A polynomial has other primes than the object's dimensions say, or another size than its
    /// set.
    #[error("a polynomial whose primes or size differ from those of its object")]
    WrongBasis,
}
