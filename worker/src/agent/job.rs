//! One job from its assignment to its commit: the steps that all kinds of jobs share.

mod blocks;
mod fetch;
mod subject;
mod vectors;

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use cloakwork_params::{AnySet, KeyId};
use cloakwork_proto::{
    printable_at_most,
    v1::{self, LeaseStage, assigned_input::Source, commit_header::Outcome},
};
use tokio::sync::OwnedSemaphorePermit;

use self::{
    blocks::BlockJob,
    fetch::FetchState,
    subject::{Unfinished, digest_of_parts},
    vectors::VectorJob,
};
use super::{Agent, Held};
use crate::{
    blob::BlobReader,
    failure::{JobFailure, caught},
    job_trace::JobTrace,
    latency::{Stage, Stopwatch},
};

/// A checked job, and the steps in which kinds of jobs differ.
trait Job: Sized {
    /// A family of parameter sets.
    type Set: 'static;
    /// Leases on all keys of the job.
    type Keys;
    /// A decoded input.
    type Input;
    /// All results.
    type Outputs;

    /// Checks a job and waits for the memory of its inputs and outputs. The stage Waiting tells the
    /// server that a job which waits for others has not stalled.
    async fn accept(
        agent: &Agent,
        held: &Held,
        set: &'static Self::Set,
        content: v1::JobContent,
    ) -> Result<(Self, OwnedSemaphorePermit), JobFailure>;

    /// The parameter set, as one of either family.
    fn any(set: &'static Self::Set) -> AnySet;

    /// Sources of the inputs, in the program's order.
    fn sources(&self) -> &[v1::AssignedInput];

    /// The program's name of an input.
    fn input_name(&self, index: usize) -> &str;

    /// Leases the keys. Also returns whether all of them were resident already.
    async fn lease_keys(&self, agent: &Agent, fetch_state: &FetchState<'_>) -> Result<(Self::Keys, bool), JobFailure>;

    /// Decodes an input and checks it against the program's declaration. The inner error says what
    /// is wrong with the bytes.
    async fn read(&self, index: usize, bytes: Bytes) -> Result<Result<Self::Input, String>, JobFailure>;

    /// Computes the job on its engine, which owns the keys until nothing of the job remains in it.
    /// A job whose future is dropped is cancelled. Returns the memory, which the outputs still
    /// need.
    async fn run(
        &self,
        agent: &Agent,
        held: &Held,
        fetched: Fetched<Self>,
        stopwatch: &mut Stopwatch,
    ) -> Result<(Self::Outputs, OwnedSemaphorePermit), JobFailure>;

    /// The form in which the job computes its program.
    fn lowering(&self) -> v1::Lowering {
        v1::Lowering::Unspecified
    }

    /// Encodes the results.
    async fn encode(&self, outputs: Self::Outputs) -> Result<Vec<DigestedOutput>, JobFailure>;
}

/// Everything that a job needs to be computed.
struct Fetched<J: Job> {
    keys: J::Keys,
    inputs: Vec<J::Input>,
    memory: OwnedSemaphorePermit,
    deadline: Option<Instant>,
}

/// An encoded output with its digest.
struct DigestedOutput {
    bytes: Bytes,
    blake3: blake3::Hash,
}

/// A computed job.
struct Computed {
    outputs: Vec<DigestedOutput>,
    /// The form in which the outputs were computed.
    lowering: v1::Lowering,
    /// The reservation of their memory.
    memory: OwnedSemaphorePermit,
    /// The worker's signed statement about the outputs.
    attestation: Bytes,
}

/// Inputs and outputs up to this number of bytes are decoded and encoded inline rather than on a
/// blocking thread.
const INLINE_WORK_BYTES: usize = 1 << 16;
/// Bytes of a failure message. The server keeps equally many.
pub(super) const MESSAGE_MAX: usize = 1024;

impl Agent {
    pub(super) async fn do_job(&self, held: &Held, content: v1::JobContent, deadline: Option<Instant>) {
        let mut stopwatch = Stopwatch::start(Instant::now());
        held.status.enter(LeaseStage::Fetching);
        let computed = async {
            match AnySet::by_name(&content.parameter_set) {
                Some(AnySet::Tfhe(set)) => self.compute::<BlockJob>(held, set, content, deadline, &mut stopwatch).await,
                Some(AnySet::Ckks(set)) => {
                    self.compute::<VectorJob>(held, set, content, deadline, &mut stopwatch).await
                }
                None => Err((invalid(format!("no parameter set is called {}", content.parameter_set)), Stage::Fetch)),
            }
        };
        // Jobs decode and encode small pieces inline, where only this catches their panics.
        let result = caught(computed).await.unwrap_or_else(|failure| Err((failure, Stage::Fetch)));
        held.status.enter(LeaseStage::Committing);
        self.changed.notify_one();
        // The job keeps its memory reservation until its outputs are committed.
        let (outcome, outputs, lowering, _memory, stage) = match result {
            Ok(Computed { outputs, lowering, memory, attestation }) => {
                let digests = outputs.iter().map(DigestedOutput::to_proto_digest).collect();
                let outputs = outputs.into_iter().map(|output| output.bytes).collect();
                let outcome = Outcome::Outputs(v1::CommitOutputs { digests, attestation });
                (outcome, outputs, lowering, Some(memory), Stage::Store)
            }
            // The failure is this worker's and not the job's. The worker is about to end, and the
            // server then gives the job to another worker. A committed failure would cost the job
            // one of its attempts.
            Err(_) if self.broken().is_some() => std::future::pending().await,
            Err((failure, stage)) => {
                // Clients choose parts of the message, such as the names of inputs.
                let message = printable_at_most(&failure.message, MESSAGE_MAX);
                tracing::warn!(reason = failure.reason, cause = message, "a job failed");
                let failure = v1::CommitFailure {
                    reason: failure.reason.to_owned(),
                    message,
                    retryable: failure.retryable,
                    bad_key_part: failure.bad_key_part,
                };
                (Outcome::Failure(failure), Vec::new(), v1::Lowering::Unspecified, None, stage)
            }
        };
        let error = match &outcome {
            Outcome::Failure(failure) => Some(failure.reason.clone()),
            Outcome::Outputs(_) => None,
        };
        let mut latency = stopwatch.finish(stage, Instant::now());
        latency.worker = self.options.name.clone();
        latency.device = self.device.describe().name;
        let header = v1::CommitHeader {
            worker_id: self.worker_id.clone(),
            lease: Some(held.lease.clone()),
            latency: Some(latency.clone()),
            outcome: Some(outcome),
            lowering: lowering.into(),
        };
        let (began, step) = (Instant::now(), held.trace.as_ref().and_then(JobTrace::step));
        self.commit(held, header, outputs).await;
        if let Some(trace) = &held.trace {
            trace.record("hand in", step, began, Vec::new());
            trace.end(&latency, error);
        }
    }

    /// Computes a job up to its encoded outputs. A failure comes with the stage that failed.
    async fn compute<J: Job>(
        &self,
        held: &Held,
        set: &'static J::Set,
        content: v1::JobContent,
        deadline: Option<Instant>,
        stopwatch: &mut Stopwatch,
    ) -> Result<Computed, (JobFailure, Stage)> {
        let at = |stage| move |failure| (failure, stage);
        self.attestor.check().map_err(at(Stage::Fetch))?;
        let subject = Unfinished::of(held, J::any(set), &content).map_err(at(Stage::Fetch))?;
        let (job, memory) = J::accept(self, held, set, content).await.map_err(at(Stage::Fetch))?;
        held.status.enter(LeaseStage::Fetching);
        stopwatch.advance(Stage::Fetch, Instant::now());

        let (began, step) = (Instant::now(), held.trace.as_ref().and_then(JobTrace::step));
        // Keys and inputs are fetched concurrently. Time until the keys are loaded counts as key
        // load, and any remaining time as fetch.
        let fetch_state = FetchState::new(&held.status);
        let keys = async {
            let leased = job.lease_keys(self, &fetch_state).await;
            fetch_state.keys_are_here();
            leased.map(|(keys, were_resident)| (keys, (!were_resident).then(Instant::now)))
        };
        let inputs = async {
            let inputs = self.fetch(held, &job).await;
            fetch_state.inputs_are_here();
            inputs
        };
        let ((keys, loaded), (inputs, input_digests)) = tokio::try_join!(keys, inputs).map_err(at(Stage::Fetch))?;
        if let Some(loaded) = loaded {
            stopwatch.advance(Stage::KeyLoad, loaded);
        }
        stopwatch.advance(Stage::Fetch, Instant::now());
        held.status.enter(LeaseStage::Waiting);
        if let Some(trace) = &held.trace {
            trace.record("fetch", step, began, Vec::new());
        }

        let fetched = Fetched { keys, inputs, memory, deadline };
        let (outputs, memory) = job.run(self, held, fetched, stopwatch).await.map_err(at(Stage::WaveWait))?;
        let outputs = job.encode(outputs).await.map_err(at(Stage::Store))?;
        let subject = subject.complete(&input_digests, &outputs);
        let attestation = self.attestor.attest(subject).map_err(at(Stage::Store))?;
        Ok(Computed { outputs, lowering: job.lowering(), memory, attestation })
    }

    /// Reads all inputs of a job, one after the other. Also returns their digests.
    async fn fetch<J: Job>(&self, held: &Held, job: &J) -> Result<(Vec<J::Input>, Vec<[u8; 32]>), JobFailure> {
        let blobs = self.blobs(held);
        let mut inputs = Vec::with_capacity(job.sources().len());
        let mut digests = Vec::with_capacity(job.sources().len());
        for (index, source) in job.sources().iter().enumerate() {
            let invalid = |problem: String| {
                let name = job.input_name(index);
                JobFailure::lasting("INPUT_INVALID", format!("input {index} ('{name}'): {problem}"))
            };
            let bytes = match &source.source {
                Some(Source::Inline(bytes)) => bytes.clone(),
                Some(Source::Blob(digest)) => blobs.read(digest).await?,
                None => return Err(invalid("the input has no source".to_owned())),
            };
            held.status.advance();
            digests.push(digest_of(source, &bytes).await?);
            inputs.push(job.read(index, bytes).await?.map_err(invalid)?);
        }
        Ok((inputs, digests))
    }

    /// Waits for memory for the inputs and outputs of a job.
    async fn reserve(&self, bytes: u64) -> Result<OwnedSemaphorePermit, JobFailure> {
        self.job_memory.reserve(bytes).await.map_err(|error| JobFailure::passing("WORKER_OUT_OF_MEMORY", error))
    }

    fn blobs(&self, held: &Held) -> BlobReader {
        BlobReader {
            client: self.client.clone(),
            worker_id: self.worker_id.clone(),
            lease: held.lease.clone(),
            store: self.store.clone(),
            trace: held.trace.as_ref().map(JobTrace::context),
        }
    }
}

fn key_id(content: &v1::JobContent) -> Result<KeyId, JobFailure> {
    let key_id = content.key_id.as_ref().try_into().map(KeyId);
    key_id.map_err(|_| invalid(format!("a key id of {} bytes: it has 16", content.key_id.len())))
}

/// The rows that a check computes, in increasing order. `None` for all rows.
fn picked_rows(content: &v1::JobContent) -> Result<Option<Arc<[usize]>>, JobFailure> {
    let picked = &content.check_rows;
    let rise = picked.windows(2).all(|pair| pair[0] < pair[1]);
    if !rise || picked.last().is_some_and(|last| *last >= content.rows) {
        return Err(invalid(format!("the rows to check are not among the {} rows, in order", content.rows)));
    }
    let rows: Result<Arc<[usize]>, _> = picked.iter().map(|row| usize::try_from(*row)).collect();
    let rows = rows.map_err(|_| invalid("a row to check is out of range".to_owned()))?;
    Ok((!rows.is_empty()).then_some(rows))
}

fn invalid(message: String) -> JobFailure {
    JobFailure::lasting("PROGRAM_INVALID", message)
}

/// Bytes of all inputs in their encoded form.
fn bytes_of(inputs: &[v1::AssignedInput]) -> u64 {
    let size = |input: &v1::AssignedInput| match &input.source {
        Some(Source::Inline(bytes)) => bytes.len() as u64,
        Some(Source::Blob(digest)) => digest.size_bytes,
        None => 0,
    };
    inputs.iter().map(size).fold(0, u64::saturating_add)
}

/// The digest of an input. The bytes of a blob have been compared with theirs already.
async fn digest_of(source: &v1::AssignedInput, bytes: &Bytes) -> Result<[u8; 32], JobFailure> {
    if let Some(Source::Blob(digest)) = &source.source
        && let Ok(blake3) = digest.blake3.as_ref().try_into()
    {
        return Ok(blake3);
    }
    let (size, bytes) = (bytes.len(), bytes.clone());
    on_thread(size, move || *blake3::hash(&bytes).as_bytes()).await
}

fn digested(bytes: Vec<u8>) -> DigestedOutput {
    let blake3 = blake3::hash(&bytes);
    DigestedOutput { bytes: bytes.into(), blake3 }
}

impl DigestedOutput {
    fn to_proto_digest(&self) -> v1::Digest {
        v1::Digest { blake3: Bytes::copy_from_slice(self.blake3.as_bytes()), size_bytes: self.bytes.len() as u64 }
    }
}

/// Runs short work inline, and work on more bytes than the limit on a blocking thread.
async fn on_thread<R: Send + 'static>(size: usize, work: impl FnOnce() -> R + Send + 'static) -> Result<R, JobFailure> {
    if size <= INLINE_WORK_BYTES {
        return Ok(work());
    }
    let result = tokio::task::spawn_blocking(work).await;
    result.map_err(|error| JobFailure::passing("DEVICE_FAILED", error))
}
