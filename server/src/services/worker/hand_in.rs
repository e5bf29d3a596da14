//! The handing in of a leased job's outcome.
//!
//! A lease has one such call at a time, and the newest call wins. A worker whose connection broke
//! repeats its call, possibly long before the server notices the break. The older call would only
//! keep the memory and the thread that the newer call needs.

use std::time::{Duration, Instant};

use bytes::Bytes;
use cloakwork_attestation::ATTESTATION_BYTES;
use cloakwork_keystore::Digest;
use cloakwork_proto::v1::{self, CommitResultRequest, commit_header, commit_result_request::Part};
use cloakwork_scheduler::WorkerId;
use cloakwork_share::Share;
use tonic::{Status, Streaming};

use super::{
    Workers,
    failures::{self, Claim},
    lease::{LeaseName, RETRY_DELAY},
    outputs::Received,
    report,
};
use crate::{
    digest,
    dispatch::{Failure, Leased, Outcome, Sample, Turn},
    error::{ApiError, FIELD_MISSING, INVALID_ARGUMENT, OVERLOADED, STALE_LEASE},
    jobs::Content,
    services::intake::Arrived,
};

/// Maximum number of outputs that a worker announces. No program has more.
const ANNOUNCED_OUTPUTS_MAX: usize = 1024;

/// The header of a call, cut to what is kept of it. No part of the header shares bytes with the
/// request, which may be much larger.
struct Header {
    lease: LeaseName,
    latency: v1::LatencyRecord,
    lowering: v1::Lowering,
    outcome: Announcement,
}

/// The outcome that a header announces.
enum Announcement {
    Outputs { digests: Vec<Digest>, attestation: Bytes },
    Failure(Claim),
}

impl Announcement {
    /// Fails for reproducible outputs of blocks without the form in which they were computed. A
    /// worker that could leave it out could choose which of its results are checked.
    fn check_lowering(&self, lowering: v1::Lowering, leased: &Leased) -> Result<(), ApiError> {
        let needs_one = matches!(self, Self::Outputs { .. }) && leased.meta.set.tfhe().is_some();
        match needs_one && !leased.class.is_empty() && lowering == v1::Lowering::Unspecified {
            false => Ok(()),
            true => Err(INVALID_ARGUMENT
                .error("a worker that states a result class must state the lowering of its results")
                .field("lowering", "work or depth")),
        }
    }
}

/// An outcome that the server has received and checked.
struct Checked {
    result: Result<Vec<Content>, Failure>,
    /// Counts the bytes in `result`.
    memory: Option<Share<WorkerId>>,
    /// The rows that are computed a second time.
    sample: Option<Sample>,
    /// For a check, a digest of its rows for each output.
    check: Option<Vec<[u8; 32]>>,
    /// The worker's attestation of the outputs. `None` for a failure, and for a check.
    attestation: Option<v1::Attestation>,
}

impl Checked {
    fn failed(failure: Failure) -> Self {
        Self { result: Err(failure), memory: None, sample: None, check: None, attestation: None }
    }
}

/// The reason why an outcome was not taken.
enum Refusal {
    /// The worker does not hold the lease.
    Stale,
    Failed(Status),
}

impl Workers {
    /// Takes the outcome of a leased job from a worker. Returns false if the worker no longer holds
    /// the lease.
    pub(super) async fn hand_in(
        &self,
        parts: Streaming<CommitResultRequest>,
        arrived: Arrived,
    ) -> Result<bool, Status> {
        match self.try_hand_in(parts, arrived).await {
            Ok(accepted) => Ok(accepted),
            Err(Refusal::Stale) => {
                self.telemetry.metrics.stale_results.add(1, []);
                Ok(false)
            }
            Err(Refusal::Failed(status)) => Err(status),
        }
    }

    async fn try_hand_in(&self, mut parts: Streaming<CommitResultRequest>, arrived: Arrived) -> Result<bool, Refusal> {
        let returned = Instant::now();
        let Some(Part::Header(header)) = self.first_message(&mut parts).await?.and_then(|message| message.part) else {
            return Err(FIELD_MISSING.error("expected a header first").into());
        };
        let Header { lease, latency, lowering, outcome } = Header::read(header)?;
        let leased = lease.leased(&self.dispatcher).await?;
        outcome.check_lowering(lowering, &leased)?;
        let replaced = leased.calls.begin_hand_in();
        let checked = async {
            let mut turn = self.turn(lease, &leased).await?;
            let checked = self.check(lease, &leased, &mut turn, outcome, &mut parts, arrived).await?;
            Ok::<_, Refusal>((turn, checked))
        };
        let checked = tokio::select! {
            biased;
            () = replaced.cancelled() => Err(Refusal::from(replaced_by_newer())),
            error = lease.lost(&self.dispatcher, Duration::from_millis(self.limits.lease_ms)) => Err(error.into()),
            checked = checked => checked,
        };
        if matches!(checked, Err(Refusal::Stale)) {
            self.outputs.release(&leased).await?;
        }
        // The turn ends after the decision. A newer call then learns whether the lease still lasts.
        let (_turn, Checked { result, memory, sample, check, attestation }) = checked?;
        let outcome = Outcome {
            worker: lease.worker,
            job: leased.meta.id,
            epoch: leased.epoch,
            result,
            memory,
            sample,
            check,
            lowering,
            latency,
            attestation,
            returned,
            stored: Instant::now(),
        };
        let accepted = self.dispatcher.commit(&leased.meta.tenant, outcome).await?;
        if !accepted {
            self.outputs.release(&leased).await?;
        }
        Ok(accepted)
    }

    /// Waits for the turn to hand in the result. The lease is checked again after a wait, because
    /// the call before may have ended the job.
    async fn turn<'l>(&self, lease: LeaseName, leased: &'l Leased) -> Result<Turn<'l>, ApiError> {
        if let Some(turn) = leased.calls.try_turn() {
            return Ok(turn);
        }
        let turn = leased.calls.turn().await;
        lease.leased(&self.dispatcher).await?;
        Ok(turn)
    }

    /// Receives and checks an outcome.
    async fn check(
        &self,
        lease: LeaseName,
        leased: &Leased,
        turn: &mut Turn<'_>,
        outcome: Announcement,
        parts: &mut Streaming<CommitResultRequest>,
        arrived: Arrived,
    ) -> Result<Checked, Refusal> {
        match outcome {
            Announcement::Outputs { digests, attestation } if leased.check.is_some() => {
                self.installation.check(&attestation, lease.worker, leased, &digests)?;
                let check = self.outputs.receive_check(leased, &digests, turn, parts, arrived).await?;
                Ok(Checked {
                    result: Ok(Vec::new()),
                    memory: None,
                    sample: None,
                    check: Some(check),
                    attestation: None,
                })
            }
            Announcement::Outputs { digests, attestation } => {
                self.installation.check(&attestation, lease.worker, leased, &digests)?;
                match self.outputs.receive(lease.worker, leased, &digests, turn, parts, arrived).await {
                    Ok(Received { contents, memory, sample }) => {
                        let attestation = Some(attestation_of(attestation, leased));
                        Ok(Checked { result: Ok(contents), memory: Some(memory), sample, check: None, attestation })
                    }
                    // The quota would refuse every retry as well, and the job would delay other
                    // jobs meanwhile.
                    Err(status) => {
                        let failure = failures::no_room(&status).ok_or(Refusal::Failed(status))?;
                        Ok(Checked::failed(failure))
                    }
                }
            }
            Announcement::Failure(claim) => {
                let still_leased = async { lease.leased(&self.dispatcher).await.map(drop) };
                Ok(Checked::failed(self.failures.judge(claim, lease.worker, leased, still_leased).await?))
            }
        }
    }
}

impl Header {
    fn read(header: v1::CommitHeader) -> Result<Self, ApiError> {
        let lowering = header.lowering();
        let outcome = match &header.outcome {
            Some(commit_header::Outcome::Outputs(outputs)) => {
                let got = outputs.digests.len();
                if got > ANNOUNCED_OUTPUTS_MAX {
                    return Err(INVALID_ARGUMENT.error(format!("{got} outputs: at most {ANNOUNCED_OUTPUTS_MAX}")));
                }
                let digests = outputs.digests.iter().map(|digest| digest::parse(Some(digest), "digests"));
                // One byte more than an attestation has shows that it is too long.
                let length = outputs.attestation.len().min(ATTESTATION_BYTES + 1);
                let attestation = Bytes::copy_from_slice(&outputs.attestation[..length]);
                Announcement::Outputs { digests: digests.collect::<Result<_, _>>()?, attestation }
            }
            Some(commit_header::Outcome::Failure(failure)) => Announcement::Failure(Claim::read(failure)?),
            None => return Err(FIELD_MISSING.error("the header has no outcome")),
        };
        let lease = LeaseName::parse(&header.worker_id, header.lease.as_ref())?;
        Ok(Self { lease, latency: report::record(header.latency.unwrap_or_default()), lowering, outcome })
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        if error.reason() == STALE_LEASE { Self::Stale } else { Self::Failed(error.into()) }
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Failed(status)
    }
}

/// A checked attestation, with the list that its digest over the evaluation key stands for.
fn attestation_of(signed: Bytes, leased: &Leased) -> v1::Attestation {
    let parts = leased.work.all_key_parts();
    let key_parts = parts.map(|part| Bytes::copy_from_slice(&part.blake3)).collect();
    v1::Attestation { signed, key_parts }
}

fn replaced_by_newer() -> ApiError {
    OVERLOADED.error("a newer call hands in the result of this lease").retry_after(RETRY_DELAY)
}
