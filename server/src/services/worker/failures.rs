//! Failures of jobs, and keys that a worker finds damaged.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use cloakwork_keystore::{Digest, Keystore, TenantId};
use cloakwork_params::KeyId;
use cloakwork_proto::{printable_at_most, v1};
use cloakwork_scheduler::{Retry, WorkerId};
use cloakwork_share::FairShare;
use quick_cache::unsync::Cache;
use tonic::Status;
use tonic_types::StatusExt as _;

use crate::{
    digest,
    dispatch::{Failure, Leased},
    error::{
        ATTESTATION_EXPIRED, ATTESTATION_INVALID, ATTESTATION_MISMATCH, ATTESTATION_OTHER_INSTALLATION, ApiError,
        BLOB_UNAVAILABLE, CERTIFICATE_UNAVAILABLE, DEVICE_FAILED, INTERNAL, QUOTA_EXCEEDED, Reason,
        WORKER_OUT_OF_MEMORY,
    },
    metrics::Telemetry,
};

/// Judges the failures that workers report. Clones share all state.
#[derive(Clone)]
pub struct Failures {
    keystore: Keystore,
    telemetry: Arc<Telemetry>,
    /// The single place to read a key part that a worker reported as damaged. Workers take turns.
    pub(super) reading: Arc<FairShare<WorkerId>>,
    /// Parts that were intact, each with the beginning of its latest read.
    intact: Arc<Mutex<Cache<Part, Instant>>>,
}

/// A failure as a worker reports it, cut to what is kept of it.
pub(super) struct Claim {
    reason: Reason,
    message: String,
    is_retryable: bool,
    bad_key_part: Option<Digest>,
}

/// A part of a tenant's key.
type Part = (TenantId, Digest);

/// The state of the stored bytes of a key part.
enum Found {
    Intact,
    Damaged,
    Unreadable,
}

/// Reasons of failures that another worker probably does not have.
const OF_THIS_WORKER: [Reason; 7] = [
    ATTESTATION_EXPIRED,
    ATTESTATION_INVALID,
    ATTESTATION_MISMATCH,
    ATTESTATION_OTHER_INSTALLATION,
    CERTIFICATE_UNAVAILABLE,
    DEVICE_FAILED,
    WORKER_OUT_OF_MEMORY,
];

impl Claim {
    /// Reads the failure from a request. Keeps none of the request's bytes.
    pub(super) fn read(failure: &v1::CommitFailure) -> Result<Self, ApiError> {
        Ok(Self {
            reason: Reason::named(&failure.reason).unwrap_or(INTERNAL),
            message: printable_at_most(&failure.message, MESSAGE_MAX),
            is_retryable: failure.retryable,
            bad_key_part: match &failure.bad_key_part {
                Some(part) => Some(digest::parse(Some(part), "bad_key_part")?),
                None => None,
            },
        })
    }
}

impl Failures {
    /// Quarantines damaged keys of this keystore.
    pub fn new(keystore: Keystore, telemetry: Arc<Telemetry>) -> Self {
        let intact = Arc::new(Mutex::new(Cache::new(INTACT_PARTS_MAX)));
        Self { keystore, telemetry, reading: FairShare::new(1, 1), intact }
    }

    /// The failure of a job that `worker` claims. A key with damaged bytes is quarantined, but only
    /// after the server has read them. If the bytes are good, the worker is at fault, and the job
    /// gets another attempt. `still_leased` checks the lease again after a wait.
    pub(super) async fn judge(
        &self,
        claim: Claim,
        worker: WorkerId,
        leased: &Leased,
        still_leased: impl Future<Output = Result<(), ApiError>>,
    ) -> Result<Failure, ApiError> {
        let part = claim.bad_key_part.filter(|part| leased.work.all_key_parts().any(|needed| needed == part));
        if let Some(part) = part {
            match self.examine(part, worker, leased, still_leased).await? {
                Found::Damaged => {}
                Found::Intact => {
                    tracing::warn!(
                        %part, worker = %format_args!("{:032x}", worker.0),
                        "a worker reported a key part as damaged, but its stored bytes are intact"
                    );
                    self.telemetry.metrics.false_alarms.add(1, []);
                    let message = "the worker misread a part of the key; its stored bytes are intact";
                    return Ok(retried(DEVICE_FAILED, message, Retry::Elsewhere));
                }
                Found::Unreadable => {
                    return Ok(retried(BLOB_UNAVAILABLE, "a part of the key cannot be read", Retry::Anywhere));
                }
            }
        }
        let retry = match claim.is_retryable {
            false => Retry::Never,
            // The worker may have a broken device, too little memory for the job, or a wrong clock.
            // A worker that fails at once is always free, and would use up all attempts of a job.
            true if OF_THIS_WORKER.iter().any(|reason| reason.code == claim.reason.code) => Retry::Elsewhere,
            true => Retry::Anywhere,
        };
        let error = v1::JobError { reason: claim.reason.code.to_owned(), message: claim.message };
        Ok(Failure { error, retry })
    }

    /// Finds the state of a part that `worker` reports as damaged. The server reads each part once
    /// for all attempts that began before the read, and one part at a time. Otherwise workers could
    /// keep the server busy with reads of the same gigabytes.
    async fn examine(
        &self,
        part: Digest,
        worker: WorkerId,
        leased: &Leased,
        still_leased: impl Future<Output = Result<(), ApiError>>,
    ) -> Result<Found, ApiError> {
        let part = (TenantId::new(&leased.meta.tenant)?, part);
        if self.was_intact(&part, leased.since) {
            return Ok(Found::Intact);
        }
        let place = self.reading.take(&worker, 1).await;
        still_leased.await?;
        // Another call may have read the part meanwhile.
        if self.was_intact(&part, leased.since) {
            return Ok(Found::Intact);
        }
        // A task of its own completes the read even if the caller goes away. Otherwise a worker
        // that breaks off its calls could begin the same read again and again.
        let (this, key_id) = (self.clone(), leased.meta.key_id);
        let read = tokio::spawn(async move {
            let found = this.read(part, key_id).await;
            drop(place);
            found
        });
        read.await.map_err(|error| INTERNAL.error(format!("a key part was not read: {error}")))?
    }

    /// Reads a part, and quarantines its key if the bytes are damaged.
    async fn read(&self, part: Part, key_id: KeyId) -> Result<Found, ApiError> {
        let (tenant, digest) = &part;
        let begun = Instant::now();
        let is_intact = self.keystore.is_intact(tenant, digest).await;
        match is_intact {
            Ok(true) => {
                self.intact().insert(part, begun);
                Ok(Found::Intact)
            }
            Ok(false) => {
                self.keystore.quarantine(tenant, key_id, digest).await?;
                Ok(Found::Damaged)
            }
            Err(error) => {
                tracing::error!(%error, part = %digest, "a key part that a worker reported as damaged cannot be read");
                Ok(Found::Unreadable)
            }
        }
    }

    /// Whether a read that began after `since` has found the part intact.
    fn was_intact(&self, part: &Part, since: Instant) -> bool {
        self.intact().get(part).is_some_and(|begun| *begun >= since)
    }

    fn intact(&self) -> MutexGuard<'_, Cache<Part, Instant>> {
        self.intact.lock().unwrap_or_else(PoisonError::into_inner)
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
fn retried(reason: Reason, message: &str, retry: Retry) -> Failure {
    let error = v1::JobError { reason: reason.code.to_owned(), message: message.to_owned() };
    Failure { error, retry }
}

/// Maximum number of bytes kept of a worker's message.
const MESSAGE_MAX: usize = 1024;

/// Maximum number of key parts that are remembered as intact.
const INTACT_PARTS_MAX: usize = 1024;
