//! The steps of a job on vectors, from its assignment to its encoded outputs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use bytes::Bytes;
use cloakwork_circuit::ckks::{Outline, Program};
use cloakwork_ckks::Ciphertext;
use cloakwork_params::{KeyId, ckks::CkksSet};
use cloakwork_proto::v1::{self, LeaseStage};
use cloakwork_vectors::{Finished, Job, Run, RunError, read_input, ring, write_output};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{
    Agent, Held,
    job::{Computed, FetchState, bytes_of, digested, invalid, key_id, on_thread},
};
use crate::{
    failure::JobFailure,
    group::GroupId,
    latency::{Stage, Stopwatch},
    vectors::{VectorKeyRequest, VectorLease, Vectors},
};

/// A checked job.
struct Task {
    vectors: Arc<Vectors>,
    key_id: KeyId,
    set: &'static CkksSet,
    program: Arc<Program>,
    request: VectorKeyRequest,
    inputs: Vec<v1::AssignedInput>,
}

/// Cancels the job on drop, and removes cancelled jobs from the engine's queue.
struct GiveUp {
    is_cancelled: Arc<AtomicBool>,
    vectors: Arc<Vectors>,
}

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.vectors.forget_cancelled();
    }
}

impl Agent {
    pub(super) async fn compute_vectors(
        &self,
        held: &Held,
        set: &'static CkksSet,
        content: v1::JobContent,
        stopwatch: &mut Stopwatch,
    ) -> Result<Computed, (JobFailure, Stage)> {
        let fetching = |failure| (failure, Stage::Fetch);
        let none = || fetching(JobFailure::passing("SET_NOT_SERVED", "this worker has no memory for vectors"));
        let vectors = self.vectors.clone().ok_or_else(none)?;
        // Other jobs are being planned, or have the memory. The stage Waiting tells the server that
        // this job has not stalled.
        held.status.enter(LeaseStage::Waiting);
        let outline = outline(&vectors, set, &content).await.map_err(fetching)?;
        let memory = self.reserve_vectors(&outline, &content).await.map_err(fetching)?;
        let program = vectors.plan(content.program.clone()).await.map_err(fetching)?;
        held.status.enter(LeaseStage::Fetching);
        let task = self.check_vectors(held, set, vectors, program, content).map_err(fetching)?;
        stopwatch.advance(Stage::Fetch, Instant::now());

        let fetch_state = FetchState::new(&held.status);
        let key = async {
            let result = task
                .vectors
                .keys
                .get(&task.request, || held.status.advance(), |waits| fetch_state.key_waits(waits))
                .await;
            fetch_state.key_is_here();
            result.map(|(lease, was_resident)| (lease, (!was_resident).then(Instant::now)))
        };
        let inputs = async {
            let inputs = self.fetch_vectors(held, &task).await;
            fetch_state.inputs_are_here();
            inputs
        };
        let ((key, loaded), inputs) = tokio::try_join!(key, inputs).map_err(fetching)?;
        if let Some(loaded) = loaded {
            stopwatch.advance(Stage::KeyLoad, loaded);
        }
        stopwatch.advance(Stage::Fetch, Instant::now());
        held.status.enter(LeaseStage::Waiting);

        let waiting = |failure| (failure, Stage::WaveWait);
        let (finished, memory) = run(held, &task, key, inputs, memory).await.map_err(waiting)?;
        let Run { outputs, times } = finished.result.map_err(|error| (failure(error), Stage::WaveWait))?;
        stopwatch.run(finished.began, finished.ended, task.program.cost().bootstraps, &times);
        let outputs = encode(&task, outputs).await.map_err(|failure| (failure, Stage::Store))?;
        Ok((outputs, memory))
    }

    fn check_vectors(
        &self,
        held: &Held,
        set: &'static CkksSet,
        vectors: Arc<Vectors>,
        program: Program,
        content: v1::JobContent,
    ) -> Result<Task, JobFailure> {
        let key_id = key_id(&content)?;
        vectors.check(&program, &content.key_parts)?;
        let group = GroupId { group: content.group, key_id, set: set.id };
        let request = VectorKeyRequest { group, set, parts: content.key_parts, blobs: self.blobs(held) };
        Ok(Task { vectors, key_id, set, program: Arc::new(program), request, inputs: content.inputs })
    }

    /// Reserves memory for the program, its inputs and its outputs. The values in computation have
    /// memory of their own.
    async fn reserve_vectors(
        &self,
        outline: &Outline,
        content: &v1::JobContent,
    ) -> Result<OwnedSemaphorePermit, JobFailure> {
        // Vectors briefly exist in two forms: as stored bytes and as words.
        let vectors = outline.held_row_bytes().saturating_mul(2);
        let bytes = bytes_of(&content.inputs).saturating_add(vectors).saturating_add(outline.planned_bytes);
        self.job_memory.reserve(bytes).await.map_err(|error| JobFailure::passing("WORKER_OUT_OF_MEMORY", error))
    }

    async fn fetch_vectors(&self, held: &Held, task: &Task) -> Result<Vec<Ciphertext>, JobFailure> {
        let blobs = self.blobs(held);
        let mut inputs = Vec::with_capacity(task.inputs.len());
        for (index, source) in task.inputs.iter().enumerate() {
            let invalid = |problem: String| {
                let name = &task.program.inputs()[index].name;
                JobFailure::lasting("INPUT_INVALID", format!("input {index} ('{name}'): {problem}"))
            };
            let bytes = self.read_input(&blobs, source).await?;
            let bytes = bytes.ok_or_else(|| invalid("it has no source".to_owned()))?;
            held.status.advance();
            let (program, set, key_id) = (task.program.clone(), task.set, task.key_id);
            let read = move || read_input(&bytes, ring(set), key_id, &program.inputs()[index]);
            // The first input creates the ring, which takes long for an input of any size.
            let read = on_thread(usize::MAX, read).await?;
            inputs.push(read.map_err(|problem| invalid(problem.to_string()))?);
        }
        Ok(inputs)
    }
}

/// The outline of a job's program. The full plan is dropped again, until there is memory for it.
async fn outline(vectors: &Vectors, set: &CkksSet, content: &v1::JobContent) -> Result<Outline, JobFailure> {
    let outline = vectors.plan(content.program.clone()).await?.outline().clone();
    if outline.set.id != set.id {
        return Err(invalid(format!("the program is for {}, the job for {}", outline.set.name, set.name)));
    }
    let (expected, got) = (outline.inputs.len(), content.inputs.len());
    if expected != got {
        return Err(JobFailure::lasting("INPUT_INVALID", format!("{got} inputs: the program takes {expected}")));
    }
    if content.rows != 1 {
        let problem = format!("{} rows: a job on vectors has one", content.rows);
        return Err(JobFailure::lasting("INPUT_INVALID", problem));
    }
    Ok(outline)
}

/// Computes the job. The engine's callback owns the memory reservation and the key until the engine
/// has ended the job.
async fn run(
    held: &Held,
    task: &Task,
    key: VectorLease,
    inputs: Vec<Ciphertext>,
    memory: OwnedSemaphorePermit,
) -> Result<(Finished, OwnedSemaphorePermit), JobFailure> {
    let keys = key.keys().map_err(|problem| JobFailure::lasting("KEY_INCOMPLETE", problem))?;
    let (sender, end) = oneshot::channel();
    let status = held.status.clone();
    let give_up = GiveUp { is_cancelled: Arc::default(), vectors: task.vectors.clone() };
    task.vectors.submit(Job {
        key: task.request.group.clone(),
        program: task.program.clone(),
        inputs,
        keys: Arc::new(keys),
        is_cancelled: give_up.is_cancelled.clone(),
        progress: Box::new(move || status.enter(LeaseStage::Computing)),
        done: Box::new(move |finished| {
            // The key stays leased until nothing computes with it.
            drop(key);
            let _ = sender.send((finished, memory));
        }),
    });
    let ended = end.await.map_err(|_| JobFailure::passing("DEVICE_FAILED", "the engine for vectors has ended"));
    drop(give_up);
    ended
}

fn failure(error: RunError) -> JobFailure {
    match error {
        RunError::Panicked | RunError::GivenUp => JobFailure::passing("DEVICE_FAILED", error),
        _ => JobFailure::lasting("INTERNAL", error),
    }
}

async fn encode(task: &Task, outputs: Vec<Ciphertext>) -> Result<Vec<(Bytes, v1::Digest)>, JobFailure> {
    let (set, key_id) = (task.set, task.key_id);
    let size = usize::try_from(task.program.outline().row_bytes()).unwrap_or(usize::MAX);
    let encode = move || {
        let one = |output: &Ciphertext| write_output(output, ring(set), key_id).map(digested);
        outputs.iter().map(one).collect::<Result<_, _>>()
    };
    on_thread(size, encode).await?.map_err(|error| JobFailure::lasting("INTERNAL", error))
}
