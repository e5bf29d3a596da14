//! Why an object was not written or read.

use cloakwork_params::EnvelopeError;

use crate::error::CkksError;

/// An object that cannot be written, or an envelope that holds none.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The envelope around the object.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// The object itself.
    #[error(transparent)]
    Object(#[from] CkksError),
    /// A word that is no residue of its prime.
    #[error("residue {index} of row {row}: expected one below {prime}")]
    ResidueTooLarge {
        /// The row: a prime of the basis.
        row: usize,
        /// Place in the row.
        index: usize,
        /// The prime.
        prime: u64,
    },
    /// A polynomial that is modulo other primes than the object's dimensions say, or has other coefficients than its set.
    #[error("a polynomial of other primes or another size than its object's")]
    WrongBasis,
}
