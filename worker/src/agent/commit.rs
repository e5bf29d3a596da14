//! Commit of a job's outcome to the server.

use std::time::Duration;

use bytes::Bytes;
use cloakwork_proto::{
    printable_at_most,
    v1::{self, commit_header::Outcome, commit_result_request::Part},
};
use cloakwork_retry::Pauses;
use tonic::{Code, Request, Status};

use super::{Agent, Held, job::MESSAGE_MAX};
use crate::connection::{passes, reason};

/// Largest piece of a result in one message.
const PIECE_BYTES: usize = 1 << 20;
/// Longest wait for an answer to a commit, before the allowance for its messages.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Additional wait for each message of a commit.
const COMMIT_TIMEOUT_PER_MESSAGE: Duration = Duration::from_secs(2);

impl Agent {
    /// Hands in an outcome. If the server refuses outputs, the job has failed on this worker, and
    /// is handed in as such: the server then need not wait until the lease ends. A quarantined
    /// worker hands in nothing. Withdrawal of the lease drops this future.
    pub(super) async fn commit(&self, held: &Held, header: v1::CommitHeader, outputs: Vec<Bytes>) {
        let of_outputs = matches!(header.outcome, Some(Outcome::Outputs(_)));
        let Err(refusal) = self.send(held, header.clone(), outputs).await else { return };
        if of_outputs && !is_quarantine(&refusal) {
            let failure = v1::CommitFailure {
                reason: reason(&refusal),
                message: printable_at_most(refusal.message(), MESSAGE_MAX),
                retryable: true,
                bad_key_part: None,
            };
            let header = v1::CommitHeader { outcome: Some(Outcome::Failure(failure)), ..header };
            let _ = self.send(held, header, Vec::new()).await;
        }
    }

    /// Sends an outcome until the server has accepted or refused it.
    async fn send(&self, held: &Held, header: v1::CommitHeader, outputs: Vec<Bytes>) -> Result<(), Status> {
        let pieces = outputs.iter().flat_map(|output| {
            (0..output.len())
                .step_by(PIECE_BYTES)
                .map(|start| output.slice(start..(start + PIECE_BYTES).min(output.len())))
        });
        let part = |part| v1::CommitResultRequest { part: Some(part) };
        let mut messages = vec![part(Part::Header(header))];
        messages.extend(pieces.map(|piece| part(Part::Data(piece))));
        let timeout = COMMIT_TIMEOUT + COMMIT_TIMEOUT_PER_MESSAGE * messages.len() as u32;
        let mut pauses = Pauses::new(Duration::from_millis(20), Duration::from_secs(2));
        loop {
            let mut client = self.client.clone();
            // The messages share their bytes with the outputs, so that a retry copies no large
            // buffers.
            let mut request = Request::new(tokio_stream::iter(messages.clone()));
            if let Some(trace) = &held.trace {
                trace.add_to(request.metadata_mut());
            }
            let call = client.commit_result(request);
            match tokio::time::timeout(timeout, call).await {
                Ok(Ok(response)) => {
                    if !response.into_inner().accepted {
                        tracing::info!(job = %hex(&held.lease.job_id), "the lease was lost; the result is discarded");
                    }
                    return Ok(());
                }
                Ok(Err(status)) if !passes(&status) => {
                    let (code, cause) = (status.code(), status.message());
                    tracing::warn!(job = %hex(&held.lease.job_id), ?code, cause, "the result was refused");
                    return Err(status);
                }
                Ok(Err(_)) | Err(_) => {}
            }
            held.status.advance();
            tokio::time::sleep(pauses.next_pause()).await;
        }
    }
}

/// Whether the server refuses this worker because its results were found wrong.
pub(super) fn is_quarantine(refusal: &Status) -> bool {
    refusal.code() == Code::FailedPrecondition && reason(refusal) == "WORKER_QUARANTINED"
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
