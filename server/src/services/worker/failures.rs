//! Failures of jobs, and keys that a worker finds damaged.

use std::sync::Arc;

use cloakwork_keystore::{Keystore, TenantId};
use cloakwork_proto::{printable_at_most, v1};
use cloakwork_scheduler::Retry;
use tokio::sync::Mutex;
use tonic::Status;
use tonic_types::StatusExt as _;

use crate::{
    digest,
    dispatch::{Failure, Leased},
    error::{ApiError, BLOB_UNAVAILABLE, DEVICE_FAILED, INTERNAL, QUOTA_EXCEEDED, Reason, WORKER_OUT_OF_MEMORY},
    metrics::Telemetry,
};

/// Judges the failures that workers report.
#[derive(Clone)]
pub struct Failures {
    keystore: Keystore,
    telemetry: Arc<Telemetry>,
    /// Held while the server reads a key part that a worker reported as damaged.
    examining: Arc<Mutex<()>>,
}

impl Failures {
    /// Quarantines damaged keys of this keystore.
    pub fn new(keystore: Keystore, telemetry: Arc<Telemetry>) -> Self {
        Self { keystore, telemetry, examining: Arc::default() }
    }

    /// The failure that a worker reports. A key with damaged bytes is quarantined, but only after
    /// the server has read them. If the bytes are good, the worker is at fault, and the job gets
    /// another attempt.
    pub(super) async fn judge(&self, leased: &Leased, failure: v1::CommitFailure) -> Result<Failure, ApiError> {
        let bad_key_part = match &failure.bad_key_part {
            Some(part) => Some(digest::parse(Some(part), "bad_key_part")?),
            None => None,
        };
        if let Some(part) = bad_key_part.filter(|part| leased.work.all_key_parts().any(|needed| needed == part)) {
            let tenant = TenantId::new(&leased.meta.tenant)?;
            // One read at a time. Otherwise workers could make the server read the same gigabytes
            // many times in parallel.
            let _reading = self.examining.lock().await;
            match self.keystore.is_intact(&tenant, &part).await {
                Ok(false) => self.keystore.quarantine(&tenant, leased.meta.key_id, &part).await?,
                Ok(true) => {
                    tracing::warn!(%part, "a worker reported a key part as damaged, but its stored bytes are intact");
                    self.telemetry.metrics.false_alarms.add(1, []);
                    return Ok(another(
                        DEVICE_FAILED,
                        "the worker misread a part of the key; its stored bytes are intact",
                    ));
                }
                Err(error) => {
                    tracing::error!(%error, %part, "a key part that a worker reported as damaged cannot be read");
                    return Ok(another(BLOB_UNAVAILABLE, "a part of the key cannot be read"));
                }
            }
        }
        let message = printable_at_most(&failure.message, MESSAGE_MAX);
        let known = Reason::named(&failure.reason).unwrap_or(INTERNAL);
        let retry = match failure.retryable {
            false => Retry::Never,
            // Another worker may have more memory.
            true if known.code == WORKER_OUT_OF_MEMORY.code => Retry::Elsewhere,
            true => Retry::Anywhere,
        };
        Ok(Failure { error: v1::JobError { reason: known.code.to_owned(), message }, retry })
    }
}

/// Converts the status of a tenant without room for outputs to a failure of the job. Returns `None`
/// for any other status.
pub(super) fn no_room(status: &Status) -> Option<Failure> {
    status.get_details_error_info().filter(|info| info.reason == QUOTA_EXCEEDED.code)?;
    let message = format!("there is no room for the outputs: {}", status.message());
    let error = v1::JobError { reason: QUOTA_EXCEEDED.code.to_owned(), message };
    Some(Failure { error, retry: Retry::Never })
}

/// A failure that lets the job have another attempt.
fn another(reason: Reason, message: &str) -> Failure {
    let error = v1::JobError { reason: reason.code.to_owned(), message: message.to_owned() };
    Failure { error, retry: Retry::Anywhere }
}

/// Maximum number of bytes kept of a worker's message.
const MESSAGE_MAX: usize = 1024;
