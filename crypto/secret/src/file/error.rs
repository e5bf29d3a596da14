//! Why a key file was not written or read.

use std::{
    io,
    path::{Path, PathBuf},
};

use cloakwork_math::random::OsRandomError;
use cloakwork_params::{EnvelopeError, ObjectKind, SetId};

/// A key file that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file's content was changed since it was written.
    #[error("the key file is damaged: its digest is not that of its content")]
    Damaged,
    /// The file around the key.
    #[error("not a readable key file: {0}")]
    Envelope(EnvelopeError),
    /// A file of that name is there already.
    #[error("{path} exists already; a key file is never overwritten")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Reading or writing failed.
    #[error("{path}: {message}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Kind of the failure.
        kind: io::ErrorKind,
        /// What the system said.
        message: String,
    },
    /// The content breaks the format.
    #[error("the key file breaks its format: {what}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
    /// Another object.
    #[error("expected a {expected}, got a {got}")]
    NotAKey {
        /// The kind of key that was asked for.
        expected: ObjectKind,
        /// What it is.
        got: ObjectKind,
    },
    /// A passphrase was given for a file that has none.
    #[error("the key file is not sealed: expected no passphrase, got one")]
    NotSealed,
    /// Others than its owner may use the file.
    #[error("{path} is open to others (mode {mode:03o}): run chmod 600 {path}")]
    OpenToOthers {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The operating system's generator.
    #[error(transparent)]
    Os(#[from] OsRandomError),
    /// A file was to be sealed with nothing.
    #[error("the passphrase is empty: expected one, or none at all for a file that is not sealed")]
    PassphraseEmpty,
    /// The file is sealed and no passphrase was given.
    #[error("the key file is sealed: expected a passphrase, got none")]
    PassphraseNeeded,
    /// Argon2 would not run; with the fixed cost this means that memory is short.
    #[error("no key could be derived from the passphrase")]
    PassphraseUnusable,
    /// More content than any key has.
    #[error("the key file is too long: expected at most {limit} bytes of content, got {got}")]
    TooLong {
        /// Most that is read.
        limit: u64,
        /// What the header says.
        got: u64,
    },
    /// A protection that this build does not know.
    #[error("unknown protection of the key file: expected 0 (none) or 1 (passphrase), got {got}")]
    UnknownProtection {
        /// What the header says.
        got: u32,
    },
    /// A parameter or compression set that this build does not know.
    #[error("the key file is for parameter set {}, which is not known", got.0)]
    UnknownSet {
        /// Its number.
        got: SetId,
    },
    /// The passphrase does not open the file.
    #[error("the passphrase does not open the key file")]
    WrongPassphrase,
}

impl KeyFileError {
    pub(super) fn io(path: &Path, error: &io::Error) -> Self {
        Self::Io { path: path.into(), kind: error.kind(), message: error.to_string() }
    }
}

impl From<EnvelopeError> for KeyFileError {
    fn from(error: EnvelopeError) -> Self {
        match error {
            // Its text has digests of the content, which is secret.
            EnvelopeError::DigestMismatch { .. } => Self::Damaged,
            other => Self::Envelope(other),
        }
    }
}
