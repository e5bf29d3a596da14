//! Jobs on vectors, which the engine for vectors computes.

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
use cloakwork_device::{DeviceError, RowError, RowResult};
use cloakwork_params::{AnySet, KeyId, ckks::CkksSet};
use cloakwork_proto::v1::{self, LeaseStage};
use cloakwork_vectors::{Job as EngineJob, read_input, ring, write_output};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{
    super::{Agent, Held},
    DigestedOutput, FetchState, Fetched, Job, bytes_of, digested, invalid, key_id, on_thread,
};
use crate::{
    failure::JobFailure,
    group::GroupId,
    job_trace::JobTrace,
    latency::Stopwatch,
    vectors::{VectorKeyRequest, VectorLease, Vectors},
};

/// A checked job on vectors.
pub(super) struct VectorJob {
    vectors: Arc<Vectors>,
    key_id: KeyId,
    set: &'static CkksSet,
    program: Arc<Program>,
    request: VectorKeyRequest,
    sources: Vec<v1::AssignedInput>,
}

impl Job for VectorJob {
    type Set = CkksSet;
    type Keys = VectorLease;
    type Input = Ciphertext;
    type Outputs = Vec<Ciphertext>;

    async fn accept(
        agent: &Agent,
        held: &Held,
        set: &'static CkksSet,
        content: v1::JobContent,
    ) -> Result<(Self, OwnedSemaphorePermit), JobFailure> {
        let none = || JobFailure::passing("SET_NOT_SERVED", "this worker has no memory for vectors");
        let vectors = agent.vectors.clone().ok_or_else(none)?;
        // The job waits: other jobs are being planned, or have the memory.
        held.status.enter(LeaseStage::Waiting);
        let outline = outline(&vectors, set, &content).await?;
        // Vectors briefly exist in two forms: as stored bytes and as words. The values in
        // computation have memory of their own.
        let vectors_bytes = outline.held_row_bytes().saturating_mul(2);
        let bytes = bytes_of(&content.inputs).saturating_add(vectors_bytes).saturating_add(outline.planned_bytes);
        let memory = agent.reserve(bytes).await?;
        let program = Arc::new(vectors.plan(content.program.clone()).await?);
        let key_id = key_id(&content)?;
        vectors.check(&program, &content.key_parts)?;
        let group = GroupId { group: content.group, key_id, set: set.id, parts: [0; 32] };
        let request = VectorKeyRequest { group, set, parts: content.key_parts, blobs: agent.blobs(held) };
        Ok((Self { vectors, key_id, set, program, request, sources: content.inputs }, memory))
    }

    fn any(set: &'static CkksSet) -> AnySet {
        AnySet::Ckks(set)
    }

    fn sources(&self) -> &[v1::AssignedInput] {
        &self.sources
    }

    fn input_name(&self, index: usize) -> &str {
        &self.program.inputs()[index].name
    }

    async fn lease_keys(&self, _: &Agent, fetch_state: &FetchState<'_>) -> Result<(VectorLease, bool), JobFailure> {
        let waits = |waits| fetch_state.key_waits(waits);
        self.vectors.keys.get(&self.request, || fetch_state.advance(), waits).await
    }

    async fn read(&self, index: usize, bytes: Bytes) -> Result<Result<Ciphertext, String>, JobFailure> {
        let (program, set, key_id) = (self.program.clone(), self.set, self.key_id);
        let read = move || read_input(&bytes, ring(set), key_id, &program.inputs()[index]);
        // The first input creates the ring, which takes long for an input of any size.
        Ok(on_thread(usize::MAX, read).await?.map_err(|problem| problem.to_string()))
    }

    async fn run(
        &self,
        agent: &Agent,
        held: &Held,
        fetched: Fetched<Self>,
        stopwatch: &mut Stopwatch,
    ) -> Result<(Vec<Ciphertext>, OwnedSemaphorePermit), JobFailure> {
        let Fetched { keys: lease, inputs, memory, deadline: _ } = fetched;
        let (sender, end) = oneshot::channel();
        let (began, trace) = (Instant::now(), held.trace.as_ref().and_then(JobTrace::step));
        let status = held.status.clone();
        let cancel = Cancel { is_cancelled: Arc::default(), vectors: self.vectors.clone() };
        self.vectors.submit(EngineJob {
            key: self.request.group.clone(),
            program: self.program.clone(),
            inputs,
            parts: lease.slots(),
            is_cancelled: cancel.is_cancelled.clone(),
            progress: Box::new(move || status.enter(LeaseStage::Computing)),
            done: Box::new(move |finished| {
                // The parts stay leased until nothing computes with them.
                drop(lease);
                let _ = sender.send((finished, memory));
            }),
        });
        let ended = end.await.map_err(|_| JobFailure::passing("DEVICE_FAILED", "the engine for vectors has ended"));
        drop(cancel);
        let (finished, memory) = ended?;
        let RowResult { outputs, times } = finished.result.map_err(failure)?;
        if let Some(metrics) = &agent.options.metrics {
            for (name, (count, time)) in &times.0 {
                metrics.vector_operations.add(*count, [*name]);
                metrics.vector_time.add_f64(time.as_secs_f64(), [*name]);
            }
        }
        if let Some(held) = &held.trace {
            held.record("compute", trace, began, Vec::new());
        }
        stopwatch.run(finished.began, finished.ended, self.program.cost().bootstraps, &times);
        Ok((outputs, memory))
    }

    async fn encode(&self, outputs: Vec<Ciphertext>) -> Result<Vec<DigestedOutput>, JobFailure> {
        let (set, key_id) = (self.set, self.key_id);
        let size = usize::try_from(self.program.outline().row_bytes()).unwrap_or(usize::MAX);
        let encode = move || {
            let one = |output: &Ciphertext| write_output(output, ring(set), key_id).map(digested);
            outputs.iter().map(one).collect::<Result<_, _>>()
        };
        on_thread(size, encode).await?.map_err(|error| JobFailure::lasting("INTERNAL", error))
    }
}

/// Cancels the job on drop, and removes cancelled jobs from the engine's queue.
struct Cancel {
    is_cancelled: Arc<AtomicBool>,
    vectors: Arc<Vectors>,
}

impl Drop for Cancel {
    fn drop(&mut self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.vectors.forget_cancelled();
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
    // The only row is checked whole.
    if !content.check_rows.is_empty() {
        return Err(invalid("a job on vectors has no rows to choose from".to_owned()));
    }
    if content.rows != 1 {
        let problem = format!("{} rows: a job on vectors has one", content.rows);
        return Err(JobFailure::lasting("INPUT_INVALID", problem));
    }
    Ok(outline)
}

fn failure(error: RowError) -> JobFailure {
    match error {
        RowError::Keys(problem) => JobFailure::lasting("KEY_INCOMPLETE", problem),
        RowError::Device(DeviceError::OutOfMemory { .. } | DeviceError::TooLarge { .. }) => {
            JobFailure::passing("WORKER_OUT_OF_MEMORY", error)
        }
        RowError::Panicked | RowError::GivenUp | RowError::Device(_) => JobFailure::passing("DEVICE_FAILED", error),
        _ => JobFailure::lasting("INTERNAL", error),
    }
}
