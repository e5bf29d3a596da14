//! Errors of writing and reading key files.

use std::{
    io,
    path::{Path, PathBuf},
};

use cloakwork_math::random::OsRandomError;
use cloakwork_params::{EnvelopeError, ObjectKind, SetId};

/// A key file that cannot be written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file's content was changed after it was written.
    #[error("the key file is damaged: its digest is not that of its content")]
    Damaged,
    /// The envelope around the key is invalid.
    #[error("not a readable key file: {0}")]
    Envelope(EnvelopeError),
    /// A file with this name exists already.
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
        /// Message of the operating system.
        message: String,
    },
    /// The content breaks the format.
    #[error("the key file breaks its format: {what}")]
    Malformed {
        /// Description of the violation.
        what: &'static str,
    },
    /// The file holds an object of another kind.
    #[error("expected a {expected}, got a {got}")]
    NotAKey {
        /// Kind of the requested key.
        expected: ObjectKind,
        /// Kind of the object in the file.
        got: ObjectKind,
    },
    /// A passphrase was given for a file that is not sealed.
    #[error("the key file is not sealed: expected no passphrase, got one")]
    NotSealed,
    /// Users other than the file's owner may use it.
    #[error("{path} is open to others (mode {mode:03o}): run chmod 600 {path}")]
    OpenToOthers {
        /// The file.
        path: PathBuf,
        /// Mode of the file.
        mode: u32,
    },
    /// The operating system's random generator failed.
    #[error(transparent)]
    Os(#[from] OsRandomError),
    /// The passphrase for a new file is empty.
    #[error("the passphrase is empty: expected one, or none at all for a file that is not sealed")]
    PassphraseEmpty,
    /// The file is sealed and no passphrase was given.
    #[error("the key file is sealed: expected a passphrase, got none")]
    PassphraseNeeded,
    /// Argon2 failed. Its cost is fixed, so the cause is a lack of memory.
    #[error("no key could be derived from the passphrase")]
    PassphraseUnusable,
    /// The content is longer than that of any key.
    #[error("the key file is too long: expected at most {limit} bytes of content, got {got}")]
    TooLong {
        /// Maximum length that is read.
        limit: u64,
        /// Length in the header.
        got: u64,
    },
    /// The protection is unknown to this build.
    #[error("unknown protection of the key file: expected 0 (none) or 1 (passphrase), got {got}")]
    UnknownProtection {
        /// Value in the header.
        got: u32,
    },
    /// The parameter or compression set is unknown to this build.
    #[error("the key file is for parameter set {}, which is not known", got.0)]
    UnknownSet {
        /// Number of the set.
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
            // The text of this error has digests of the content, which is secret.
            EnvelopeError::DigestMismatch { .. } => Self::Damaged,
            other => Self::Envelope(other),
        }
    }
}
