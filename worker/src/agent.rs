//! The agent: holds the leases that the server assigns, and reports their state to the server.
//!
//! The protocol is level-triggered: every report is complete, and every assignment lists all wanted
//! leases. The leases held follow from the last assignment. Three liveness checks are independent.
//! The keep-alive of HTTP/2 checks the connection. Reports, which go on regardless of the jobs,
//! renew the leases. Each job has a progress number, which only increases when the job makes
//! progress.

mod attach;
mod commit;
mod crowd;
mod job;
mod memory;
mod report;

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
use tracing::Instrument as _;

use self::{crowd::Crowd, memory::JobMemory};
use crate::{
    Options, WorkerError,
    attestor::Attestor,
    connection::{Client, Uplink, client},
    direct::Direct,
    engine::{Engine, JobStatus},
    failure::caught,
    job_trace::JobTrace,
    key_cache::KeyCache,
    locked::Locked as _,
    observer::Observer,
    programs::Programs,
    vectors::Vectors,
};

/// State of a worker process.
pub(crate) struct Agent {
    options: Options,
    client: Client,
    worker_id: Bytes,
    attestor: Attestor,
    /// The store, for reads of large blobs past the server.
    store: Option<Arc<Direct>>,
    device: Arc<dyn Device>,
    engine: Engine,
    keys: Arc<KeyCache>,
    programs: Programs,
    /// Support for jobs on vectors; `None` without memory for them.
    vectors: Option<Arc<Vectors>>,
    /// Number of bootstraps that the device works on at a time.
    lanes: u64,
    crowd: Arc<Crowd>,
    /// Memory for the inputs and outputs of jobs.
    job_memory: JobMemory,
    held: Mutex<HashMap<LeaseId, Arc<Held>>>,
    /// Ended leases. An assignment that was sent before the server learned of the end may still
    /// name such a lease.
    ended: Mutex<VecDeque<LeaseId>>,
    /// Notified when the next report to the server is due early.
    changed: Arc<Notify>,
    draining: AtomicBool,
    observer: Observer,
}

/// Key of a lease in a map.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct LeaseId {
    job_id: Bytes,
    epoch: u64,
}

/// A leased job.
struct Held {
    lease: v1::Lease,
    /// Whether the job is on vectors.
    is_on_vectors: bool,
    status: Arc<JobStatus>,
    /// The spans of the job, if the job is traced.
    trace: Option<JobTrace>,
    /// Cancelled when the server no longer wants the job.
    withdrawn: CancellationToken,
}

/// Releases all jobs on drop. Each job runs in a task of its own, which would otherwise survive
/// when the future of [`Agent::run`] is dropped.
struct ReleaseOnDrop<'a>(&'a Agent);

impl Drop for ReleaseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.retain_leases(|_| false);
    }
}

/// Number of ended leases that are remembered.
const ENDED_MAX: usize = 4096;
/// Longest final exchange with the server: the last report, or the answer to a commit whose lease
/// was withdrawn.
const FINAL_EXCHANGE_TIMEOUT: Duration = Duration::from_secs(2);

impl Agent {
    pub(crate) fn new(options: Options, device: Arc<dyn Device>, uplink: Uplink) -> Result<Self, WorkerError> {
        let attestor = Attestor::new(options.key.clone(), options.clock.clone())?;
        let changed = Arc::new(Notify::new());
        let info = device.describe();
        let Options { metrics, tracer, clock, .. } = &options;
        let observer = Observer { metrics: metrics.clone(), tracer: tracer.clone(), clock: clock.clone() };
        Ok(Self {
            client: client(uplink, options.token.as_deref())?,
            worker_id: Bytes::copy_from_slice(&attestor.worker_id()),
            store: options.blob_store.as_deref().map(Direct::new).transpose()?.map(Arc::new),
            attestor,
            engine: Engine::start(device.clone(), options.arena_memory, observer.clone())?,
            keys: Arc::new(KeyCache::new(device.clone(), options.key_memory, changed.clone(), options.metrics.clone())),
            programs: Programs::default(),
            vectors: Vectors::start(device.as_ref(), options.vector_memory, options.threads, &changed)?.map(Arc::new),
            lanes: (info.tile * info.units) as u64,
            crowd: Arc::default(),
            job_memory: JobMemory::new(options.job_memory),
            held: Mutex::default(),
            ended: Mutex::default(),
            changed,
            draining: AtomicBool::new(false),
            observer,
            device,
            options,
        })
    }

    /// Works until `shutdown`. Then lets the held jobs end within the grace time, and hands the
    /// remaining jobs back.
    pub(crate) async fn run(self: &Arc<Self>, shutdown: CancellationToken) -> Result<(), WorkerError> {
        let _jobs = ReleaseOnDrop(self);
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
        let jobs = self.retain_leases(|_| false);
        self.changed.notify_one();
        // The last report omits the released leases, which hands them back to the server.
        let _ = tokio::time::timeout(FINAL_EXCHANGE_TIMEOUT, serve).await;
        if jobs == 0 { Ok(()) } else { Err(WorkerError::HandedBack { jobs, grace }) }
    }

    /// Runs the self-test for vectors. The reports name a set for vectors only after its known
    /// answer came out right.
    fn prove_vectors(&self) {
        let Some(vectors) = self.vectors.clone() else { return };
        let changed = self.changed.clone();
        tokio::task::spawn_blocking(move || vectors.prove(&changed));
    }

    /// Takes the certificate in a response, and makes the held leases match the assignment.
    fn apply(self: &Arc<Self>, response: v1::AttachResponse) {
        if !response.certificate.is_empty() {
            self.attestor.certify(&response.certificate);
            // The next report asks for work, if the certificate is valid.
            self.changed.notify_one();
        }
        let mut wanted = HashMap::with_capacity(response.assignments.len());
        for assignment in response.assignments {
            if let Some(id) = assignment.lease.as_ref().map(LeaseId::from) {
                wanted.insert(id, assignment);
            }
        }
        self.retain_leases(|id| wanted.contains_key(id));
        for (id, assignment) in wanted {
            self.begin(id, assignment);
        }
    }

    /// Releases all leases except those for which `wanted` is true. Returns the number of released
    /// leases.
    fn retain_leases(&self, wanted: impl Fn(&LeaseId) -> bool) -> usize {
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

    /// Starts a job, unless the job is held, has ended, or the worker is full.
    fn begin(self: &Arc<Self>, id: LeaseId, assignment: v1::Assignment) {
        let (Some(lease), Some(content)) = (assignment.lease, assignment.content) else { return };
        let mut all = self.held.locked();
        let full = all.len() >= self.options.jobs_max || self.is_draining();
        if full || all.contains_key(&id) || self.ended.locked().contains(&id) {
            return;
        }
        let is_on_vectors = matches!(AnySet::by_name(&content.parameter_set), Some(AnySet::Ckks(_)));
        let (status, withdrawn) = (Arc::default(), CancellationToken::new());
        let trace = JobTrace::begin(&self.observer, &content.traceparent);
        let logged = match &trace {
            Some(trace) => tracing::info_span!("job", trace_id = %trace.context().trace),
            None => tracing::Span::none(),
        };
        let held = Arc::new(Held { lease, is_on_vectors, status, trace, withdrawn });
        all.insert(id.clone(), held.clone());
        drop(all);
        self.changed.notify_one();
        let left = assignment.time_left.and_then(|left| Duration::try_from(left).ok());
        let deadline = left.map(|left| Instant::now() + left);
        let agent = self.clone();
        let work = async move {
            let mut job = pin!(caught(agent.do_job(&held, content, deadline)));
            tokio::select! {
                () = held.withdrawn.cancelled() => {
                    // The server also withdraws a lease whose result it accepted. The answer to
                    // that commit may still be on its way.
                    if held.status.is_in(v1::LeaseStage::Committing) {
                        let _ = tokio::time::timeout(FINAL_EXCHANGE_TIMEOUT, job).await;
                    }
                    return;
                }
                // The lease also ends if handing in the outcome panicked. Otherwise the reports
                // would renew it, and the server would wait until the job counts as stalled.
                _ = &mut job => {}
            }
            agent.end(&id);
        };
        tokio::spawn(work.instrument(logged));
    }

    /// Forgets a job that has ended. No report names its lease any more. If the server does not
    /// know of the end, the lease expires, and the server gives the job to another worker.
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

    /// Why this worker can compute no more. The held jobs then commit nothing. The server gives
    /// them to other workers once this worker is gone.
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

    /// Whether the worker drains and holds no jobs.
    fn is_drained(&self) -> bool {
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
