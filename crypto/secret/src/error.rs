//! Errors of the client side. No message contains a secret or a plaintext.

use cloakwork_ckks::CkksError;
use cloakwork_math::random::OsRandomError;
use cloakwork_tfhe::ShapeError;

/// An error of this crate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// A message exceeds the range of the encoding. The error does not contain the message.
    #[error("the message at index {index} is too large: {set} encodes 0 to {max}")]
    MessageTooLarge {
        /// Index in the input.
        index: usize,
        /// The set.
        set: &'static str,
        /// Largest message.
        max: u64,
    },
    /// A client key has the empty key id. Its objects could not be told from those of another key.
    #[error("a client key needs a key id other than the empty one")]
    Nameless,
    /// Noise that hides the errors of results is out of range.
    #[error(
        "no noise hides such errors: the error must be positive and far below the numbers, for 1 to 2^20 results and \
         30 to 48 statistical bits"
    )]
    NoSuchFlooding,
    /// A secret key contains a word that is not a bit.
    #[error("a secret key must consist of zeros and ones, but word {index} is neither")]
    NotABit {
        /// Index in the key.
        index: usize,
    },
    /// A set cannot share a big key with the other sets of the key.
    #[error("{got} cannot share a big key with {expected}: they differ in {what}")]
    OtherFamily {
        /// A set of the key.
        expected: &'static str,
        /// The set to add.
        got: &'static str,
        /// First difference.
        what: &'static str,
    },
    /// An operation on approximate numbers failed.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// The operating system's random generator failed.
    #[error(transparent)]
    Os(#[from] OsRandomError),
    /// The key has no part for the requested set.
    #[error("the client key has no part for {set}: `cloakwork keygen --add --set {set}` makes one")]
    SetNotInKey {
        /// The requested set.
        set: &'static str,
    },
    /// The key already has a part for the set.
    #[error("the client key already has a part for {set}")]
    SetAlreadyInKey {
        /// The set to add.
        set: &'static str,
    },
    /// Dimensions do not fit each other.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The set does not support an operation.
    #[error("{set} has no {what}")]
    Unsupported {
        /// The set.
        set: &'static str,
        /// The missing operation.
        what: &'static str,
    },
    /// Words differ in width from those of the set.
    #[error("{what} of {set}: expected words of {expected} bits, got {got}")]
    WrongWord {
        /// Content of the words.
        what: &'static str,
        /// The set.
        set: &'static str,
        /// Width of the set's words, in bits.
        expected: u32,
        /// Width of the given words, in bits.
        got: u32,
    },
}
