//! Failures of commands, and the exit codes that report them.

use std::io;

use cloakwork_client::{CkksError, ClientError, Code, SecretError, printable_json};
use serde_json::json;

use crate::visible::visible;

/// Reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// An error from the SDK, mostly on behalf of the server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An error from the SDK, with advice for the user.
    #[error("{error}\n{advice}")]
    Advised { error: ClientError, advice: String },
    /// An error of a terminal or of an ordinary file.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Arguments that make no sense together.
    #[error("{0}")]
    Usage(String),
    /// The server has nothing of this name.
    #[error("{0}")]
    NotFound(String),
    /// The server cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// A result that is wrong or cannot be decrypted.
    #[error("{0}")]
    WrongResult(String),
    /// A damaged or invalid file.
    #[error("{0}")]
    Invalid(String),
    /// A ciphertext that the client key does not decrypt.
    #[error("{0}")]
    OtherKey(String),
    /// A directory without a usable client key.
    #[error("{0}")]
    Keys(String),
    /// Ctrl-C during a job.
    #[error("{0}")]
    Interrupted(String),
    /// An unusable passphrase file.
    #[error("{path}: {problem}")]
    Passphrase { path: String, problem: String },
}

impl Failure {
    /// Adds advice for the user. Some variants have no room for advice, and stay as they are.
    pub(crate) fn advised(self, advice: String) -> Self {
        match self {
            Self::Client(error) => Self::Advised { error, advice },
            Self::Usage(said) => Self::Usage(format!("{said}\n{advice}")),
            Self::Interrupted(said) => Self::Interrupted(format!("{said}\n{advice}")),
            Self::Io(error) => Self::Io(io::Error::new(error.kind(), format!("{error}\n{advice}"))),
            other => other,
        }
    }

    /// The process's exit code; `--help` explains the codes.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Client(error) | Self::Advised { error, .. } => client_exit_code(error),
            Self::Io(_) => OTHER,
            Self::Usage(_) => USAGE,
            Self::NotFound(_) => NOT_FOUND,
            Self::Unreachable(_) => UNAVAILABLE,
            Self::Invalid(_) => REFUSED,
            Self::WrongResult(_) => JOB_FAILED,
            Self::Interrupted(_) => INTERRUPTED,
            Self::Passphrase { .. } | Self::Keys(_) | Self::OtherKey(_) => LOCAL_KEY,
        }
    }

    /// Prints the failure to standard error, as text or as a JSON document.
    pub(crate) fn print(&self, json: bool) {
        let (refusal, reason) = match self {
            Self::Client(error) | Self::Advised { error, .. } => (error.refusal(), error.reason()),
            _ => (None, None),
        };
        if !json {
            eprintln!("cloakwork: {}", visible(&self.to_string()));
            // Other advice about the token comes with the failure.
            if matches!(self, Self::Client(_)) && refusal.is_some_and(|refusal| refusal.code == Code::Unauthenticated) {
                eprintln!("Set CLOAKWORK_TOKEN to a token; `cloakwork-server token create` creates tokens");
            }
            return;
        }
        let document = json!({ "error": {
            "exit_code": self.exit_code(),
            "message": self.to_string(),
            "reason": reason,
            "code": refusal.map(|refusal| format!("{:?}", refusal.code)),
            "retry_after_seconds": refusal.and_then(|refusal| refusal.retry_after).map(|delay| delay.as_secs_f64()),
            "metadata": refusal.map(|refusal| &refusal.metadata),
        }});
        eprintln!("{}", printable_json(&document.to_string()));
    }
}

fn client_exit_code(error: &ClientError) -> u8 {
    match error {
        ClientError::Endpoint { .. }
        | ClientError::NoAnchor { .. }
        | ClientError::NoEvaluationKey
        | ClientError::UnknownSet { .. }
        | ClientError::OtherScheme { .. }
        // The arguments define the program, so a bad program is wrong usage. A program that the
        // server refuses is a refusal.
        | ClientError::Program(_)
        | ClientError::ValueTooLarge { .. } => USAGE,
        ClientError::Secret(SecretError::Ckks(error)) => ckks_exit_code(error),
        ClientError::Secret(SecretError::Os(_)) => OTHER,
        ClientError::Transport { .. } | ClientError::Timeout => UNAVAILABLE,
        ClientError::JobFailed { .. } | ClientError::Unsigned { .. } | ClientError::WrongOrigin { .. } => JOB_FAILED,
        ClientError::KeyPart { error, .. } => client_exit_code(error),
        ClientError::KeyFile(_) | ClientError::KeyPartMissing { .. } | ClientError::Secret(_) => LOCAL_KEY,
        ClientError::Format(_) | ClientError::CkksFormat(_) | ClientError::Io { .. } => LOCAL_KEY,
        ClientError::Refused(refusal) => match refusal.code {
            Code::NotFound => NOT_FOUND,
            Code::Unavailable | Code::DeadlineExceeded => UNAVAILABLE,
            Code::ResourceExhausted => OVERLOADED,
            Code::Internal | Code::Unknown | Code::DataLoss => OTHER,
            _ => REFUSED,
        },
        _ => OTHER,
    }
}

/// Exit codes of making keys and encrypting. All other computation on numbers happens on a server.
fn ckks_exit_code(error: &CkksError) -> u8 {
    match error {
        CkksError::NotFinite { .. }
        | CkksError::TooLarge { .. }
        | CkksError::WrongSlots { .. }
        | CkksError::LevelTooHigh { .. }
        | CkksError::NoSuchBootstrap(_) => USAGE,
        CkksError::MalformedKey { .. }
        | CkksError::OtherSet { .. }
        | CkksError::MissingKey { .. }
        | CkksError::DoubleKey { .. } => LOCAL_KEY,
        _ => OTHER,
    }
}

const OTHER: u8 = 1;
const USAGE: u8 = 2;
const NOT_FOUND: u8 = 3;
const REFUSED: u8 = 4;
const UNAVAILABLE: u8 = 5;
const OVERLOADED: u8 = 6;
const JOB_FAILED: u8 = 7;
const LOCAL_KEY: u8 = 8;
/// Exit code of a process that Ctrl-C ends, as in shells.
pub(crate) const INTERRUPTED: u8 = 130;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ckks_errors_have_the_exit_code_of_arguments_keys_or_neither() {
        let too_large = CkksError::TooLarge { scale_log2: 45.0, modulus_log2: 53.0 };
        let level = CkksError::LevelTooHigh { what: "this set", got: 15, max: 14 };
        let set = CkksError::OtherSet { left: "TOY_CKKS_45_60_50", right: "TOY_CKKS_54_60" };
        let missing = CkksError::MissingKey { what: "products".to_owned() };
        for (error, code) in [
            (CkksError::NotFinite { index: 0 }, 2),
            (too_large, 2),
            (CkksError::WrongSlots { got: 3, max: 512 }, 2),
            (level, 2),
            (CkksError::MalformedKey { what: "it is not whole" }, 8),
            (set, 8),
            (missing, 8),
            (CkksError::NoCoefficients, 1),
            (CkksError::GivenUp, 1),
        ] {
            let failure = Failure::from(ClientError::from(SecretError::from(error)));
            assert_eq!(failure.exit_code(), code, "{failure}");
        }
    }
}
