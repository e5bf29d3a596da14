//! The agent: holds the jobs that the server wants held, and tells it how they fare.
//!
//! Level-triggered: every report is complete, every assignment is the whole wish, and what is held follows from the
//! last one. Three clocks are kept apart. The connection has HTTP/2's keep-alive; the leases have the reports, which go on
//! whatever the jobs do; and each job has a progress number, which only moves when the job does.

mod attach;
mod commit;
mod crowd;
mod job;
mod memory;
mod report;
mod vector_job;

use std::{
    collections::{HashMap, VecDeque},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use cloakwork_device::{Device, DeviceError};
use cloakwork_params::AnySet;
use cloakwork_proto::v1;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::{crowd::Crowd, memory::JobMemory};
use crate::{
    Options, WorkerError,
    connection::{Client, Uplink, client},
    engine::{Engine, JobStatus},
    key_cache::KeyCache,
    locked::Locked as _,
    programs::Programs,
    vectors::Vectors,
};

/// Everything that a worker process has.
pub(crate) struct Agent {
    options: Options,
    client: Client,
    worker_id: Bytes,
    device: Arc<dyn Device>,
    engine: Engine,
    keys: Arc<KeyCache>,
    programs: Programs,
    /// Jobs on vectors, where there is memory for them.
    vectors: Option<Arc<Vectors>>,
    /// Bootstraps that the device works on at a time.
    lanes: u64,
    crowd: Arc<Crowd>,
    /// What inputs and outputs may take.
    job_memory: JobMemory,
    held: Mutex<HashMap<LeaseId, Arc<Held>>>,
    /// Leases whose end the server has heard of. An assignment that was sent before may still name one.
    ended: Mutex<VecDeque<LeaseId>>,
    /// Told when the server should hear of something soon.
    changed: Arc<Notify>,
    draining: AtomicBool,
}

/// A lease as a map's key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct LeaseId {
    job_id: Bytes,
    epoch: u64,
}

/// A leased job.
struct Held {
    lease: v1::Lease,
    /// Is it a job on vectors?
    is_on_vectors: bool,
    status: Arc<JobStatus>,
    /// The server wants it no more.
    withdrawn: CancellationToken,
}

/// Lets go of all jobs, also where whoever runs the agent gives up on it: each has a task of its own.
struct LetGo<'a>(&'a Agent);

impl Drop for LetGo<'_> {
    fn drop(&mut self) {
        self.0.keep(|_| false);
    }
}

/// Ended leases that are remembered.
const ENDED_MAX: usize = 4096;
/// How long the last words may take.
const FAREWELL: Duration = Duration::from_secs(2);

impl Agent {
    pub(crate) fn new(options: Options, device: Arc<dyn Device>, uplink: Uplink) -> Result<Self, WorkerError> {
        let mut worker_id = options.id.unwrap_or_default().to_be_bytes();
        if options.id.is_none() {
            getrandom::fill(&mut worker_id).map_err(|error| std::io::Error::other(error.to_string()))?;
        }
        let changed = Arc::new(Notify::new());
        let info = device.describe();
        Ok(Self {
            client: client(uplink, options.token.as_deref())?,
            worker_id: Bytes::copy_from_slice(&worker_id),
            engine: Engine::start(device.clone(), options.arena_memory)?,
            keys: Arc::new(KeyCache::new(device.clone(), options.key_memory, changed.clone())),
            programs: Programs::default(),
            vectors: Vectors::start(options.vector_memory, options.threads, &changed)?.map(Arc::new),
            lanes: (info.tile * info.units) as u64,
            crowd: Arc::default(),
            job_memory: JobMemory::new(options.job_memory),
            held: Mutex::default(),
            ended: Mutex::default(),
            changed,
            draining: AtomicBool::new(false),
            device,
            options,
        })
    }

    /// Works until `shutdown`, then ends what it holds or hands it back.
    pub(crate) async fn run(self: &Arc<Self>, shutdown: CancellationToken) -> Result<(), WorkerError> {
        let _jobs = LetGo(self);
        self.prove_vectors();
        let serve = self.serve();
        tokio::pin!(serve);
        tokio::select! {
            result = &mut serve => return result,
            () = shutdown.cancelled() => {}
        }
        self.draining.store(true, Ordering::Release);
        self.engine.drain();
        self.changed.notify_one();
        let grace = self.options.grace;
        tokio::select! {
            result = &mut serve => return result,
            () = tokio::time::sleep(grace) => {}
        }
        let jobs = self.keep(|_| false);
        self.changed.notify_one();
        // What is held no more is not in the last report: that hands it back.
        let _ = tokio::time::timeout(FAREWELL, serve).await;
        if jobs == 0 { Ok(()) } else { Err(WorkerError::HandedBack { jobs, grace }) }
    }

    /// Sets for vectors are reported once this machine has got a known answer right under them.
    fn prove_vectors(&self) {
        let Some(vectors) = self.vectors.clone() else { return };
        let changed = self.changed.clone();
        tokio::task::spawn_blocking(move || vectors.prove(&changed));
    }

    /// Makes what is held what the server wishes.
    fn apply(self: &Arc<Self>, wish: v1::AttachResponse) {
        let mut wanted = HashMap::with_capacity(wish.assignments.len());
        for assignment in wish.assignments {
            if let Some(id) = assignment.lease.as_ref().map(LeaseId::from) {
                wanted.insert(id, assignment);
            }
        }
        self.keep(|id| wanted.contains_key(id));
        for (id, assignment) in wanted {
            self.begin(id, assignment);
        }
    }

    /// Lets go of all leases but those that `wanted` names. Returns how many it let go of.
    fn keep(&self, wanted: impl Fn(&LeaseId) -> bool) -> usize {
        let mut held = self.held.locked();
        let before = held.len();
        held.retain(|id, lease| {
            let keep = wanted(id);
            if !keep {
                lease.withdrawn.cancel();
            }
            keep
        });
        let gone = before - held.len();
        if gone > 0 {
            self.changed.notify_one();
        }
        gone
    }

    /// Takes a job on, unless it is held, has ended, or there is no place for it.
    fn begin(self: &Arc<Self>, id: LeaseId, assignment: v1::Assignment) {
        let (Some(lease), Some(content)) = (assignment.lease, assignment.content) else { return };
        let mut all = self.held.locked();
        let full = all.len() >= self.options.jobs_max || self.is_draining();
        if full || all.contains_key(&id) || self.ended.locked().contains(&id) {
            return;
        }
        let is_on_vectors = matches!(AnySet::by_name(&content.parameter_set), Some(AnySet::Ckks(_)));
        let (status, withdrawn) = (Arc::default(), CancellationToken::new());
        let held = Arc::new(Held { lease, is_on_vectors, status, withdrawn });
        all.insert(id.clone(), held.clone());
        drop(all);
        self.changed.notify_one();
        let left = assignment.time_left.and_then(|left| Duration::try_from(left).ok());
        let deadline = left.map(|left| Instant::now() + left);
        let agent = self.clone();
        tokio::spawn(async move {
            let mut job = pin!(agent.do_job(&held, content, deadline));
            tokio::select! {
                () = held.withdrawn.cancelled() => {
                    // A result that is taken ends the lease as well: the answer to it is on its way.
                    if held.status.is_in(v1::LeaseStage::Committing) {
                        let _ = tokio::time::timeout(FAREWELL, job).await;
                    }
                    return;
                }
                () = &mut job => {}
            }
            agent.end(&id);
        });
    }

    /// A job has ended and the server knows.
    fn end(&self, id: &LeaseId) {
        let mut ended = self.ended.locked();
        if ended.len() >= ENDED_MAX {
            ended.pop_front();
        }
        ended.push_back(id.clone());
        drop(ended);
        self.held.locked().remove(id);
        self.changed.notify_one();
    }

    /// Why this worker can compute no more. Jobs that it holds hand nothing in: the server gives them to other workers
    /// once this one is gone.
    pub(crate) fn broken(&self) -> Option<WorkerError> {
        if let Some(message) = self.device.lost() {
            return Some(DeviceError::Lost { message }.into());
        }
        if let Some(message) = self.engine.panic() {
            return Some(WorkerError::Panicked { thread: "the wave engine", message: message.to_owned() });
        }
        let vectors = self.vectors.as_ref().is_some_and(|vectors| vectors.has_died());
        vectors.then(|| WorkerError::Panicked { thread: "the engine for vectors", message: "see the log".to_owned() })
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Nothing is left to do here.
    fn may_leave(&self) -> bool {
        self.is_draining() && self.held.locked().is_empty()
    }
}

impl From<&v1::Lease> for LeaseId {
    fn from(lease: &v1::Lease) -> Self {
        Self { job_id: lease.job_id.clone(), epoch: lease.epoch }
    }
}

#[cfg(test)]
mod tests;
