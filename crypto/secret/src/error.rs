//! What can go wrong on the client. No message carries a secret or a plaintext.

use cloakwork_ckks::CkksError;
use cloakwork_math::random::OsRandomError;
use cloakwork_tfhe::ShapeError;

/// A refusal of this crate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// A message that the encoding has no room for. Its value is not told.
    #[error("the message at index {index} is too large: {set} encodes 0 to {max}")]
    MessageTooLarge {
        /// Place in the input.
        index: usize,
        /// The set.
        set: &'static str,
        /// Largest message.
        max: u64,
    },
    /// A client key without a name: what it makes could not be told from what another makes.
    #[error("a client key needs a key id other than the empty one")]
    Nameless,
    /// A secret key with something else than bits in it.
    #[error("a secret key must consist of zeros and ones, but word {index} is neither")]
    NotABit {
        /// Place in the key.
        index: usize,
    },
    /// A set that cannot share a big key with the sets already there.
    #[error("{got} cannot share a big key with {expected}: they differ in {what}")]
    OtherFamily {
        /// A set of the key.
        expected: &'static str,
        /// The set that was to be added.
        got: &'static str,
        /// First difference.
        what: &'static str,
    },
    /// What cannot be done with approximate numbers.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// The operating system's generator.
    #[error(transparent)]
    Os(#[from] OsRandomError),
    /// A set that the key has no part for.
    #[error("the client key has no part for {set}: `cloakwork keygen --add --set {set}` makes one")]
    SetNotInKey {
        /// The set asked for.
        set: &'static str,
    },
    /// A set that the key already has a part for.
    #[error("the client key already has a part for {set}")]
    SetAlreadyInKey {
        /// The set that was to be added.
        set: &'static str,
    },
    /// Numbers that do not fit each other.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// An operation that a set does not have.
    #[error("{set} has no {what}")]
    Unsupported {
        /// The set.
        set: &'static str,
        /// What it lacks.
        what: &'static str,
    },
    /// Words of another width than the set's.
    #[error("{what} of {set}: expected words of {expected} bits, got {got}")]
    WrongWord {
        /// What the words hold.
        what: &'static str,
        /// The set.
        set: &'static str,
        /// Width in the set.
        expected: u32,
        /// Width asked for.
        got: u32,
    },
}
