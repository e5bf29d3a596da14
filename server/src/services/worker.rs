//! The worker service. The lease is the only right of a worker: the worker reads the blobs that its
//! leased jobs need, and hands in their results.

mod assignments;
mod failures;
mod inbox;
mod incoming;
mod outputs;
mod report;

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_keystore::{Keystore, TenantId};
use cloakwork_proto::v1::{
    self, AttachRequest, AttachResponse, CommitResultRequest, CommitResultResponse, ReadBlobRequest, ReadBlobResponse,
    commit_header, commit_result_request::Part, worker_service_server::WorkerService,
};
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};
use tokio_stream::{Stream, StreamExt as _};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use self::{
    assignments::Assignments,
    inbox::Inbox,
    report::{label, lease_id, worker_id},
};
use super::Transfers;
use crate::{
    digest,
    dispatch::{Dispatcher, Leased, Outcome},
    error::{ApiError, DEADLINE_EXCEEDED, FIELD_MISSING, STALE_LEASE},
    limits::Limits,
    metrics::Telemetry,
};

pub use self::{failures::Failures, outputs::Outputs};

/// The worker service.
#[derive(Clone)]
pub struct Workers {
    /// The dispatcher, which decides about jobs.
    pub dispatcher: Dispatcher,
    /// Blobs, which workers read.
    pub keystore: Keystore,
    /// Takes the outputs of jobs.
    pub outputs: Outputs,
    /// Judges failed jobs.
    pub failures: Failures,
    /// Limits.
    pub limits: Arc<Limits>,
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
        let mut messages = request.into_inner();
        let first = self.first_report(&mut messages).await?;
        let report = Arc::new(report::report(&first)?);
        let (version, device) = (label(&first.version, "version")?, label(&first.device, "device")?);
        let shown = watch::Sender::new(report::shown(&first));
        // The message may be many times as large as the report.
        drop(first);
        let (worker, name) = (report.worker, report.name.clone());
        let interval = Duration::from_millis(self.limits.report_ms);
        let assignments = Assignments::new(shown.subscribe(), interval, self.draining.clone());
        let (wishes, stream) = self.dispatcher.attach(report).await?;
        // Logged as text, not with `Display`: a name of several words then cannot imitate other
        // fields of the line.
        let name = &*name;
        tracing::info!(worker = %format_args!("{:032x}", worker.0), name, version, device, "a worker attached");
        let (mut failure, failed) = oneshot::channel();
        let (inbox, current) = (Inbox { messages, worker, shown, interval }, wishes.clone());
        let dispatcher = self.dispatcher.clone();
        tokio::spawn(async move {
            // Ends with the stream, for whatever cause.
            let ended = inbox.pass_on(current, &mut failure, |report| dispatcher.report(stream, report)).await;
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
        let request = request.into_inner();
        let leased = self.leased(&request.worker_id, request.lease.as_ref()).await?;
        let digest = digest::parse(request.digest.as_ref(), "digest")?;
        if !leased.needs(&digest) {
            return Err(STALE_LEASE.error("the leased job does not need this blob").into());
        }
        let tenant = TenantId::new(&leased.meta.tenant).map_err(ApiError::from)?;
        let chunks = self.keystore.read(&tenant, &digest, request.offset_bytes).await.map_err(ApiError::from)?;
        let transfers = self.transfers.clone();
        let messages = chunks.map(move |chunk| match chunk {
            Ok(data) => {
                transfers.sent(data.len());
                Ok(ReadBlobResponse { data })
            }
            Err(error) => Err(ApiError::from(error).into()),
        });
        Ok(Response::new(Box::pin(messages)))
    }

    async fn commit_result(
        &self,
        request: Request<Streaming<CommitResultRequest>>,
    ) -> Result<Response<CommitResultResponse>, Status> {
        let returned = Instant::now();
        let mut parts = request.into_inner();
        let Some(Part::Header(header)) = parts.message().await?.and_then(|message| message.part) else {
            return Err(FIELD_MISSING.error("expected a header first").into());
        };
        let leased = match self.leased(&header.worker_id, header.lease.as_ref()).await {
            Ok(leased) => leased,
            Err(error) if error.reason() == STALE_LEASE => {
                self.telemetry.metrics.stale_results.add(1, []);
                return Ok(Response::new(CommitResultResponse { accepted: false }));
            }
            Err(error) => return Err(error.into()),
        };
        let result = match header.outcome {
            Some(commit_header::Outcome::Outputs(outputs)) => {
                match self.outputs.receive(&leased, &outputs.digests, &mut parts).await {
                    Ok(contents) => Ok(contents),
                    // The quota would refuse every retry as well, and the job would delay other
                    // jobs meanwhile.
                    Err(status) => Err(failures::no_room(&status).ok_or(status)?),
                }
            }
            Some(commit_header::Outcome::Failure(failure)) => Err(self.failures.judge(&leased, failure).await?),
            None => return Err(FIELD_MISSING.error("the header has no outcome").into()),
        };
        let outcome = Outcome {
            worker: worker_id(&header.worker_id)?,
            job: leased.meta.id,
            epoch: leased.epoch,
            result,
            latency: report::record(header.latency.unwrap_or_default()),
            returned,
            stored: Instant::now(),
        };
        let accepted = self.dispatcher.commit(&leased.meta.tenant, outcome).await?;
        if !accepted {
            self.outputs.release(&leased).await?;
        }
        Ok(Response::new(CommitResultResponse { accepted }))
    }
}

impl Workers {
    /// The first report on a stream. The whole report must arrive within the time of a lease. A
    /// slower worker could keep no job, and a stream keeps its place while it sends a few bytes at
    /// a time.
    async fn first_report(&self, messages: &mut Streaming<AttachRequest>) -> Result<AttachRequest, Status> {
        let lease_ms = self.limits.lease_ms;
        let first = timeout(Duration::from_millis(lease_ms), messages.message())
            .await
            .map_err(|_| DEADLINE_EXCEEDED.error(format!("no whole report arrived within {lease_ms} ms (lease_ms)")))?;
        Ok(first?.ok_or_else(|| FIELD_MISSING.error("the stream ended before a report"))?)
    }

    async fn leased(&self, worker: &[u8], lease: Option<&v1::Lease>) -> Result<Arc<Leased>, ApiError> {
        let worker = worker_id(worker)?;
        let (job, epoch) = lease_id(lease)?;
        let leased = self.dispatcher.leased(worker, job, epoch).await?;
        leased.ok_or_else(|| STALE_LEASE.error("the job is no longer leased to this worker"))
    }
}
