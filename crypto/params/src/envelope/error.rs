//! Reasons to refuse an envelope. Each reason names the expected and the received value.

use std::io;

use crate::{
    kind::{KeyId, ObjectKind},
    set::SetId,
};

/// An invalid or unexpected envelope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// The digest does not match the header and payload.
    #[error("digest mismatch: the envelope says {expected}, its content gives {got}")]
    DigestMismatch {
        /// Digest in the trailer.
        expected: blake3::Hash,
        /// Computed digest.
        got: blake3::Hash,
    },
    /// A dimension exceeds the limit of the parameter set.
    #[error("{which}: expected at most {max}, got {got}")]
    DimensionTooLarge {
        /// Name of the dimension.
        which: &'static str,
        /// Limit of the parameter set.
        max: u64,
        /// Value in the header.
        got: u64,
    },
    /// Reading or writing failed.
    #[error("input or output failed: {message}")]
    Io {
        /// Kind of the failure.
        kind: io::ErrorKind,
        /// Message of the system.
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
    /// The scale of encrypted numbers is out of range.
    #[error("scale: expected at least 1 and less than the modulus and 2^256, got {:e}", f64::from_bits(*.bits))]
    ScaleOutOfRange {
        /// The scale, as the bits of a double.
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
        /// Length of the envelope, or of its header if the header is incomplete.
        expected: u64,
        /// Received bytes.
        got: u64,
    },
    /// The object kind is unknown.
    #[error("unknown object kind {got:#06x}")]
    UnknownKind {
        /// Number of the kind.
        got: u16,
    },
    /// The parameter set is unknown.
    #[error("unknown parameter set {}", got.0)]
    UnknownParameterSet {
        /// Number of the set.
        got: SetId,
    },
    /// This build does not read the version.
    #[error("unsupported format version: expected {expected}, got {got}")]
    UnsupportedVersion {
        /// The newest version that this build reads.
        expected: u16,
        /// Version of the envelope.
        got: u16,
    },
    /// The parameter set does not allow the dimension.
    #[error("{which}: expected {expected}, got {got}")]
    WrongDimension {
        /// Name of the dimension.
        which: &'static str,
        /// Value that the parameter set requires.
        expected: u64,
        /// Value in the header.
        got: u64,
    },
    /// The object belongs to another key.
    #[error("wrong key: expected key id {expected}, got {got}")]
    WrongKeyId {
        /// The requested key.
        expected: KeyId,
        /// Key of the object.
        got: KeyId,
    },
    /// The object is of another kind.
    #[error("wrong kind: expected a {expected}, got a {got}")]
    WrongKind {
        /// The requested kind.
        expected: ObjectKind,
        /// Kind of the object.
        got: ObjectKind,
    },
    /// A key's power of X is not an odd number above 1.
    #[error("power of X that a key moves by: expected an odd one above 1, got {got}")]
    WrongPower {
        /// The power.
        got: u64,
    },
    /// The input is not an envelope.
    #[error("not a Cloakwork file: expected it to begin with {}", super::MAGIC.escape_ascii())]
    WrongMagic {
        /// The first bytes.
        got: [u8; 8],
    },
    /// The object has another parameter set, or its kind does not exist in the set.
    #[error("wrong parameter set: expected {expected}, got {got}")]
    WrongParameterSet {
        /// The requested set.
        expected: &'static str,
        /// Set of the object.
        got: &'static str,
    },
    /// The length of the payload does not follow from the dimensions.
    #[error("payload length: expected {expected} bytes, got {got}")]
    WrongPayloadLength {
        /// Length that follows from the dimensions.
        expected: u64,
        /// Length in the header, or length that was written.
        got: u64,
    },
}

impl From<io::Error> for EnvelopeError {
    fn from(error: io::Error) -> Self {
        // An error that passed through a reader's `io::Read` wraps an `EnvelopeError`.
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()) {
            Some(ours) => ours.clone(),
            None => Self::Io { kind: error.kind(), message: error.to_string() },
        }
    }
}
