//! Outputs of jobs: received from a worker, checked, and stored with the job or as blobs.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use cloakwork_circuit::ckks::Vector;
use cloakwork_clock::Clock;
use cloakwork_keystore::{self as keystore, BlobInfo, Digest, Keystore, TenantId, UploadWriter};
use cloakwork_params::{
    Layout, ObjectKind,
    ckks::layout::{self, CiphertextShape},
    envelope::{DIMENSIONS, HEADER_BYTES, TRAILER_BYTES},
    layout::INFO_BYTES,
};
use cloakwork_proto::v1::{self, CommitResultRequest};
use cloakwork_scheduler::WorkerId;
use cloakwork_share::{FairShare, Share};
use tonic::{Status, Streaming};

use super::{
    incoming::Incoming,
    lease::RETRY_DELAY,
    sample::{self, RowHasher, Section},
};
use crate::{
    database,
    dispatch::{Announced, Leased, Sample},
    error::{ApiError, DIGEST_MISMATCH, INTERNAL, INVALID_ARGUMENT, OVERLOADED},
    jobs::{Content, JobMeta, id},
    limits::Limits,
    programs::{Compiled, Compiler, Family},
    quota::Quota,
    services::{Transfers, intake::Arrived, transfer::hand_on},
    store::Store,
};

/// Receives and stores the outputs of jobs.
#[derive(Clone)]
pub struct Outputs {
    /// Blobs.
    pub keystore: Keystore,
    /// The store, for jobs that have ended.
    pub store: Store,
    /// Room of each tenant for outputs in the store.
    pub quota: Quota,
    /// The compiler, which remembers compiled programs.
    pub compiler: Compiler,
    /// Source of the current time.
    pub clock: Clock,
    /// Limits.
    pub limits: Arc<Limits>,
    /// Counters of received bytes.
    pub transfers: Transfers,
    /// Bytes of outputs in memory.
    pub memory: OutputMemory,
    /// Percentage of rows that are computed a second time.
    pub verify_percent: u64,
}

/// The memory for small outputs, from their arrival until they are stored. Workers have equal
/// shares, and wait for room. Clones share the memory.
#[derive(Clone, Debug)]
pub struct OutputMemory(pub(super) Arc<FairShare<WorkerId>>);

/// The outputs of a job, and the memory that their bytes take.
pub(super) struct Received {
    pub(super) contents: Vec<Content>,
    pub(super) memory: Share<WorkerId>,
    /// The rows that are computed a second time, if any.
    pub(super) sample: Option<Sample>,
}

/// Maximum number of results whose small outputs are in memory, of all workers and of each worker,
/// if each result has as many bytes as `inline_bytes` allows. Smaller results count less.
const INLINE_RESULTS_MAX: u64 = 64;
const WORKER_INLINE_RESULTS_MAX: u64 = 16;

impl OutputMemory {
    /// Memory for results that have up to `inline_bytes` bytes of small outputs each.
    pub fn new(inline_bytes: u64) -> Self {
        let bytes = |results: u64| inline_bytes.saturating_mul(results);
        Self(FairShare::new(bytes(INLINE_RESULTS_MAX), bytes(WORKER_INLINE_RESULTS_MAX)))
    }
}

impl Outputs {
    /// Receives the outputs. Small outputs stay with the job, and all others become blobs. Takes no
    /// room of the tenant for outputs that the program does not have.
    pub(super) async fn receive(
        &self,
        worker: WorkerId,
        leased: &Leased,
        digests: &[Digest],
        announced: &mut Announced,
        parts: &mut Streaming<CommitResultRequest>,
        arrived: Arrived,
    ) -> Result<Received, Status> {
        let expected = self.expected(leased, digests, announced).await?;
        // Drawn now, because the worker has announced its outputs, and cannot change them any more.
        let rows = sample::draw(leased.meta.rows, self.verify_percent, &announced.seed(sample::seed)?);
        let mut hashes = Vec::new();
        let memory = self.memory.0.take(&worker, inline_bytes(digests, self.limits.inline_bytes)).await;
        let size_bytes = digests.iter().map(|digest| digest.size_bytes).fold(0, u64::saturating_add);
        let idle = Duration::from_millis(self.limits.request_idle_ms);
        let mut data = Incoming::new(parts, arrived, idle, size_bytes);
        // An output that exceeds the tenant's room in the database becomes a blob, and counts as
        // one.
        let mut inline_left = self.limits.inline_bytes;
        let mut contents = Vec::with_capacity(digests.len());
        for (digest, expected) in digests.iter().zip(&expected) {
            let small = digest.size_bytes <= inline_left
                && self.quota.take_if_any(&leased.meta.tenant, digest.size_bytes).await?;
            let mut hasher = match rows.is_empty() || leased.class.is_empty() {
                true => None,
                false => Some(RowHasher::new(expected.sections(leased)?, &rows)),
            };
            let bytes = if small {
                inline_left -= digest.size_bytes;
                let bytes = self.small(leased, digest, expected, &mut data).await?;
                hasher.iter_mut().for_each(|hasher| hasher.feed(&bytes));
                Some(bytes)
            } else {
                self.large(worker, leased, digest, expected, &mut data, hasher.as_mut()).await?;
                None
            };
            if let Some(hasher) = hasher {
                hashes.push(hasher.finish(digest)?);
            }
            contents.push(Content { digest: digest.blake3, size_bytes: digest.size_bytes, bytes });
        }
        match data.next().await? {
            Some(_) => Err(INVALID_ARGUMENT.error("bytes follow the last output").into()),
            None => {
                let digests = (!leased.class.is_empty()).then_some(hashes);
                let sample = (!rows.is_empty()).then_some(Sample { rows, digests });
                Ok(Received { contents, memory, sample })
            }
        }
    }

    /// The outputs that the job has. Fails if the worker announces other numbers or sizes of
    /// outputs, or others than before under this lease.
    async fn expected(
        &self,
        leased: &Leased,
        digests: &[Digest],
        announced: &mut Announced,
    ) -> Result<Vec<Expected>, ApiError> {
        let program = self.compiler.of_job(&leased.meta.tenant, &leased.work.program).await?;
        let expected = expected(&program);
        if digests.len() != expected.len() {
            let message = format!("{} outputs: the program has {}", digests.len(), expected.len());
            return Err(INVALID_ARGUMENT.error(message));
        }
        for (digest, expected) in digests.iter().zip(&expected) {
            expected.check_size(leased, digest.size_bytes)?;
        }
        match announced.is_first(digests) {
            true => Ok(expected),
            false => Err(INVALID_ARGUMENT.error("the worker has announced other outputs under this lease")),
        }
    }

    /// Receives the outputs of a check. Returns a digest of the rows of each output, and keeps
    /// nothing else of them.
    pub(super) async fn receive_check(
        &self,
        leased: &Leased,
        digests: &[Digest],
        announced: &mut Announced,
        parts: &mut Streaming<CommitResultRequest>,
        arrived: Arrived,
    ) -> Result<Vec<[u8; 32]>, Status> {
        let expected = self.expected(leased, digests, announced).await?;
        let size_bytes = digests.iter().map(|digest| digest.size_bytes).fold(0, u64::saturating_add);
        let idle = Duration::from_millis(self.limits.request_idle_ms);
        let mut data = Incoming::new(parts, arrived, idle, size_bytes);
        let rows: Vec<u64> = (0..leased.output_rows()).collect();
        let mut hashes = Vec::with_capacity(digests.len());
        for (digest, expected) in digests.iter().zip(&expected) {
            let mut hasher = RowHasher::new(expected.sections(leased)?, &rows);
            let mut left = digest.size_bytes;
            while left > 0 {
                let bytes = data.take(left).await?;
                left -= bytes.len() as u64;
                hasher.feed(&bytes);
            }
            hashes.push(hasher.finish(digest)?);
        }
        match data.next().await? {
            Some(_) => Err(INVALID_ARGUMENT.error("bytes follow the last output").into()),
            None => Ok(hashes),
        }
    }

    async fn small(
        &self,
        leased: &Leased,
        digest: &Digest,
        expected: &Expected,
        data: &mut ResultData<'_>,
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

    async fn large(
        &self,
        worker: WorkerId,
        leased: &Leased,
        digest: &Digest,
        expected: &Expected,
        data: &mut ResultData<'_>,
        mut hasher: Option<&mut RowHasher<'_>>,
    ) -> Result<(), Status> {
        let tenant = TenantId::new(&leased.meta.tenant).map_err(ApiError::from)?;
        let mut left = digest.size_bytes;
        let Some((mut skip, mut writer)) = self.open(worker, &tenant, digest).await? else {
            while left > 0 {
                let bytes = data.take(left).await?;
                left -= bytes.len() as u64;
                hasher.iter_mut().for_each(|hasher| hasher.feed(&bytes));
            }
            return Ok(self.keep(&tenant, leased, digest, expected).await?);
        };
        let receiving = self.transfers.receive();
        // An earlier attempt may have stored the first bytes. The worker sends them again, so they
        // are skipped.
        while left > 0 {
            let mut bytes = data.take(left).await?;
            left -= bytes.len() as u64;
            hasher.iter_mut().for_each(|hasher| hasher.feed(&bytes));
            let known = bytes.split_to(usize::try_from(skip).unwrap_or(usize::MAX).min(bytes.len()));
            skip -= known.len() as u64;
            if !bytes.is_empty() {
                receiving.bytes(bytes.len());
                hand_on(&mut writer, &mut data.arrived, bytes).await.map_err(overtaken)?;
            }
        }
        receiving.finished(writer.finish().await).map_err(overtaken)?;
        Ok(self.keep(&tenant, leased, digest, expected).await?)
    }

    /// Opens the upload of an output, and returns the number of its bytes that are stored already.
    /// Returns `None` if the tenant has the whole blob. Another job's result with the same bytes
    /// may write to the upload between the two steps, or end it. A client may take the turn of a
    /// result that waits for its place.
    async fn open(
        &self,
        worker: WorkerId,
        tenant: &TenantId,
        digest: &Digest,
    ) -> Result<Option<(u64, UploadWriter)>, ApiError> {
        for _ in 0..OPEN_ATTEMPTS {
            let upload = self.keystore.begin_result(tenant, digest).await?;
            if upload.complete {
                return Ok(None);
            }
            let stored = upload.committed_bytes;
            match self.keystore.append_result(worker.0, tenant, &upload.id, stored).await {
                Ok(writer) => return Ok(Some((stored, writer))),
                Err(
                    keystore::Error::UploadNotFound { .. }
                    | keystore::Error::UploadOffsetMismatch { .. }
                    | keystore::Error::UploadTakenOver,
                ) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(busy())
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
        let until_micros = self.clock.unix_micros().saturating_add(leased.meta.keep_outputs_micros);
        let pin = keystore::Pin { holder: id::output_holder(leased.meta.id), until_micros: Some(until_micros) };
        Ok(self.keystore.pin(tenant, &[*digest], &pin).await?)
    }

    /// Releases the outputs of a refused commit. The outputs stay if the job is still live, or has
    /// succeeded, because its outputs may be the same blobs.
    pub(super) async fn release(&self, leased: &Leased) -> Result<(), ApiError> {
        if leased.check.is_some() {
            return Ok(());
        }
        let JobMeta { tenant, id: job, .. } = &*leased.meta;
        let view = self.store.job(tenant, *job, false).await.map_err(database::failed)?;
        let unwanted = view.is_none_or(|view| view.end.is_some() && view.state != v1::JobState::Succeeded);
        if unwanted {
            self.keystore.unpin(&id::output_holder(*job)).await?;
        }
        Ok(())
    }
}

/// The bytes of a result that a worker sends.
type ResultData<'s> = Incoming<'s, Streaming<CommitResultRequest>>;

/// Number of attempts to open the upload of an output that other results write to.
const OPEN_ATTEMPTS: usize = 3;

/// Maximum number of bytes of these outputs that stay with the job.
fn inline_bytes(digests: &[Digest], inline_bytes_max: u64) -> u64 {
    let sizes = digests.iter().map(|digest| digest.size_bytes).filter(|bytes| *bytes <= inline_bytes_max);
    sizes.fold(0, u64::saturating_add).min(inline_bytes_max)
}

/// Converts an error of an upload. A worker repeats its result if another result with the same
/// bytes has taken the upload over.
fn overtaken(error: keystore::Error) -> ApiError {
    match error {
        keystore::Error::UploadNotFound { .. } | keystore::Error::UploadTakenOver => busy(),
        error => error.into(),
    }
}

fn busy() -> ApiError {
    OVERLOADED.error("another result with the same bytes is being stored").retry_after(RETRY_DELAY)
}

/// The outputs that a program returns.
fn expected(program: &Compiled) -> Vec<Expected> {
    match &program.family {
        Family::Blocks(blocks) => {
            blocks.outputs.iter().map(|ty| Expected::Blocks { of_row: ty.blocks() as u64 }).collect()
        }
        Family::Vectors(outline) => outline.outputs.iter().map(|vector| Expected::Vector(*vector)).collect(),
    }
}

/// A required output of a job.
enum Expected {
    /// A list of `of_row` ciphertexts for each row.
    Blocks { of_row: u64 },
    /// A vector.
    Vector(Vector),
}

impl Expected {
    /// Checks the announced size of an output, which follows from the job.
    fn check_size(&self, leased: &Leased, got_bytes: u64) -> Result<(), ApiError> {
        let payload_bytes = self.payload_bytes(leased);
        let size_bytes = payload_bytes.map(|payload| payload.saturating_add((HEADER_BYTES + TRAILER_BYTES) as u64));
        match size_bytes {
            Some(size_bytes) if size_bytes == got_bytes => Ok(()),
            Some(size_bytes) => {
                Err(INVALID_ARGUMENT.error(format!("an output of {got_bytes} bytes: expected {size_bytes}")))
            }
            None => Err(INVALID_ARGUMENT.error("the job's set has no such output")),
        }
    }

    /// Bytes of the output's payload; `None` if the job's set has no such object.
    fn payload_bytes(&self, leased: &Leased) -> Option<u64> {
        let meta = &*leased.meta;
        match self {
            Self::Blocks { of_row } => {
                let mut dimensions = [0; DIMENSIONS];
                dimensions[0] = u32::try_from(leased.output_rows().checked_mul(*of_row)?).ok()?;
                Some(Layout::of(ObjectKind::LweList, meta.set.tfhe()?, &dimensions).ok()?.payload_len)
            }
            Self::Vector(vector) => {
                let set = meta.set.ckks()?;
                // The scale does not change the size.
                let shape = CiphertextShape { level: vector.level, slots_log2: vector.slots_log2, scale: 1.0 };
                let dimensions = shape.to_dimensions(set).ok()?;
                layout::payload_len(ObjectKind::CkksCiphertext, set, &dimensions).ok()
            }
        }
    }

    /// Where the rows are in the output. Fails for an output of unknown layout: nothing of such an
    /// output would be compared.
    fn sections(&self, leased: &Leased) -> Result<Vec<Section>, ApiError> {
        self.known_sections(leased).ok_or_else(|| INTERNAL.error("the rows of an output have no known place"))
    }

    /// The bookkeeping entries of the ciphertexts, then their words. A vector is one row.
    fn known_sections(&self, leased: &Leased) -> Option<Vec<Section>> {
        let (payload, header) = (self.payload_bytes(leased)?, HEADER_BYTES as u64);
        match self {
            Self::Blocks { of_row } => {
                let count = leased.output_rows().checked_mul(*of_row)?;
                let words = payload.checked_div(count)?.checked_sub(INFO_BYTES)?;
                let entries = Section { start: header, row_bytes: of_row * INFO_BYTES };
                let start = header + count * INFO_BYTES;
                Some(vec![entries, Section { start, row_bytes: of_row.checked_mul(words)? }])
            }
            Self::Vector(_) => Some(vec![Section { start: header, row_bytes: payload }]),
        }
    }

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
