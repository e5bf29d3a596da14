//! Failures of jobs, as reported to the server.

use std::panic::AssertUnwindSafe;

use cloakwork_device::panic_message;
use cloakwork_proto::v1;
use futures_util::FutureExt as _;

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

/// Awaits a part of a job up to its end or its panic. A panic becomes a failure, because it may be
/// this worker's and not the job's. An uncaught panic would end the job's task without an outcome,
/// and the server would wait for the job until it counts as stalled.
pub(crate) async fn caught<T>(part: impl Future<Output = T>) -> Result<T, JobFailure> {
    AssertUnwindSafe(part).catch_unwind().await.map_err(|panic| {
        let cause = panic_message(&*panic);
        tracing::error!(cause, "the task of a job panicked");
        JobFailure::passing("DEVICE_FAILED", format!("the task of the job panicked: {cause}"))
    })
}
