//! Failures of jobs, as the server learns of them.

use cloakwork_proto::v1;

/// How a job ended that has no result.
#[derive(Clone, Debug)]
pub(crate) struct JobFailure {
    /// Stable code, as in docs/errors.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// Would another attempt have a chance?
    pub(crate) retryable: bool,
    /// The part of the key that proved wrong.
    pub(crate) bad_key_part: Option<v1::Digest>,
}

impl JobFailure {
    /// One that another attempt, here or elsewhere, may not share.
    pub(crate) fn passing(reason: &'static str, message: impl ToString) -> Self {
        Self { reason, message: message.to_string(), retryable: true, bad_key_part: None }
    }

    /// One that every attempt would share.
    pub(crate) fn lasting(reason: &'static str, message: impl ToString) -> Self {
        Self { reason, message: message.to_string(), retryable: false, bad_key_part: None }
    }
}
