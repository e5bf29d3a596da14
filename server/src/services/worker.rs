//! The worker service. The lease is the only right of a worker: the worker reads the blobs that its
//! leased jobs need, and hands in their results.

use std::{
    collections::{BTreeSet, HashSet},
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use cloakwork_circuit::ckks::Vector;
use cloakwork_keystore::{self as keystore, BlobInfo, Digest, Keystore, TenantId};
use cloakwork_params::{AnySet, KeyId, ObjectKind, ckks::layout::CiphertextShape, table};
use cloakwork_proto::{
    is_deceptive, printable, printable_at_most,
    v1::{
        self, AttachRequest, AttachResponse, CommitResultRequest, CommitResultResponse, ReadBlobRequest,
        ReadBlobResponse, commit_header, commit_result_request::Part, worker_service_server::WorkerService,
    },
};
use cloakwork_scheduler::{JobId, LeaseReport, Report, Retry, Stage, WorkerId};
use tokio::{sync::watch, time::timeout};
use tokio_stream::{Stream, StreamExt as _};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};
use tonic_types::StatusExt as _;

use super::Transfers;
use crate::{
    clock, database, digest,
    dispatch::{Dispatcher, Failure, Leased, Leases, Outcome, Wish, WorkerReport},
    error::{
        ApiError, BLOB_UNAVAILABLE, DEADLINE_EXCEEDED, DEVICE_FAILED, DIGEST_MISMATCH, FIELD_MISSING, INVALID_ARGUMENT,
        QUOTA_EXCEEDED, Reason, STALE_LEASE, WORKER_OUT_OF_MEMORY,
    },
    jobs::{Content, GROUP_BYTES, JobMeta, id},
    limits::Limits,
    metrics::Telemetry,
    programs::{Compiler, Family},
    quota::Quota,
    store::Store,
};

/// The worker service.
#[derive(Clone)]
pub struct Workers {
    /// The dispatcher, which decides about jobs.
    pub dispatcher: Dispatcher,
    /// Blobs.
    pub keystore: Keystore,
    /// The store, for jobs that have ended.
    pub store: Store,
    /// Room of each tenant for outputs in the store.
    pub quota: Quota,
    /// The compiler, which remembers compiled programs.
    pub compiler: Compiler,
    /// Limits.
    pub limits: Arc<Limits>,
    /// Metrics.
    pub telemetry: Arc<Telemetry>,
    /// Counters of sent and received bytes.
    pub transfers: Transfers,
    /// Held while the server reads a key part that a worker reported as damaged.
    pub examining: Arc<tokio::sync::Mutex<()>>,
    /// Cancelled when the server begins to stop.
    pub draining: CancellationToken,
}

type Stream_<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl WorkerService for Workers {
    type AttachStream = Stream_<AttachResponse>;
    type ReadBlobStream = Stream_<ReadBlobResponse>;

    async fn attach(&self, request: Request<Streaming<AttachRequest>>) -> Result<Response<Self::AttachStream>, Status> {
        let mut reports = request.into_inner();
        let first = reports.message().await?.ok_or_else(|| FIELD_MISSING.error("the stream ended before a report"))?;
        let report = report(&first)?;
        let (version, device) = (label(&first.version, "version")?, label(&first.device, "device")?);
        let (worker, name) = (report.worker, report.name.clone());
        let shown = watch::Sender::new(shown(&first));
        let assignments = Assignments {
            shown: shown.subscribe(),
            sent: HashSet::new(),
            interval: Duration::from_millis(self.limits.report_ms),
            draining: self.draining.clone(),
            told_draining: false,
        };
        let (wishes, stream) = self.dispatcher.attach(report).await?;
        // Logged as text, not with `Display`: a name of several words then cannot imitate other
        // fields of the line.
        let name = &*name;
        tracing::info!(worker = %format_args!("{:032x}", worker.0), name, version, device, "a worker attached");
        let dispatcher = self.dispatcher.clone();
        tokio::spawn(async move {
            // Ends with the stream, for whatever cause.
            while let Ok(Some(message)) = reports.message().await {
                let Ok(report) = self::report(&message) else { break };
                if report.worker != worker {
                    break;
                }
                shown.send_replace(self::shown(&message));
                if dispatcher.report(stream, report).await.is_err() {
                    return;
                }
            }
            let _ = dispatcher.detach(worker, stream).await;
        });
        Ok(Response::new(Box::pin(assignments.stream(wishes))))
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
                match self.outputs(&leased, &outputs.digests, &mut parts).await {
                    // The quota would refuse every retry as well, and the job would delay other
                    // jobs meanwhile.
                    Err(status) if is_for(&status, QUOTA_EXCEEDED) => Err(no_room(&status)),
                    outputs => Ok(outputs?),
                }
            }
            Some(commit_header::Outcome::Failure(failure)) => Err(self.failure(&leased, failure).await?),
            None => return Err(FIELD_MISSING.error("the header has no outcome").into()),
        };
        let outcome = Outcome {
            worker: worker_id(&header.worker_id)?,
            job: leased.meta.id,
            epoch: leased.epoch,
            result,
            latency: cut(header.latency.unwrap_or_default()),
            returned,
            stored: Instant::now(),
        };
        let accepted = self.dispatcher.commit(&leased.meta.tenant, outcome).await?;
        if !accepted {
            self.let_go(&leased).await?;
        }
        Ok(Response::new(CommitResultResponse { accepted }))
    }
}

impl Workers {
    async fn leased(&self, worker: &[u8], lease: Option<&v1::Lease>) -> Result<Arc<Leased>, ApiError> {
        let worker = worker_id(worker)?;
        let (job, epoch) = lease_id(lease)?;
        let leased = self.dispatcher.leased(worker, job, epoch).await?;
        leased.ok_or_else(|| STALE_LEASE.error("the job is no longer leased to this worker"))
    }

    /// Receives the outputs. Small outputs stay with the job, and all others become blobs.
    async fn outputs(
        &self,
        leased: &Leased,
        digests: &[v1::Digest],
        parts: &mut Streaming<CommitResultRequest>,
    ) -> Result<Vec<Content>, Status> {
        let program = self.compiler.of_job(&leased.meta.tenant, &leased.work.program).await?;
        let expected: Vec<Expected> = match &program.family {
            Family::Blocks(blocks) => {
                blocks.outputs.iter().map(|ty| Expected::Blocks { of_row: ty.blocks() as u64 }).collect()
            }
            Family::Vectors(outline) => outline.outputs.iter().map(|vector| Expected::Vector(*vector)).collect(),
        };
        if digests.len() != expected.len() {
            let message = format!("{} outputs: the program has {}", digests.len(), expected.len());
            return Err(INVALID_ARGUMENT.error(message).into());
        }
        let mut data = Incoming { parts, rest: Bytes::new(), idle: Duration::from_millis(self.limits.request_idle_ms) };
        // An output that exceeds the tenant's room in the database becomes a blob, and counts as
        // one.
        let mut inline_left = self.limits.inline_bytes;
        let mut contents = Vec::with_capacity(digests.len());
        for (wanted, expected) in digests.iter().zip(&expected) {
            let digest = digest::parse(Some(wanted), "digests")?;
            let small = digest.size_bytes <= inline_left
                && self.quota.take_if_any(&leased.meta.tenant, digest.size_bytes).await?;
            let bytes = if small {
                inline_left -= digest.size_bytes;
                Some(self.small_output(leased, &digest, expected, &mut data).await?)
            } else {
                self.large_output(leased, &digest, expected, &mut data).await?;
                None
            };
            contents.push(Content { digest: digest.blake3, size_bytes: digest.size_bytes, bytes });
        }
        match data.next().await? {
            Some(_) => Err(INVALID_ARGUMENT.error("bytes follow the last output").into()),
            None => Ok(contents),
        }
    }

    async fn small_output(
        &self,
        leased: &Leased,
        digest: &Digest,
        expected: &Expected,
        data: &mut Incoming<'_>,
    ) -> Result<Bytes, Status> {
        let mut bytes = Vec::with_capacity(digest.size_bytes as usize);
        while (bytes.len() as u64) < digest.size_bytes {
            bytes.extend_from_slice(&data.take(digest.size_bytes - bytes.len() as u64).await?);
        }
        let bytes = Bytes::from(bytes);
        let info = self.keystore.check(&bytes).map_err(ApiError::from)?;
        if info.digest != *digest {
            return Err(DIGEST_MISMATCH.error("an output does not match its digest").into());
        }
        expected.conform(leased, &info)?;
        Ok(bytes)
    }

    async fn large_output(
        &self,
        leased: &Leased,
        digest: &Digest,
        expected: &Expected,
        data: &mut Incoming<'_>,
    ) -> Result<(), Status> {
        let tenant = TenantId::new(&leased.meta.tenant).map_err(ApiError::from)?;
        let upload = self.keystore.begin_result(&tenant, digest).await.map_err(ApiError::from)?;
        let mut left = digest.size_bytes;
        if upload.complete {
            while left > 0 {
                left -= data.take(left).await?.len() as u64;
            }
            return Ok(self.keep(&tenant, leased, digest, expected).await?);
        }
        let receiving = self.transfers.receive();
        // An earlier attempt may have stored the first bytes. The worker sends them again, so they
        // are skipped.
        let mut skip = upload.committed_bytes;
        let mut writer =
            self.keystore.append_result(&tenant, &upload.id, upload.committed_bytes).await.map_err(ApiError::from)?;
        while left > 0 {
            let mut bytes = data.take(left).await?;
            left -= bytes.len() as u64;
            let known = bytes.split_to(usize::try_from(skip).unwrap_or(usize::MAX).min(bytes.len()));
            skip -= known.len() as u64;
            if !bytes.is_empty() {
                receiving.bytes(bytes.len());
                writer.write(bytes).await.map_err(ApiError::from)?;
            }
        }
        receiving.finished(writer.finish().await).map_err(ApiError::from)?;
        Ok(self.keep(&tenant, leased, digest, expected).await?)
    }

    /// Checks an output that has become a blob, and pins it for the job's `keep_outputs`. The pin
    /// must precede the durable end: a succeeded job with evicted outputs would be useless.
    async fn keep(
        &self,
        tenant: &TenantId,
        leased: &Leased,
        digest: &Digest,
        expected: &Expected,
    ) -> Result<(), ApiError> {
        expected.conform(leased, &self.keystore.blob(tenant, digest).await?)?;
        let until = clock::unix_micros().saturating_add(leased.meta.keep_outputs_micros);
        let pin =
            keystore::Pin { holder: id::output_holder(leased.meta.id), until: Some(clock::from_unix_micros(until)) };
        Ok(self.keystore.pin(tenant, &[*digest], &pin).await?)
    }

    /// Releases the outputs of a refused commit. The outputs stay if the job is still live, or has
    /// succeeded, because its outputs may be the same blobs.
    async fn let_go(&self, leased: &Leased) -> Result<(), ApiError> {
        let JobMeta { tenant, id: job, .. } = &*leased.meta;
        let view = self.store.job(tenant, *job, false).await.map_err(database::failed)?;
        let unwanted = view.is_none_or(|view| view.end.is_some() && view.state != v1::JobState::Succeeded);
        if unwanted {
            self.keystore.unpin(&id::output_holder(*job)).await?;
        }
        Ok(())
    }

    /// The failure that a worker reports. A key with damaged bytes is quarantined, but only after
    /// the server has read them. If the bytes are good, the worker is at fault, and the job gets
    /// another attempt.
    async fn failure(&self, leased: &Leased, failure: v1::CommitFailure) -> Result<Failure, ApiError> {
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
        let known = crate::error::Reason::named(&failure.reason).unwrap_or(crate::error::INTERNAL);
        let retry = match failure.retryable {
            false => Retry::Never,
            // Another worker may have more memory.
            true if known.code == WORKER_OUT_OF_MEMORY.code => Retry::Elsewhere,
            true => Retry::Anywhere,
        };
        Ok(Failure { error: v1::JobError { reason: known.code.to_owned(), message }, retry })
    }
}

/// A failure that lets the job have another attempt.
fn another(reason: Reason, message: &str) -> Failure {
    let error = v1::JobError { reason: reason.code.to_owned(), message: message.to_owned() };
    Failure { error, retry: Retry::Anywhere }
}

/// Truncates a worker's latency record to the lengths that are kept, and its names to one line
/// each. Deceptive characters are escaped, not refused: a bad text must not cost the job its
/// result.
fn cut(mut record: v1::LatencyRecord) -> v1::LatencyRecord {
    record.waves.truncate(RECORDED_WAVES_MAX);
    record.cuts.truncate(RECORDED_WAVES_MAX);
    record.operations.truncate(RECORDED_WAVES_MAX);
    let operations = record.operations.iter_mut().map(|operation| &mut operation.name);
    for name in operations.chain([&mut record.worker, &mut record.device]) {
        *name = printable_at_most(name, NAME_MAX);
    }
    record
}

/// Maximum number of waves, and of kinds of operations, in a latency record.
const RECORDED_WAVES_MAX: usize = 64;

/// A required output of a job.
enum Expected {
    /// A list of `of_row` ciphertexts for each row.
    Blocks { of_row: u64 },
    /// A vector.
    Vector(Vector),
}

impl Expected {
    /// Checks an output against this requirement.
    fn conform(&self, leased: &Leased, info: &BlobInfo) -> Result<(), ApiError> {
        let meta = &leased.meta;
        let is_it = match self {
            Self::Blocks { of_row } => {
                info.kind == ObjectKind::LweList && info.count == meta.rows.saturating_mul(*of_row)
            }
            Self::Vector(vector) => {
                let shape = info.set.ckks().and_then(|set| CiphertextShape::of(set, &info.dimensions).ok());
                info.kind == ObjectKind::CkksCiphertext && shape.is_some_and(|shape| vector.difference(shape).is_none())
            }
        };
        match is_it && info.set.id() == meta.set.id() && info.key_id == meta.key_id {
            true => Ok(()),
            false => {
                Err(INVALID_ARGUMENT
                    .error("an output is not of the job's set and key, or not what its program returns"))
            }
        }
    }
}

/// Maximum number of bytes kept of a worker's message.
const MESSAGE_MAX: usize = 1024;

/// The outputs of a result, as a stream of bytes across messages.
struct Incoming<'s> {
    parts: &'s mut Streaming<CommitResultRequest>,
    rest: Bytes,
    /// Maximum wait for the next message.
    idle: Duration,
}

impl Incoming<'_> {
    /// The next bytes, at most `most`.
    async fn take(&mut self, most: u64) -> Result<Bytes, Status> {
        if self.rest.is_empty() {
            self.rest = self.next().await?.ok_or_else(|| INVALID_ARGUMENT.error("the outputs end early"))?;
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(self.rest.len());
        Ok(self.rest.split_to(most))
    }

    /// The next message that is not empty.
    async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        if !self.rest.is_empty() {
            return Ok(Some(std::mem::take(&mut self.rest)));
        }
        loop {
            let late = |_| DEADLINE_EXCEEDED.error("the next message of the result did not arrive in time");
            let Some(message) = timeout(self.idle, self.parts.message()).await.map_err(late)?? else { return Ok(None) };
            match message.part {
                Some(Part::Data(data)) if data.is_empty() => {}
                Some(Part::Data(data)) => return Ok(Some(data)),
                _ => return Err(INVALID_ARGUMENT.error("expected data after the header").into()),
            }
        }
    }
}

/// Bytes of content after which a message takes no further job. The last job may exceed the bound
/// by the size of one request.
const CONTENT_BYTES: usize = 1 << 20;

/// Turns wishes into messages. Each stream sends the content of a job once.
struct Assignments {
    /// Leases that the worker has listed on this stream.
    shown: watch::Receiver<HashSet<(JobId, u64)>>,
    sent: HashSet<(JobId, u64)>,
    interval: Duration,
    draining: CancellationToken,
    told_draining: bool,
}

impl Assignments {
    fn stream(self, mut wishes: watch::Receiver<Wish>) -> impl Stream<Item = Result<AttachResponse, Status>> + Send {
        wishes.mark_changed();
        let next = |(mut this, mut wishes): (Self, watch::Receiver<Wish>)| async move {
            loop {
                tokio::select! {
                    changed = wishes.changed() => changed.ok()?,
                    // Repeats the wish, in order to report that the server is draining.
                    () = this.draining.cancelled(), if !this.told_draining => this.told_draining = true,
                }
                // Nothing is sent before the first decision: an empty wish would withdraw all jobs
                // of the worker.
                let wish = wishes.borrow_and_update().clone();
                if let Some(wish) = wish {
                    return Some((this.messages(&wish), (this, wishes)));
                }
            }
        };
        let messages = futures_util::stream::unfold((self, wishes), next);
        futures_util::StreamExt::flat_map(messages, |messages| tokio_stream::iter(messages).map(Ok))
    }

    /// The messages for a wish: one message, or several if the contents of its new jobs are too
    /// large for one. Each message holds the complete wish, with the contents of different jobs.
    fn messages(&mut self, wish: &Leases) -> Vec<AttachResponse> {
        self.sent.retain(|lease| wish.contains_key(lease));
        let mut messages = Vec::new();
        loop {
            let mut room = CONTENT_BYTES;
            let mut more = false;
            let now = Instant::now();
            let assignments = wish.iter().map(|(lease, leased)| {
                let fits = room > 0;
                let new = !self.sent.contains(lease) && !self.shown.borrow().contains(lease);
                more |= new && !fits;
                let content = (new && fits).then(|| {
                    self.sent.insert(*lease);
                    room = room.saturating_sub(leased.work.bytes());
                    leased.content()
                });
                let time_left = leased.deadline.saturating_duration_since(now).try_into().ok();
                v1::Assignment { lease: Some(leased.lease()), content, time_left }
            });
            messages.push(AttachResponse {
                assignments: assignments.collect(),
                report_interval: self.interval.try_into().ok(),
                draining: self.draining.is_cancelled(),
            });
            if !more {
                return messages;
            }
        }
    }
}

fn is_for(status: &Status, reason: Reason) -> bool {
    status.get_details_error_info().is_some_and(|info| info.reason == reason.code)
}

/// The failure of a job whose tenant has no room for the outputs.
fn no_room(status: &Status) -> Failure {
    let message = format!("there is no room for the outputs: {}", status.message());
    Failure { error: v1::JobError { reason: QUOTA_EXCEEDED.code.to_owned(), message }, retry: Retry::Never }
}

fn shown(message: &AttachRequest) -> HashSet<(JobId, u64)> {
    message.leases.iter().filter_map(|lease| lease_id(lease.lease.as_ref()).ok()).collect()
}

/// The worker's name for itself or its parts. The text goes into logs and to clients, so a text
/// with deceptive characters is refused.
fn label(text: &str, field: &'static str) -> Result<String, ApiError> {
    let label: String = text.chars().take(NAME_MAX).collect();
    if label.contains(is_deceptive) {
        let message = format!("the worker's {field} has control or invisible characters: '{}'", printable(&label));
        return Err(INVALID_ARGUMENT.error(message).field(field, "no control or invisible characters"));
    }
    Ok(label)
}

fn report(message: &AttachRequest) -> Result<WorkerReport, ApiError> {
    let leases = message.leases.iter().take(LEASES_MAX).map(|lease| {
        let (job, epoch) = lease_id(lease.lease.as_ref())?;
        let stage = match lease.stage() {
            v1::LeaseStage::Waiting => Stage::Waiting,
            v1::LeaseStage::Computing => Stage::Computing,
            v1::LeaseStage::Committing => Stage::Committing,
            v1::LeaseStage::LoadingKey => Stage::LoadingKey,
            v1::LeaseStage::Fetching | v1::LeaseStage::Unspecified => Stage::Fetching,
        };
        Ok(LeaseReport { job, epoch, stage, progress: lease.progress, rows_done: lease.rows_done })
    });
    let set = |name: &String| AnySet::by_name(name).map(AnySet::id);
    let resident = message
        .resident_keys
        .iter()
        .filter_map(|key| Some((KeyId(key.key_id.as_ref().try_into().ok()?), set(&key.parameter_set)?)));
    Ok(WorkerReport {
        worker: worker_id(&message.worker_id)?,
        name: label(&message.name, "name")?.into(),
        report: Report {
            pool: label(&message.pool, "pool")?,
            sets: message.parameter_sets.iter().filter_map(set).collect::<BTreeSet<_>>().into_iter().collect(),
            wanted_cost: message.wanted_cost,
            leases: leases.collect::<Result<_, ApiError>>()?,
            resident: resident.take(RESIDENT_MAX).collect(),
            draining: message.draining,
        },
        resident: message.resident_keys.iter().take(RESIDENT_MAX).map(|key| group(&key.group)).collect(),
        resident_bytes: message.resident_keys.iter().map(|key| key.bytes).fold(0, u64::saturating_add),
        waves: message
            .waves
            .iter()
            .filter(|wave| table::by_name(&wave.parameter_set).is_some())
            .take(WAVES_MAX)
            .cloned()
            .collect(),
    })
}

/// A group's ID, cut to the standard length. A copy, because the bytes are a slice of the
/// whole report.
fn group(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(&bytes[..bytes.len().min(GROUP_BYTES)])
}

/// Maximum numbers of leases, resident keys and time-curve points in a worker's report. Further
/// entries are ignored.
const LEASES_MAX: usize = 8192;
const RESIDENT_MAX: usize = 256;
const WAVES_MAX: usize = 1024;

/// Maximum number of characters kept of a worker's names.
const NAME_MAX: usize = 64;

fn worker_id(bytes: &[u8]) -> Result<WorkerId, ApiError> {
    let bytes: [u8; 16] = bytes.try_into().map_err(|_| {
        INVALID_ARGUMENT
            .error(format!("a worker id of {} bytes: expected 16", bytes.len()))
            .field("worker_id", "16 bytes")
    })?;
    Ok(WorkerId(u128::from_be_bytes(bytes)))
}

fn lease_id(lease: Option<&v1::Lease>) -> Result<(JobId, u64), ApiError> {
    let lease = lease.ok_or_else(|| FIELD_MISSING.error("a lease is missing").field("lease", "missing"))?;
    let job = id::from_bytes(&lease.job_id)
        .ok_or_else(|| INVALID_ARGUMENT.error("a job id is not 16 bytes long").field("lease.job_id", "16 bytes"))?;
    Ok((job, lease.epoch))
}
