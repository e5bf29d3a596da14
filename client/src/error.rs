//! Errors of the server, of the connection, and of the client.

mod refusal;

use std::{io, path::Path};

use cloakwork_attestation::AttestationError;
use cloakwork_circuit::ProgramError;
use cloakwork_params::{AnySet, EnvelopeError};
use cloakwork_secret::{SecretError, file::KeyFileError, format::FormatError};
use tonic::{Code, Status, TimeoutExpired};

pub use refusal::Refusal;

/// A failure of a call, or of preparing its data. No text contains a secret or a plaintext.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// A part of a CKKS key or a CKKS ciphertext is invalid.
    #[error(transparent)]
    CkksFormat(#[from] cloakwork_secret::ckks::format::FormatError),
    /// The address or the certificate cannot be used.
    #[error("cannot connect to '{url}': {problem}")]
    Endpoint {
        /// The address as given.
        url: String,
        /// The problem.
        problem: String,
    },
    /// A key or a list of ciphertexts is invalid.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A file of a key directory cannot be read or written.
    #[error("{path}: {problem}")]
    Io {
        /// The file.
        path: String,
        /// The system's error message.
        problem: String,
    },
    /// A job has ended without a result.
    #[error("{name} {state}: {reason}: {message}")]
    JobFailed {
        /// The job's resource name.
        name: String,
        /// The final state.
        state: String,
        /// Stable code; docs/errors explains it.
        reason: String,
        /// The server's message.
        message: String,
    },
    /// The file of the client key is invalid.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// A part of an evaluation key is missing in its directory.
    #[error("{path} is missing: make the key again, or fetch the file from where it was made")]
    KeyPartMissing {
        /// The file.
        path: String,
    },
    /// A file of a key is invalid, or the server refused it.
    #[error("{path}: {error}")]
    KeyPart {
        /// The file.
        path: String,
        /// The problem.
        error: Box<ClientError>,
    },
    /// Two arrays differ in length and cannot be combined pair by pair.
    #[error("arrays of {left} and {right} elements: expected as many in both")]
    Lengths {
        /// Elements of the first array.
        left: usize,
        /// Elements of the second array.
        right: usize,
    },
    /// The protocol does not allow the response.
    #[error("the server's answer breaks the protocol: {what}")]
    Malformed {
        /// The problem.
        what: String,
    },
    /// Nothing says whose results the client may take.
    #[error(
        "ANCHOR_MISSING: nothing says which installation {url} is, so its results cannot be verified: pin its anchor, \
         which its operator prints with `cloakwork-server anchor`"
    )]
    NoAnchor {
        /// The address of the server.
        url: String,
    },
    /// The client knows no evaluation key as its own.
    #[error(
        "EVALUATION_KEY_UNKNOWN: the client knows no evaluation key, so it cannot verify which one a result was computed \
         with: push the key, or name it by Client::use_key"
    )]
    NoEvaluationKey,
    /// Every server would refuse the program.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The server refused the call.
    #[error(transparent)]
    Refused(#[from] Box<Refusal>),
    /// The client key is unsuitable for the request.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The call's timeout expired.
    #[error("no answer within the time of the call")]
    Timeout,
    /// The connection could not be established, or broke.
    #[error("the connection to the server failed: {problem}")]
    Transport {
        /// The transport's error message.
        problem: String,
    },
    /// No parameter set has this name.
    #[error("no parameter set is called '{name}'; `cloakwork sets` lists those of the server")]
    UnknownSet {
        /// The name.
        name: String,
    },
    /// The parameter set belongs to the other scheme.
    #[error("{name} is a set of {scheme}: `{keygen}` makes its keys")]
    OtherScheme {
        /// The name.
        name: String,
        /// The scheme of the set.
        scheme: &'static str,
        /// The command that makes keys for this scheme.
        keygen: &'static str,
    },
    /// A list of ciphertexts does not have the shape that the client expects. Nothing was
    /// decrypted.
    #[error("not the expected list of ciphertexts, so it was not decrypted: {difference}")]
    UnexpectedList {
        /// The first property that differs.
        difference: String,
    },
    /// No worker has signed the result of a job.
    #[error("ATTESTATION_MISSING: no worker has signed the result of {job}, so it was not decrypted")]
    Unsigned {
        /// The job's resource name.
        job: String,
    },
    /// The result of a job is not what was asked for, or of another installation.
    #[error("{}: {job}: {error}, so it was not decrypted", error.reason())]
    WrongOrigin {
        /// The job's resource name.
        job: String,
        /// The check that failed.
        error: AttestationError,
    },
    /// A value exceeds the largest value declared for its list. The error does not contain the
    /// value.
    #[error("the value at index {index} is too large: expected at most {max}")]
    ValueTooLarge {
        /// Index in the list.
        index: usize,
        /// Largest value allowed.
        max: u64,
    },
}

/// Result of a call.
pub type Result<T> = std::result::Result<T, ClientError>;

impl ClientError {
    /// The error for a name that no set of the requested scheme has.
    pub(crate) fn no_such_set(name: &str) -> Self {
        let name = name.to_owned();
        match AnySet::by_name(&name) {
            None => Self::UnknownSet { name },
            Some(AnySet::Tfhe(_)) => Self::OtherScheme { name, scheme: "TFHE", keygen: "cloakwork keygen" },
            Some(AnySet::Ckks(_)) => Self::OtherScheme { name, scheme: "CKKS", keygen: "cloakwork ckks keygen" },
        }
    }

    /// Whether a retry with the same request id may succeed: after a broken connection, and where
    /// the server says so.
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

    /// Whether the request may have arrived at the server.
    pub fn is_break(&self) -> bool {
        match self {
            Self::Transport { .. } => true,
            Self::KeyPart { error, .. } => error.is_break(),
            Self::Refused(refusal) => refusal.code == Code::Unavailable,
            _ => false,
        }
    }

    /// The stable code of the error, which docs/errors explains. `None` for most errors of the
    /// client itself.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::NoAnchor { .. } => Some("ANCHOR_MISSING"),
            Self::NoEvaluationKey => Some("EVALUATION_KEY_UNKNOWN"),
            Self::Unsigned { .. } => Some("ATTESTATION_MISSING"),
            Self::WrongOrigin { error, .. } => Some(error.reason()),
            Self::JobFailed { reason, .. } => Some(reason),
            _ => self.refusal().map(|refusal| refusal.reason.as_str()).filter(|reason| !reason.is_empty()),
        }
    }

    /// The server's refusal, if the server caused the error.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::KeyPart { error, .. } => error.refusal(),
            _ => None,
        }
    }

    /// Adds the name of a key's file.
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
            // The last cause is the most specific one: 'connection refused', not 'transport error'.
            problem = error.to_string();
            cause = error.source();
        }
        // A status from the server has no source. A status that the transport made has one.
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
