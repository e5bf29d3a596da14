//! Errors of writing and reading objects.

use cloakwork_params::EnvelopeError;

use crate::ShapeError;

/// An object that cannot be written, or an envelope that holds no valid object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The envelope around the object is invalid.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// A word is not a value of its modulus.
    #[error(
        "word {index}: expected a value of a modulus of {modulus_log2} bits in the top bits, got nonzero lower bits"
    )]
    LowBitsNotZero {
        /// Index among the payload's words.
        index: u64,
        /// log2 of the modulus.
        modulus_log2: u32,
    },
    /// The object itself is invalid.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The unused bits after the last value of a packed ciphertext are not zero.
    #[error("packed word {index}: expected zeros above its {used} bits in use")]
    UnusedBitsNotZero {
        /// Index among the payload's words.
        index: u64,
        /// Number of bits of the word that hold values.
        used: u32,
    },
    /// A number exceeds its limit.
    #[error("{what} of item {index}: expected at most {limit}, got {got}")]
    ValueOutOfRange {
        /// Name of the number.
        what: &'static str,
        /// Index in the list.
        index: u64,
        /// Largest value allowed.
        limit: u64,
        /// The value.
        got: u64,
    },
    /// The words in memory differ in width from the words that the modulus takes.
    #[error("width of a word: expected {expected} bits, got {got}")]
    WrongWord {
        /// Width of a word of the modulus, in bits.
        expected: u32,
        /// Width of a word in memory, in bits.
        got: u32,
    },
}
