//! What can go wrong: with the server, on the way to it, and at home.

mod refusal;

use std::{io, path::Path};

use cloakwork_circuit::ProgramError;
use cloakwork_params::{AnySet, EnvelopeError};
use cloakwork_secret::{SecretError, file::KeyFileError, format::FormatError};
use tonic::{Code, Status, TimeoutExpired};

pub use refusal::Refusal;

/// A failure of a call, or of what was to be sent with it. No text carries a secret or a plaintext.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// A part of a CKKS key or a ciphertext that is not what it should be.
    #[error(transparent)]
    CkksFormat(#[from] cloakwork_secret::ckks::format::FormatError),
    /// The address or the certificate cannot be used.
    #[error("cannot connect to '{url}': {problem}")]
    Endpoint {
        /// The address as given.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A key or a list of ciphertexts that is not what it should be.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A file that is not a key directory's.
    #[error("{path}: {problem}")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        problem: String,
    },
    /// A job that has ended without a result.
    #[error("{name} {state}: {reason}: {message}")]
    JobFailed {
        /// The job's resource name.
        name: String,
        /// How it ended.
        state: String,
        /// Stable code; docs/errors says what it means.
        reason: String,
        /// What the server said.
        message: String,
    },
    /// The file of the client key.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// A part of an evaluation key that is not in its directory.
    #[error("{path} is missing: make the key again, or fetch the file from where it was made")]
    KeyPartMissing {
        /// The file.
        path: String,
    },
    /// A file of a key that is not what it should be, or that the server does not take.
    #[error("{path}: {error}")]
    KeyPart {
        /// The file.
        path: String,
        /// What is wrong with it.
        error: Box<ClientError>,
    },
    /// Two arrays that were to go together pair by pair.
    #[error("arrays of {left} and {right} elements: expected as many in both")]
    Lengths {
        /// Elements of the first.
        left: usize,
        /// Elements of the second.
        right: usize,
    },
    /// An answer that the protocol does not allow.
    #[error("the server's answer breaks the protocol: {what}")]
    Malformed {
        /// What is wrong with it.
        what: String,
    },
    /// A program that no server would take.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The server said no.
    #[error(transparent)]
    Refused(#[from] Box<Refusal>),
    /// The client key, or what it was asked to do.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// No answer within the call's time.
    #[error("no answer within the time of the call")]
    Timeout,
    /// The connection could not be made, or broke.
    #[error("the connection to the server failed: {problem}")]
    Transport {
        /// What the transport said.
        problem: String,
    },
    /// No parameter set has that name.
    #[error("no parameter set is called '{name}'; `cloakwork sets` lists those of the server")]
    UnknownSet {
        /// The name.
        name: String,
    },
    /// The set is of the other scheme.
    #[error("{name} is a set of {scheme}: `{keygen}` makes its keys")]
    OtherScheme {
        /// The name.
        name: String,
        /// What it is of.
        scheme: &'static str,
        /// The command for it.
        keygen: &'static str,
    },
    /// A value above the largest that was announced for its list. It is not told.
    #[error("the value at index {index} is too large: expected at most {max}")]
    ValueTooLarge {
        /// Place in the list.
        index: usize,
        /// Largest value allowed.
        max: u64,
    },
}

/// What a call returns.
pub type Result<T> = std::result::Result<T, ClientError>;

impl ClientError {
    /// No set of the scheme that is asked for has that name.
    pub(crate) fn no_such_set(name: &str) -> Self {
        let name = name.to_owned();
        match AnySet::by_name(&name) {
            None => Self::UnknownSet { name },
            Some(AnySet::Tfhe(_)) => Self::OtherScheme { name, scheme: "TFHE", keygen: "cloakwork keygen" },
            Some(AnySet::Ckks(_)) => Self::OtherScheme { name, scheme: "CKKS", keygen: "cloakwork ckks keygen" },
        }
    }

    /// Is it worth to try again, with the same request id? So it is after a break, and where the server says so.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Transport { .. } => true,
            Self::KeyPart { error, .. } => error.is_retryable(),
            Self::Refused(refusal) => match refusal.code {
                Code::Unavailable => true,
                Code::ResourceExhausted => refusal.retry_after.is_some(),
                _ => false,
            },
            _ => false,
        }
    }

    /// Is it unknown whether the request has arrived?
    pub fn is_break(&self) -> bool {
        match self {
            Self::Transport { .. } => true,
            Self::KeyPart { error, .. } => error.is_break(),
            Self::Refused(refusal) => refusal.code == Code::Unavailable,
            _ => false,
        }
    }

    /// What the server said, where it was the server.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::KeyPart { error, .. } => error.refusal(),
            _ => None,
        }
    }

    /// With the name of a key's file.
    pub(crate) fn of_part(self, path: &Path) -> Self {
        Self::KeyPart { path: path.display().to_string(), error: Box::new(self) }
    }

    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        Self::Io { path: path.display().to_string(), problem: error.to_string() }
    }

    pub(crate) fn malformed(what: impl Into<String>) -> Self {
        Self::Malformed { what: what.into() }
    }
}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        let mut cause = std::error::Error::source(&status);
        let local = cause.is_some();
        let mut problem = status.message().to_owned();
        while let Some(error) = cause {
            if error.is::<TimeoutExpired>() {
                return Self::Timeout;
            }
            // The last one says most: 'connection refused', not 'transport error'.
            problem = error.to_string();
            cause = error.source();
        }
        // What the server sends has no cause; what the transport makes up has one.
        match status.code() {
            Code::Unknown | Code::Internal | Code::Unavailable | Code::Cancelled if local => {
                Self::Transport { problem }
            }
            _ => Self::Refused(Box::new(Refusal::from(&status))),
        }
    }
}

impl From<EnvelopeError> for ClientError {
    fn from(error: EnvelopeError) -> Self {
        Self::Format(error.into())
    }
}
