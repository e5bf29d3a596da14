//! Why an envelope was refused: always what was expected and what came.

use std::io;

use crate::{
    kind::{KeyId, ObjectKind},
    set::SetId,
};

/// An envelope that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// The digest does not belong to the header and payload.
    #[error("digest mismatch: the envelope says {expected}, its content gives {got}")]
    DigestMismatch {
        /// As the trailer says.
        expected: blake3::Hash,
        /// As computed.
        got: blake3::Hash,
    },
    /// A dimension above what the parameter set has.
    #[error("{which}: expected at most {max}, got {got}")]
    DimensionTooLarge {
        /// What it counts.
        which: &'static str,
        /// What the parameter set says.
        max: u64,
        /// What the header says.
        got: u64,
    },
    /// Reading or writing failed.
    #[error("input or output failed: {message}")]
    Io {
        /// Kind of the failure.
        kind: io::ErrorKind,
        /// What the system said.
        message: String,
    },
    /// A byte that must be zero is not.
    #[error("header byte {offset}: expected 0, got {got}")]
    ReservedNotZero {
        /// Offset in the header.
        offset: usize,
        /// The byte.
        got: u8,
    },
    /// What encrypted numbers are multiplied by is no scale.
    #[error("scale: expected at least 1 and less than the modulus and 2^256, got {:e}", f64::from_bits(*.bits))]
    ScaleOutOfRange {
        /// The scale, as a double's bits.
        bits: u64,
    },
    /// The object is a secret key, which must never leave its client.
    #[error("refused: this is a secret key (kind {got:#06x}); it must stay with its owner")]
    SecretKeyRefused {
        /// Number of the kind.
        got: u16,
    },
    /// The seed's byte offset lies outside a block.
    #[error("byte offset of the seed: expected at most 15, got {got}")]
    SeedOutOfRange {
        /// The offset.
        got: u8,
    },
    /// Bytes follow the end of the envelope.
    #[error("expected the end after {expected} bytes, got more")]
    TrailingBytes {
        /// Length of the envelope.
        expected: u64,
    },
    /// The input ended early.
    #[error("truncated: expected {expected} bytes, got {got}")]
    Truncated {
        /// Length of the envelope, or of its header if not even that came.
        expected: u64,
        /// Bytes that came.
        got: u64,
    },
    /// No such kind.
    #[error("unknown object kind {got:#06x}")]
    UnknownKind {
        /// Number of the kind.
        got: u16,
    },
    /// No such parameter set.
    #[error("unknown parameter set {}", got.0)]
    UnknownParameterSet {
        /// Number of the set.
        got: SetId,
    },
    /// A version that this build does not read.
    #[error("unsupported format version: expected {expected}, got {got}")]
    UnsupportedVersion {
        /// The newest version that this build reads.
        expected: u16,
        /// The envelope's.
        got: u16,
    },
    /// A dimension that the parameter set does not allow.
    #[error("{which}: expected {expected}, got {got}")]
    WrongDimension {
        /// What it counts.
        which: &'static str,
        /// What the parameter set says.
        expected: u64,
        /// What the header says.
        got: u64,
    },
    /// An object under another key.
    #[error("wrong key: expected key id {expected}, got {got}")]
    WrongKeyId {
        /// The key that was asked for.
        expected: KeyId,
        /// The object's.
        got: KeyId,
    },
    /// An object of another kind.
    #[error("wrong kind: expected a {expected}, got a {got}")]
    WrongKind {
        /// The kind that was asked for.
        expected: ObjectKind,
        /// The object's.
        got: ObjectKind,
    },
    /// A key for a move to where X is no such power.
    #[error("power of X that a key moves by: expected an odd one above 1, got {got}")]
    WrongPower {
        /// The power.
        got: u64,
    },
    /// Not an envelope.
    #[error("not a Cloakwork file: expected it to begin with {}", super::MAGIC.escape_ascii())]
    WrongMagic {
        /// The first bytes.
        got: [u8; 8],
    },
    /// An object of another parameter set, or one that the set does not have.
    #[error("wrong parameter set: expected {expected}, got {got}")]
    WrongParameterSet {
        /// The set that was asked for.
        expected: &'static str,
        /// The object's.
        got: &'static str,
    },
    /// The payload's length does not follow from the dimensions.
    #[error("payload length: expected {expected} bytes, got {got}")]
    WrongPayloadLength {
        /// What the dimensions make.
        expected: u64,
        /// What the header says, or what was written.
        got: u64,
    },
}

impl From<io::Error> for EnvelopeError {
    fn from(error: io::Error) -> Self {
        // Ours, if it came through a reader's `io::Read`.
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()) {
            Some(ours) => ours.clone(),
            None => Self::Io { kind: error.kind(), message: error.to_string() },
        }
    }
}
