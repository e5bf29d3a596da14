//! Handing in how a job ended.

use std::time::Duration;

use bytes::Bytes;
use cloakwork_proto::v1::{self, commit_result_request::Part};

use super::{Agent, Held};
use crate::{backoff::Backoff, connection::passes};

/// Longest piece of a result in one message.
const PIECE: usize = 1 << 20;
/// Longest wait for an answer, and what a piece adds to it.
const PATIENCE: Duration = Duration::from_secs(30);
const PATIENCE_PER_PIECE: Duration = Duration::from_secs(2);

impl Agent {
    /// Sends an end until the server has taken or refused it. Whoever withdraws the lease drops this future.
    pub(super) async fn commit(&self, held: &Held, header: v1::CommitHeader, outputs: Vec<Bytes>) {
        let pieces = outputs.iter().flat_map(|output| {
            (0..output.len()).step_by(PIECE).map(|start| output.slice(start..(start + PIECE).min(output.len())))
        });
        let part = |part| v1::CommitResultRequest { part: Some(part) };
        let mut messages = vec![part(Part::Header(header))];
        messages.extend(pieces.map(|piece| part(Part::Data(piece))));
        let patience = PATIENCE + PATIENCE_PER_PIECE * messages.len() as u32;
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(2));
        loop {
            let mut client = self.client.clone();
            // The messages share their bytes with the outputs: a retry copies nothing large.
            let call = client.commit_result(tokio_stream::iter(messages.clone()));
            match tokio::time::timeout(patience, call).await {
                Ok(Ok(response)) => {
                    if !response.into_inner().accepted {
                        tracing::info!(job = %hex(&held.lease.job_id), "the lease was lost; the result is thrown away");
                    }
                    return;
                }
                Ok(Err(status)) if !passes(&status) => {
                    let (code, cause) = (status.code(), status.message());
                    tracing::warn!(job = %hex(&held.lease.job_id), ?code, cause, "the result was refused");
                    return;
                }
                Ok(Err(_)) | Err(_) => {}
            }
            held.status.advance();
            backoff.wait().await;
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
