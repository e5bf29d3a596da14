//! The worker service. The lease is the only right of a worker: the worker reads the blobs that its
//! leased jobs need, and hands in their results.

mod assignments;
mod failures;
mod hand_in;
mod inbox;
mod incoming;
mod lease;
mod outputs;
mod reads;
mod report;
mod sample;

use std::{pin::Pin, sync::Arc, time::Duration};

use cloakwork_keystore::Keystore;
use cloakwork_proto::{
    SHARD_OF_WORKER,
    v1::{
        AttachRequest, AttachResponse, CommitResultRequest, CommitResultResponse, ReadBlobRequest, ReadBlobResponse,
        worker_service_server::WorkerService,
    },
};
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};
use tokio_stream::{Stream, StreamExt as _};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use self::{assignments::Assignments, inbox::Inbox, report::label};
use super::{Transfers, intake::Arrived};
use crate::{
    auth::Peer,
    dispatch::{Dispatcher, Seat},
    error::{DEADLINE_EXCEEDED, FIELD_MISSING},
    installation::{Installation, Renewal},
    limits::Limits,
    metrics::Telemetry,
};

pub use self::{
    failures::Failures,
    outputs::{OutputMemory, Outputs},
    reads::{READS_MAX, Reads},
};

/// The worker service.
#[derive(Clone)]
pub struct Workers {
    /// The dispatcher, which decides about jobs.
    pub dispatcher: Dispatcher,
    /// Blobs, which workers read.
    pub keystore: Keystore,
    /// Places for reads of blobs.
    pub reads: Reads,
    /// Takes the outputs of jobs.
    pub outputs: Outputs,
    /// Judges failed jobs.
    pub failures: Failures,
    /// Limits.
    pub limits: Arc<Limits>,
    /// Certifies workers and checks their attestations.
    pub installation: Arc<Installation>,
    /// Metrics.
    pub telemetry: Arc<Telemetry>,
    /// Counters of sent bytes.
    pub transfers: Transfers,
    /// Cancelled when the server begins to stop.
    pub draining: CancellationToken,
}

type Stream_<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl WorkerService for Workers {
    type AttachStream = Stream_<AttachResponse>;
    type ReadBlobStream = Stream_<ReadBlobResponse>;

    async fn attach(&self, request: Request<Streaming<AttachRequest>>) -> Result<Response<Self::AttachStream>, Status> {
        let seat = match request.extensions().get() {
            Some(Peer::Embedded) => Seat::Fixed,
            _ if request.metadata().contains_key(SHARD_OF_WORKER) => Seat::Here,
            _ => Seat::Any,
        };
        let mut messages = request.into_inner();
        let first = self.first_message(&mut messages).await?;
        let first = first.ok_or_else(|| FIELD_MISSING.error("the stream ended before a report"))?;
        let report = Arc::new(report::report(&first)?);
        let (version, device) = (label(&first.version, "version")?, label(&first.device, "device")?);
        let (key, latest) = (report::attestation_key(&first)?, report::latest_certificate(&first));
        let shown = watch::Sender::new(report::shown(&first));
        // The message may be many times as large as the report.
        drop(first);
        let (worker, name) = (report.worker, report.name.clone());
        let interval = Duration::from_millis(self.limits.report_ms);
        // A quarantined worker gets no certificate: what it signs is of no use to anyone.
        self.dispatcher.refuse_quarantined(worker).await?;
        // A worker without a certificate gets no job, because its results would be refused.
        let renewal = Renewal::begin(self.installation.clone(), worker, key, latest).await?;
        let assignments = Assignments::new(shown.subscribe(), renewal.certificates(), interval, self.draining.clone());
        let (wishes, stream) = self.dispatcher.attach(report, seat).await?;
        // Logged as text, not with `Display`: a name of several words then cannot imitate other
        // fields of the line.
        let name = &*name;
        tracing::info!(worker = %format_args!("{:032x}", worker.0), name, version, device, "a worker attached");
        let (mut failure, failed) = oneshot::channel();
        let (inbox, current) = (Inbox { messages, worker, shown, interval }, wishes.clone());
        let dispatcher = self.dispatcher.clone();
        tokio::spawn(async move {
            // Ends with the stream, for whatever cause.
            let ended = tokio::select! {
                ended = inbox.pass_on(current, &mut failure, |report| dispatcher.report(stream, report)) => ended,
                expired = renewal.run() => Err(expired),
            };
            let _ = dispatcher.detach(worker, stream).await;
            if let Err(status) = ended {
                let _ = failure.send(status);
            }
        });
        // The worker learns of the error that ended its reports.
        let last = futures_util::stream::once(failed).filter_map(Result::ok).map(Err);
        Ok(Response::new(Box::pin(futures_util::stream::select(assignments.stream(wishes), last))))
    }

    async fn read_blob(&self, request: Request<ReadBlobRequest>) -> Result<Response<Self::ReadBlobStream>, Status> {
        Ok(Response::new(self.read(request.into_inner()).await?))
    }

    async fn commit_result(
        &self,
        request: Request<Streaming<CommitResultRequest>>,
    ) -> Result<Response<CommitResultResponse>, Status> {
        let arrived = Arrived::of(&request);
        let accepted = self.hand_in(request.into_inner(), arrived).await?;
        Ok(Response::new(CommitResultResponse { accepted }))
    }
}

impl Workers {
    /// The first message on a worker's stream. The whole message must arrive within the time of a
    /// lease. A slower worker could keep no job, and a stream keeps its place while it sends a few
    /// bytes at a time.
    async fn first_message<M>(&self, messages: &mut Streaming<M>) -> Result<Option<M>, Status> {
        let lease_ms = self.limits.lease_ms;
        timeout(Duration::from_millis(lease_ms), messages.message()).await.unwrap_or_else(|_| {
            let message = format!("no whole message arrived within {lease_ms} ms (lease_ms)");
            Err(DEADLINE_EXCEEDED.error(message).into())
        })
    }
}

#[cfg(test)]
mod tests;
