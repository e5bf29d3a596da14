//! Why an object was not written or read.

use cloakwork_params::EnvelopeError;

use crate::ShapeError;

/// An object that cannot be written, or an envelope that holds none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The envelope around the object.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// A word that is no value of its modulus.
    #[error("word {index}: expected a value of a modulus of {modulus_log2} bits in the top bits, got lower ones too")]
    LowBitsNotZero {
        /// Place in the payload's words.
        index: u64,
        /// log2 of the modulus.
        modulus_log2: u32,
    },
    /// The object itself.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Bits behind the last value of a packed ciphertext.
    #[error("packed word {index}: expected zeros above its {used} bits in use")]
    UnusedBitsNotZero {
        /// Place in the payload's words.
        index: u64,
        /// Bits of the word that hold values.
        used: u32,
    },
    /// A number above its limit.
    #[error("{what} of item {index}: expected at most {limit}, got {got}")]
    ValueOutOfRange {
        /// What was counted.
        what: &'static str,
        /// Place in the list.
        index: u64,
        /// Largest value allowed.
        limit: u64,
        /// The value.
        got: u64,
    },
    /// The words in memory have another width than those of the modulus.
    #[error("width of a word: expected {expected} bits, got {got}")]
    WrongWord {
        /// What the modulus takes.
        expected: u32,
        /// What was to be written or read into.
        got: u32,
    },
}
