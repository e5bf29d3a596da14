//! Failures of jobs, as reported to the server.

use cloakwork_proto::v1;

/// Failure of a job.
#[derive(Clone, Debug)]
pub(crate) struct JobFailure {
    /// Stable reason code, as documented in docs/errors.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// Whether another attempt may succeed.
    pub(crate) retryable: bool,
    /// The corrupt part of the key, if the key is at fault.
    pub(crate) bad_key_part: Option<v1::Digest>,
}

impl JobFailure {
    /// A failure that another attempt, on this or another worker, may not have.
    pub(crate) fn passing(reason: &'static str, message: impl ToString) -> Self {
        Self { reason, message: message.to_string(), retryable: true, bad_key_part: None }
    }

    /// A failure that every attempt would have.
    pub(crate) fn lasting(reason: &'static str, message: impl ToString) -> Self {
        Self { reason, message: message.to_string(), retryable: false, bad_key_part: None }
    }
}
