//! Reads the work of jobs from the store, beside the dispatcher's decisions.
//!
//! Work is not in memory while too much of it waits (`WORK_BYTES_MAX`), and after a restart. The
//! dispatcher does not wait for a read. Otherwise a tenant with much waiting work would delay the
//! jobs of all others. A worker gets the lease of a job after the job's work was read.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_keystore::{Keystore, TenantId};
use cloakwork_params::AnySet;
use cloakwork_scheduler::{self as scheduler, Event, JobId, Retry, WorkerId};
use cloakwork_share::FairShare;
use futures_util::FutureExt as _;
use tokio::task::{AbortHandle, JoinSet};

use super::{actor::Actor, live::Work};
use crate::{
    database,
    error::{ApiError, PROGRAM_NOT_FOUND},
    jobs::{JobMeta, id},
    store::Store,
};

/// Reads of work for attempts at jobs.
pub(super) struct Loads {
    store: Store,
    keystore: Keystore,
    /// Tenants take turns.
    turns: Arc<FairShare<Arc<str>>>,
    tasks: JoinSet<Loaded>,
    /// Reads by job and epoch, until the work is handed out or the attempt is over.
    reads: HashMap<(JobId, u64), Read>,
    /// Workers whose assignments are to be made again, because reads for them have ended.
    ready: BTreeSet<WorkerId>,
    /// From when on these assignments may be made.
    hand_out_next: Instant,
}

/// State of a read.
enum Read {
    /// The store has not answered.
    Begun(AbortHandle),
    /// The work waits for the worker's next assignment.
    Done(Arc<Work>),
    /// The store is unavailable, which is not the job's fault. The lease runs out, which leaves the
    /// store time to recover.
    Failed,
}

/// The result of a read.
pub(super) struct Loaded {
    worker: WorkerId,
    job: JobId,
    epoch: u64,
    work: Result<Work, ApiError>,
}

/// Maximum number of jobs whose work is read at a time. The server has few connections of its own,
/// and callers wait for them too.
const LOADS_MAX: u64 = 1;

/// Shortest time between two rounds of assignments with work that was read. An assignment takes
/// time in proportion to all leases of its worker. One for each read would cost the square of their
/// number.
const HAND_OUT_INTERVAL: Duration = Duration::from_millis(10);

impl Loads {
    pub(super) fn new(store: Store, keystore: Keystore) -> Self {
        let turns = FairShare::new(LOADS_MAX, LOADS_MAX);
        Self {
            store,
            keystore,
            turns,
            tasks: JoinSet::new(),
            reads: HashMap::new(),
            ready: BTreeSet::new(),
            hand_out_next: Instant::now(),
        }
    }

    /// Begins a read for an attempt of `worker`, unless there is one. Returns whether the work is
    /// still on its way.
    pub(super) fn begin(&mut self, worker: WorkerId, epoch: u64, meta: &Arc<JobMeta>) -> bool {
        if let Some(read) = self.reads.get(&(meta.id, epoch)) {
            return matches!(read, Read::Begun(_));
        }
        let (store, keystore, of) = (self.store.clone(), self.keystore.clone(), meta.clone());
        self.spawn(worker, epoch, meta, async move { read(&store, &keystore, &of).await });
        true
    }

    /// Begins a read when the tenant's turn has come.
    ///
    /// A panic counts as a failure of the store. A read without a result would keep back the
    /// worker's first assignment.
    fn spawn(
        &mut self,
        worker: WorkerId,
        epoch: u64,
        meta: &JobMeta,
        read: impl Future<Output = Result<Work, ApiError>> + Send + 'static,
    ) {
        let (job, tenant, turns) = (meta.id, meta.tenant.clone(), self.turns.clone());
        let task = self.tasks.spawn(async move {
            let _turn = turns.take(&tenant, 1).await;
            let work = AssertUnwindSafe(read).catch_unwind().await.unwrap_or_else(|_| {
                tracing::error!(job = %id::to_text(job), "reading the work of a job panicked");
                Err(database::unavailable())
            });
            Loaded { worker, job, epoch, work }
        });
        self.reads.insert((job, epoch), Read::Begun(task));
    }

    /// Takes the work for an attempt, if it was read.
    pub(super) fn take(&mut self, job: JobId, epoch: u64) -> Option<Arc<Work>> {
        let attempt = (job, epoch);
        let work = match self.reads.get(&attempt)? {
            Read::Done(work) => work.clone(),
            Read::Begun(_) | Read::Failed => return None,
        };
        self.reads.remove(&attempt);
        Some(work)
    }

    /// Ends the read for an attempt that is over. Otherwise the reads for later attempts would wait
    /// behind it, and their leases could run out each time.
    pub(super) fn forget(&mut self, job: JobId, epoch: u64) {
        if let Some(Read::Begun(task)) = self.reads.remove(&(job, epoch)) {
            task.abort();
        }
    }

    /// Ends all reads, and drops their results. If an attempt were read again, it would take an old
    /// result for its own.
    pub(super) fn forget_all(&mut self) {
        self.tasks = JoinSet::new();
        self.reads.clear();
        self.ready.clear();
    }

    /// Waits for the next result. Reads that were ended have none.
    pub(super) async fn next(&mut self) -> Loaded {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(loaded)) => return loaded,
                Some(Err(_)) => {}
                None => return std::future::pending().await,
            }
        }
    }

    /// A result that has come already.
    pub(super) fn try_next(&mut self) -> Option<Loaded> {
        std::iter::from_fn(|| self.tasks.try_join_next()).find_map(Result::ok)
    }

    /// When the workers of `take_ready` are due.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.ready.is_empty()).then_some(self.hand_out_next)
    }

    /// Takes the workers whose assignments are to be made again, if they are due.
    pub(super) fn take_ready(&mut self, now: Instant) -> BTreeSet<WorkerId> {
        if self.due().is_none_or(|due| due > now) {
            return BTreeSet::new();
        }
        self.hand_out_next = now + HAND_OUT_INTERVAL;
        mem::take(&mut self.ready)
    }
}

impl Actor {
    /// Begins to read the work of those attempts that the worker reports, where the work is not in
    /// memory. Returns whether any of this work is still on its way.
    pub(super) fn load_reported(&mut self, worker: WorkerId, attempts: &[(JobId, u64)]) -> bool {
        let reported = self.workers.reported(worker);
        let mut loading = false;
        for (job, epoch) in attempts.iter().filter(|attempt| reported.contains(attempt)) {
            if let Some(live) = self.jobs.get(job).filter(|live| live.work.is_none()) {
                loading |= self.loads.begin(worker, *epoch, &live.meta);
            }
        }
        loading
    }

    /// Takes the result of a read. The next assignment hands out the lease. If a part of the work
    /// is gone, the job ends.
    pub(super) fn loaded(&mut self, loaded: Loaded) {
        let Loaded { worker, job, epoch, work } = loaded;
        let read = self.loads.reads.get_mut(&(job, epoch)).filter(|read| matches!(read, Read::Begun(_)));
        // The attempt may be over meanwhile.
        let Some(read) = read else { return };
        self.loads.ready.insert(worker);
        match work {
            Ok(work) => *read = Read::Done(Arc::new(work)),
            Err(error) => {
                tracing::warn!(%error, job = %id::to_text(job), "a job cannot be handed out");
                *read = Read::Failed;
                if error.reason().grpc != tonic::Code::Unavailable {
                    let reason = error.reason().code.into();
                    let outcome = scheduler::Outcome::Failed { retry: Retry::Never, reason };
                    self.step(Event::Committed { worker, job, epoch, outcome });
                }
            }
        }
    }
}

/// Reads the program, inputs and key parts of a job.
async fn read(store: &Store, keystore: &Keystore, meta: &JobMeta) -> Result<Work, ApiError> {
    let inputs = store.inputs(meta.id).await.map_err(database::failed)?;
    let program = store.program(&meta.tenant, meta.program).await.map_err(database::failed)?;
    let program = program.ok_or_else(|| PROGRAM_NOT_FOUND.error("the job's program is gone"))?;
    // The key may have been deleted after the job was accepted. A purge has not happened: the job
    // protects the key.
    let (key_parts, companion_parts) = match meta.set {
        AnySet::Tfhe(set) => {
            let key = keystore.key(&TenantId::new(&meta.tenant)?, meta.key_id).await?;
            (key.parts_for(set)?, key.companion_parts_for(set))
        }
        AnySet::Ckks(_) => (store.key_parts(meta.id).await.map_err(database::failed)?, Vec::new()),
    };
    Ok(Work { program, inputs: inputs.into(), key_parts, companion_parts })
}

#[cfg(test)]
mod tests;
