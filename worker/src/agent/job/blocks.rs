//! Jobs on blocks, which the wave engine computes.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use cloakwork_circuit::{Goal, Graph, Input, Output};
use cloakwork_params::{AnySet, KeyId, ParameterSet, table::companion_of};
use cloakwork_proto::v1::{self, LeaseStage};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{
    super::{Agent, Held, crowd::Place},
    DigestedOutput, FetchState, Fetched, Job, bytes_of, digest_of_parts, digested, invalid, key_id, on_thread,
    picked_rows,
};
use crate::{
    blob::BlobReader,
    engine::{EngineJob, Plan},
    failure::JobFailure,
    group::GroupId,
    inputs::{self, Picked, Rows},
    job_trace::JobTrace,
    key_cache::{KeyLease, KeyRequest},
    latency::Stopwatch,
    outputs::OutputList,
    programs::Lowered,
};

/// A checked job on blocks.
pub(super) struct BlockJob {
    key_id: KeyId,
    /// Held until the job ends.
    _place: Place,
    set: &'static ParameterSet,
    takes: Arc<[Input]>,
    plan: Arc<Plan>,
    goal: Goal,
    /// Number of rows of the inputs.
    input_rows: u64,
    /// The rows to compute, if these are not all.
    picked: Option<Arc<[usize]>>,
    /// Number of rows to compute.
    rows: usize,
    request: KeyRequest,
    /// Request for the key of the set's companion, where the set has a companion.
    companion: Option<KeyRequest>,
    sources: Vec<v1::AssignedInput>,
    priority: i32,
}

/// Keys that the job's waves are bootstrapped under.
pub(super) struct Keys {
    own: KeyLease,
    companion: Option<KeyLease>,
}

impl Job for BlockJob {
    type Set = ParameterSet;
    type Keys = Keys;
    type Input = Box<dyn Rows>;
    type Outputs = Vec<OutputList>;

    async fn accept(
        agent: &Agent,
        held: &Held,
        set: &'static ParameterSet,
        content: v1::JobContent,
    ) -> Result<(Self, OwnedSemaphorePermit), JobFailure> {
        let job = Self::check(agent, held, set, content).await?;
        // The job waits: other jobs have the memory.
        held.status.enter(LeaseStage::Waiting);
        // Each input and output briefly exists in two forms.
        let bytes = bytes_of(&job.sources).saturating_add(job.output_bytes()).saturating_mul(2);
        let memory = agent.reserve(bytes).await?;
        Ok((job, memory))
    }

    fn any(set: &'static ParameterSet) -> AnySet {
        AnySet::Tfhe(set)
    }

    fn sources(&self) -> &[v1::AssignedInput] {
        &self.sources
    }

    fn input_name(&self, index: usize) -> &str {
        &self.takes[index].name
    }

    async fn lease_keys(&self, agent: &Agent, fetch_state: &FetchState<'_>) -> Result<(Keys, bool), JobFailure> {
        let result = agent.keys.get(&self.request, |waits| fetch_state.key_waits(waits)).await;
        fetch_state.advance();
        let (own, was_resident) = result?;
        let companion = match &self.companion {
            Some(request) => agent.keys.companion(request, |waits| fetch_state.key_waits(waits)).await?,
            None => None,
        };
        fetch_state.advance();
        let (companion, resident_too) = companion.map_or((None, true), |(lease, resident)| (Some(lease), resident));
        Ok((Keys { own, companion }, was_resident && resident_too))
    }

    async fn read(&self, index: usize, bytes: Bytes) -> Result<Result<Box<dyn Rows>, String>, JobFailure> {
        let (set, key_id, rows) = (self.set, self.key_id, self.input_rows);
        let (spec, size, picked) = (self.takes[index].clone(), bytes.len(), self.picked.clone());
        let read = move || {
            let list = inputs::read(&bytes, set, key_id, rows, &spec)?;
            Ok::<_, inputs::InputError>(match picked {
                Some(rows) => Box::new(Picked { list, rows, blocks: spec.row.blocks() }),
                None => list,
            })
        };
        Ok(on_thread(size, read).await?.map_err(|problem| problem.to_string()))
    }

    async fn run(
        &self,
        agent: &Agent,
        held: &Held,
        fetched: Fetched<Self>,
        stopwatch: &mut Stopwatch,
    ) -> Result<(Vec<OutputList>, OwnedSemaphorePermit), JobFailure> {
        let Fetched { keys, inputs, memory, deadline } = fetched;
        let (done, end) = oneshot::channel();
        let id = agent.engine.job_id();
        let (began, trace) = (Instant::now(), held.trace.as_ref().and_then(JobTrace::step));
        agent.engine.submit(EngineJob {
            id,
            group: self.request.group.clone(),
            key: keys.own,
            companion: keys.companion,
            plan: self.plan.clone(),
            inputs,
            rows: self.rows,
            priority: self.priority,
            deadline,
            status: held.status.clone(),
            stopwatch: stopwatch.clone(),
            trace,
            waves: Vec::new(),
            done: Some(done),
        });
        // Cancels the engine's job when the withdrawn lease drops this future.
        let _cancel = Cancel { agent, id };
        let ended =
            end.await.unwrap_or_else(|_| Err(JobFailure::passing("DEVICE_FAILED", "the wave engine has ended")));
        let finished = ended?;
        *stopwatch = finished.stopwatch;
        if let Some(held) = &held.trace {
            held.record("compute", trace, began, finished.waves);
        }
        Ok((finished.outputs, memory))
    }

    fn lowering(&self) -> v1::Lowering {
        match self.goal {
            Goal::Work => v1::Lowering::Work,
            Goal::Depth => v1::Lowering::Depth,
        }
    }

    async fn encode(&self, lists: Vec<OutputList>) -> Result<Vec<DigestedOutput>, JobFailure> {
        let (plan, key_id) = (self.plan.clone(), self.key_id);
        let size = usize::try_from(self.output_bytes()).unwrap_or(usize::MAX);
        let encode = move || {
            let Graph { set, outputs, .. } = &plan.graph;
            let one = |(list, blocks): (OutputList, &Vec<Output>)| Ok(digested(list.encode(set, key_id, blocks)?));
            lists.into_iter().zip(outputs).map(one).collect()
        };
        let encoded: Result<_, cloakwork_tfhe::format::FormatError> = on_thread(size, encode).await?;
        encoded.map_err(|error| JobFailure::lasting("INTERNAL", error))
    }
}

impl BlockJob {
    async fn check(
        agent: &Agent,
        held: &Held,
        set: &'static ParameterSet,
        content: v1::JobContent,
    ) -> Result<Self, JobFailure> {
        let key_id = key_id(&content)?;
        let all = u32::try_from(content.rows).map_err(|_| invalid(format!("{} rows: too many", content.rows)))?;
        let (picked, asked) = (picked_rows(&content)?, content.lowering());
        let rows = picked.as_ref().map_or(all as usize, |picked| picked.len());
        let parts = digest_of_parts(&content.key_parts)?;
        let group = GroupId { group: content.group, key_id, set: set.id, parts };
        // Other jobs under the same key fill waves as well as further rows of this job would.
        let (mut place, in_crowd) = agent.crowd.join(group.clone(), rows as u64);
        let goal = match asked {
            v1::Lowering::Unspecified => Goal::of_rows(in_crowd, agent.lanes),
            v1::Lowering::Work => Goal::Work,
            v1::Lowering::Depth => Goal::Depth,
        };
        let lowered = agent.programs.get(&content.program, goal).await?;
        let Lowered { set: written_for, inputs: takes, plan, .. } = lowered;
        if written_for.id != set.id {
            let problem = format!("the program is for {}, the job for {}", written_for.name, set.name);
            return Err(invalid(problem));
        }
        place.record_work(plan.graph.pbs_count(), plan.depth);
        agent.changed.notify_one();
        let (expected, got) = (takes.len(), content.inputs.len());
        if expected != got {
            return Err(JobFailure::lasting("INPUT_INVALID", format!("{got} inputs: the program takes {expected}")));
        }
        let blobs = agent.blobs(held);
        let companion = content.companion.and_then(|key| companion(set, key_id, key, &blobs));
        let request = KeyRequest { group, set, parts: content.key_parts, blobs };
        let (input_rows, sources, priority) = (content.rows, content.inputs, content.priority);
        Ok(Self {
            key_id,
            _place: place,
            set,
            takes,
            plan,
            goal,
            input_rows,
            picked,
            rows,
            request,
            companion,
            sources,
            priority,
        })
    }

    /// Bytes of all outputs.
    fn output_bytes(&self) -> u64 {
        let blocks = self.plan.graph.outputs.iter().map(Vec::len).sum::<usize>();
        let ciphertexts = (self.rows as u64).saturating_mul(blocks as u64);
        ciphertexts.saturating_mul(self.set.ciphertext_bytes())
    }
}

/// Request for the key of the set's companion, if this worker knows the companion.
fn companion(
    set: &'static ParameterSet,
    key_id: KeyId,
    key: v1::CompanionKey,
    blobs: &BlobReader,
) -> Option<KeyRequest> {
    let companion = companion_of(set).filter(|companion| companion.set.name == key.parameter_set)?.set;
    let parts = digest_of_parts(&key.key_parts).ok()?;
    let group = GroupId { group: key.group, key_id, set: companion.id, parts };
    Some(KeyRequest { group, set: companion, parts: key.key_parts, blobs: blobs.clone() })
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
