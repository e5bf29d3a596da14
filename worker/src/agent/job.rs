//! One job from its assignment to its commit, and all steps between for a job on blocks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use bytes::Bytes;
use cloakwork_circuit::{Goal, Graph, Input, Output};
use cloakwork_params::{AnySet, KeyId, ParameterSet, table::companion_of};
use cloakwork_proto::{
    printable_at_most,
    v1::{self, LeaseStage, assigned_input::Source, commit_header::Outcome},
};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{Agent, Held, crowd::Place};
use crate::{
    blob::BlobReader,
    engine::{EngineJob, Finished, JobStatus, Plan},
    failure::JobFailure,
    group::GroupId,
    inputs::{self, Rows},
    key_cache::{KeyLease, KeyRequest},
    latency::{Stage, Stopwatch},
    outputs::OutputList,
    programs::Lowered,
};

/// Inputs and outputs up to this number of bytes are decoded and encoded inline rather than on a
/// blocking thread.
const INLINE_WORK_BYTES: usize = 1 << 16;
/// Bytes of a failure message. The server keeps equally many.
const MESSAGE_MAX: usize = 1024;

/// A checked job.
struct Task {
    key_id: KeyId,
    /// Held until the job ends.
    _place: Place,
    set: &'static ParameterSet,
    takes: Arc<[Input]>,
    plan: Arc<Plan>,
    rows: usize,
    request: KeyRequest,
    /// Request for the key of the set's companion, where the set has a companion.
    companion: Option<KeyRequest>,
    inputs: Vec<v1::AssignedInput>,
    priority: i32,
}

/// Keys that the job's waves are bootstrapped under.
struct Leases {
    key: KeyLease,
    companion: Option<KeyLease>,
    /// Whether all keys were resident already.
    were_resident: bool,
}

impl Task {
    /// Bytes of all outputs.
    fn output_bytes(&self) -> u64 {
        let blocks = self.plan.graph.outputs.iter().map(Vec::len).sum::<usize>();
        let ciphertexts = (self.rows as u64).saturating_mul(blocks as u64);
        ciphertexts.saturating_mul(self.set.ciphertext_bytes())
    }
}

impl Agent {
    pub(super) async fn do_job(&self, held: &Held, content: v1::JobContent, deadline: Option<Instant>) {
        let mut stopwatch = Stopwatch::start(Instant::now());
        held.status.enter(LeaseStage::Fetching);
        let result = self.compute(held, content, deadline, &mut stopwatch).await;
        held.status.enter(LeaseStage::Committing);
        self.changed.notify_one();
        // The job keeps its memory reservation until its outputs are committed.
        let (outcome, outputs, _memory, stage) = match result {
            Ok((outputs, memory)) => {
                let digests = outputs.iter().map(|(_, digest)| digest.clone()).collect();
                let outputs = outputs.into_iter().map(|(bytes, _)| bytes).collect();
                (Outcome::Outputs(v1::CommitOutputs { digests }), outputs, Some(memory), Stage::Store)
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
                (Outcome::Failure(failure), Vec::new(), None, stage)
            }
        };
        let mut latency = stopwatch.finish(stage, Instant::now());
        latency.worker = self.options.name.clone();
        latency.device = self.device.describe().name;
        let header = v1::CommitHeader {
            worker_id: self.worker_id.clone(),
            lease: Some(held.lease.clone()),
            latency: Some(latency),
            outcome: Some(outcome),
        };
        self.commit(held, header, outputs).await;
    }

    async fn compute(
        &self,
        held: &Held,
        content: v1::JobContent,
        deadline: Option<Instant>,
        stopwatch: &mut Stopwatch,
    ) -> Result<Computed, (JobFailure, Stage)> {
        match AnySet::by_name(&content.parameter_set) {
            Some(AnySet::Tfhe(set)) => self.compute_blocks(held, set, content, deadline, stopwatch).await,
            Some(AnySet::Ckks(set)) => self.compute_vectors(held, set, content, stopwatch).await,
            None => Err((invalid(format!("no parameter set is called {}", content.parameter_set)), Stage::Fetch)),
        }
    }

    async fn compute_blocks(
        &self,
        held: &Held,
        set: &'static ParameterSet,
        content: v1::JobContent,
        deadline: Option<Instant>,
        stopwatch: &mut Stopwatch,
    ) -> Result<Computed, (JobFailure, Stage)> {
        let fetching = |failure| (failure, Stage::Fetch);
        let task = self.check(held, set, content).await.map_err(fetching)?;
        // Other jobs have the memory. The stage Waiting tells the server that this job has not
        // stalled.
        held.status.enter(LeaseStage::Waiting);
        let memory = self.reserve(&task).await.map_err(fetching)?;
        held.status.enter(LeaseStage::Fetching);
        stopwatch.advance(Stage::Fetch, Instant::now());

        // Key and inputs are fetched concurrently. Time until the key is loaded counts as key load,
        // and any remaining time as fetch.
        let fetch_state = FetchState::new(&held.status);
        let key = async {
            let leases = self.keys(held, &task, &fetch_state).await;
            fetch_state.key_is_here();
            let leases = leases?;
            let loaded = (!leases.were_resident).then(Instant::now);
            Ok((leases, loaded))
        };
        let inputs = async {
            let inputs = self.fetch(held, &task).await;
            fetch_state.inputs_are_here();
            inputs
        };
        let fetched = tokio::try_join!(key, inputs);
        let ((leases, loaded), inputs) = fetched.map_err(fetching)?;
        if let Some(loaded) = loaded {
            stopwatch.advance(Stage::KeyLoad, loaded);
        }
        stopwatch.advance(Stage::Fetch, Instant::now());
        held.status.enter(LeaseStage::Waiting);

        let waiting = |failure| (failure, Stage::WaveWait);
        let finished =
            self.run_waves(held, &task, leases, inputs, deadline, stopwatch.clone()).await.map_err(waiting)?;
        *stopwatch = finished.stopwatch;
        let outputs = encode(&task, finished.outputs).await.map_err(|failure| (failure, Stage::Store))?;
        Ok((outputs, memory))
    }

    async fn check(
        &self,
        held: &Held,
        set: &'static ParameterSet,
        content: v1::JobContent,
    ) -> Result<Task, JobFailure> {
        let key_id = key_id(&content)?;
        let rows = u32::try_from(content.rows).map_err(|_| invalid(format!("{} rows: too many", content.rows)))?;
        let group = GroupId { group: content.group, key_id, set: set.id };
        // Other jobs under the same key fill waves as well as further rows of this job would.
        let (mut place, all) = self.crowd.join(group.clone(), rows.into());
        let lowered = self.programs.get(&content.program, Goal::of_rows(all, self.lanes)).await;
        let Lowered { set: written_for, inputs: takes, plan } = lowered.map_err(|error| invalid(error.to_string()))?;
        if written_for.id != set.id {
            let problem = format!("the program is for {}, the job for {}", written_for.name, set.name);
            return Err(invalid(problem));
        }
        place.record_work(plan.graph.pbs_count(), plan.depth);
        self.changed.notify_one();
        let (expected, got) = (takes.len(), content.inputs.len());
        if expected != got {
            return Err(JobFailure::lasting("INPUT_INVALID", format!("{got} inputs: the program takes {expected}")));
        }
        let blobs = self.blobs(held);
        let companion = content.companion.and_then(|key| companion(set, key_id, key, &blobs));
        let request = KeyRequest { group, set, parts: content.key_parts, blobs };
        let (rows, priority) = (rows as usize, content.priority);
        Ok(Task { key_id, _place: place, set, takes, plan, rows, request, companion, inputs: content.inputs, priority })
    }

    /// Leases the job's key, and then the companion's key.
    async fn keys(&self, held: &Held, task: &Task, fetch_state: &FetchState<'_>) -> Result<Leases, JobFailure> {
        let result = self.keys.get(&task.request, |waits| fetch_state.key_waits(waits)).await;
        held.status.advance();
        let (key, was_resident) = result?;
        let companion = match &task.companion {
            Some(request) => self.keys.companion(request, |waits| fetch_state.key_waits(waits)).await?,
            None => None,
        };
        held.status.advance();
        let (companion, resident_too) = companion.map_or((None, true), |(lease, resident)| (Some(lease), resident));
        Ok(Leases { key, companion, were_resident: was_resident && resident_too })
    }

    /// Reserves memory for a job's inputs and outputs. Each of them briefly exists in two forms.
    async fn reserve(&self, task: &Task) -> Result<OwnedSemaphorePermit, JobFailure> {
        let bytes = bytes_of(&task.inputs).saturating_add(task.output_bytes()).saturating_mul(2);
        self.job_memory.reserve(bytes).await.map_err(|error| JobFailure::passing("WORKER_OUT_OF_MEMORY", error))
    }

    async fn fetch(&self, held: &Held, task: &Task) -> Result<Vec<Box<dyn Rows>>, JobFailure> {
        let blobs = self.blobs(held);
        let mut inputs = Vec::with_capacity(task.inputs.len());
        for (index, source) in task.inputs.iter().enumerate() {
            let bytes = self.read_input(&blobs, source).await?;
            let bytes = bytes.ok_or_else(|| invalid_input(task, index, "it has no source"))?;
            held.status.advance();
            let (set, key_id, rows) = (task.set, task.key_id, task.rows as u64);
            let spec = task.takes[index].clone();
            let size = bytes.len();
            let read = move || inputs::read(&bytes, set, key_id, rows, &spec);
            let read = on_thread(size, read).await?.map_err(|problem| invalid_input(task, index, problem))?;
            inputs.push(read);
        }
        Ok(inputs)
    }

    async fn run_waves(
        &self,
        held: &Held,
        task: &Task,
        leases: Leases,
        inputs: Vec<Box<dyn Rows>>,
        deadline: Option<Instant>,
        stopwatch: Stopwatch,
    ) -> Result<Finished, JobFailure> {
        let (done, end) = oneshot::channel();
        let id = self.engine.job_id();
        self.engine.submit(EngineJob {
            id,
            group: task.request.group.clone(),
            key: leases.key,
            companion: leases.companion,
            plan: task.plan.clone(),
            inputs,
            rows: task.rows,
            priority: task.priority,
            deadline,
            status: held.status.clone(),
            stopwatch,
            done: Some(done),
        });
        // Cancels the engine's job when the withdrawn lease drops this future.
        let _cancel = Cancel { agent: self, id };
        end.await.unwrap_or_else(|_| Err(JobFailure::passing("DEVICE_FAILED", "the wave engine has ended")))
    }

    /// The bytes of an input, or `None` if the input has no source.
    pub(super) async fn read_input(
        &self,
        blobs: &BlobReader,
        source: &v1::AssignedInput,
    ) -> Result<Option<Bytes>, JobFailure> {
        match &source.source {
            Some(Source::Inline(bytes)) => Ok(Some(bytes.clone())),
            Some(Source::Blob(digest)) => blobs.read(digest).await.map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn blobs(&self, held: &Held) -> BlobReader {
        BlobReader { client: self.client.clone(), worker_id: self.worker_id.clone(), lease: held.lease.clone() }
    }
}

/// The encoded outputs with their digests, and their memory reservation.
pub(super) type Computed = (Vec<(Bytes, v1::Digest)>, OwnedSemaphorePermit);

pub(super) fn key_id(content: &v1::JobContent) -> Result<KeyId, JobFailure> {
    let key_id = content.key_id.as_ref().try_into().map(KeyId);
    key_id.map_err(|_| invalid(format!("a key id of {} bytes: it has 16", content.key_id.len())))
}

/// Request for the key of the set's companion, if this worker knows the companion.
fn companion(
    set: &'static ParameterSet,
    key_id: KeyId,
    key: v1::CompanionKey,
    blobs: &BlobReader,
) -> Option<KeyRequest> {
    let companion = companion_of(set).filter(|companion| companion.set.name == key.parameter_set)?.set;
    let group = GroupId { group: key.group, key_id, set: companion.id };
    Some(KeyRequest { group, set: companion, parts: key.key_parts, blobs: blobs.clone() })
}

pub(super) fn invalid(message: String) -> JobFailure {
    JobFailure::lasting("PROGRAM_INVALID", message)
}

/// Bytes of all inputs in their encoded form.
pub(super) fn bytes_of(inputs: &[v1::AssignedInput]) -> u64 {
    let size = |input: &v1::AssignedInput| match &input.source {
        Some(Source::Inline(bytes)) => bytes.len() as u64,
        Some(Source::Blob(digest)) => digest.size_bytes,
        None => 0,
    };
    inputs.iter().map(size).fold(0, u64::saturating_add)
}

/// An output with its digest.
pub(super) fn digested(bytes: Vec<u8>) -> (Bytes, v1::Digest) {
    let blake3 = Bytes::copy_from_slice(blake3::hash(&bytes).as_bytes());
    let size_bytes = bytes.len() as u64;
    (bytes.into(), v1::Digest { blake3, size_bytes })
}

/// Progress of fetching key and inputs. The job counts as waiting only if nothing moves: its inputs
/// are here, and its key waits for room that other jobs occupy.
pub(super) struct FetchState<'a> {
    status: &'a JobStatus,
    inputs_here: AtomicBool,
    key_waits: AtomicBool,
    key_here: AtomicBool,
}

impl<'a> FetchState<'a> {
    pub(super) fn new(status: &'a JobStatus) -> Self {
        let no = || AtomicBool::new(false);
        Self { status, inputs_here: no(), key_waits: no(), key_here: no() }
    }

    pub(super) fn key_waits(&self, waits: bool) {
        self.key_waits.store(waits, Ordering::Relaxed);
        self.update_status();
    }

    pub(super) fn key_is_here(&self) {
        self.key_here.store(true, Ordering::Relaxed);
        self.update_status();
    }

    pub(super) fn inputs_are_here(&self) {
        self.inputs_here.store(true, Ordering::Relaxed);
        self.update_status();
    }

    fn update_status(&self) {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let (inputs_here, key_here, key_waits) = (is(&self.inputs_here), is(&self.key_here), is(&self.key_waits));
        self.status.enter(match inputs_here && !key_here {
            true if key_waits => LeaseStage::Waiting,
            true => LeaseStage::LoadingKey,
            false => LeaseStage::Fetching,
        });
    }
}

/// Removes a job from the engine on drop. For a job that has ended, the removal has no effect.
struct Cancel<'a> {
    agent: &'a Agent,
    id: u64,
}

impl Drop for Cancel<'_> {
    fn drop(&mut self) {
        self.agent.engine.cancel(self.id);
    }
}

async fn encode(task: &Task, lists: Vec<OutputList>) -> Result<Vec<(Bytes, v1::Digest)>, JobFailure> {
    let plan = task.plan.clone();
    let key_id = task.key_id;
    let size = usize::try_from(task.output_bytes()).unwrap_or(usize::MAX);
    let encode = move || {
        let Graph { set, outputs, .. } = &plan.graph;
        let one = |(list, blocks): (OutputList, &Vec<Output>)| Ok(digested(list.encode(set, key_id, blocks)?));
        lists.into_iter().zip(outputs).map(one).collect()
    };
    let encoded: Result<_, cloakwork_tfhe::format::FormatError> = on_thread(size, encode).await?;
    encoded.map_err(|error| JobFailure::lasting("INTERNAL", error))
}

/// Runs short work inline, and work on more bytes than the limit on a blocking thread.
pub(super) async fn on_thread<R: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, JobFailure> {
    if size <= INLINE_WORK_BYTES {
        return Ok(work());
    }
    let result = tokio::task::spawn_blocking(work).await;
    result.map_err(|error| JobFailure::passing("DEVICE_FAILED", error))
}

fn invalid_input(task: &Task, index: usize, problem: impl std::fmt::Display) -> JobFailure {
    let name = &task.takes[index].name;
    JobFailure::lasting("INPUT_INVALID", format!("input {index} ('{name}'): {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stage_names_the_fetch_that_is_still_missing() {
        let status = JobStatus::default();
        let fetch_state = FetchState::new(&status);
        let is_at = |stage| assert!(status.is_in(stage), "{} instead of {stage:?}", status.read().0);
        fetch_state.key_waits(true);
        is_at(LeaseStage::Fetching);
        fetch_state.inputs_are_here();
        is_at(LeaseStage::Waiting);
        fetch_state.key_waits(false);
        is_at(LeaseStage::LoadingKey);
        fetch_state.key_is_here();
        is_at(LeaseStage::Fetching);
    }
}
