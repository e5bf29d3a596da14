//! The dispatcher is one task that owns the scheduler and makes every decision about jobs. All
//! other code sends it commands.
//!
//! The dispatcher decides all waiting commands as a batch and commits their changes in one
//! transaction (group commit). The dispatcher answers callers and workers only after the commit.
//! Meanwhile, the dispatcher decides further commands. One wait for the disk therefore serves many
//! jobs. Everything that a caller may rely on is on disk before the answer. The remaining writes
//! survive a crash of the process and reach the disk within 100 ms. Calls that wait for the whole
//! result of a job do not wait for its transactions (`settle.rs`).

mod actor;
mod audit;
mod backlog;
mod checks;
mod command;
mod decided;
mod effects;
mod lease_calls;
mod live;
mod loads;
mod operate;
mod placement;
mod pools;
mod record;
mod recover;
mod settle;
mod spans;
mod submit;
mod workers;

use std::sync::Arc;

use bytes::Bytes;
use cloakwork_clock::Clock;
use cloakwork_keystore::Keystore;
use cloakwork_scheduler::{JobId, WorkerId};
use cloakwork_share::FairShare;
use cloakwork_storage::Asker;
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    database,
    error::{ApiError, DRAINING},
    jobs::{Content, JobView},
    limits::Limits,
    metrics::Telemetry,
    store::Store,
    tenant_limits::TenantLimits,
};

pub use backlog::Backlogs;
pub use checks::{CheckedRows, Sample, export_zeros};
use command::{Command, Submitted};
pub use command::{Failure, Outcome, WavePoint, WorkerReport};
pub use lease_calls::{Announced, LeaseCalls, LeaseRead, Turn};
pub use live::{Leased, Leases, Wish};
pub use operate::{PoolSnapshot, Snapshot, WorkerSnapshot};
pub use placement::{Neighbours, Seat};
pub use pools::PoolView;
pub use submit::Admitted;

/// Maximum number of commands that wait for the dispatcher.
const COMMANDS_MAX: usize = 4096;

/// Limits on writes that wait for the dispatcher, of all tenants together and of each tenant. A row
/// counts as one unit, and so do 16 KiB of its bytes. Calls that only read wait behind these
/// writes.
const UNITS_MAX: u64 = 4096;
const TENANT_UNITS_MAX: u64 = 1024;
const UNIT_BYTES: usize = 16 << 10;

/// Maximum number of workers' reports that wait for the dispatcher, first reports included. Further
/// reports wait in line, one line for each worker. Calls of tenants wait behind the reports before
/// them, and a long report takes the dispatcher a millisecond.
const REPORTS_MAX: u64 = 16;

/// A handle that sends commands to the dispatcher. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Dispatcher {
    commands: mpsc::Sender<Command>,
    store: Store,
    writes: Arc<FairShare<Arc<str>>>,
    reports: Arc<FairShare<WorkerId>>,
    pools: watch::Receiver<Arc<Vec<PoolView>>>,
}

/// The components that the dispatcher works with.
pub struct Parts {
    /// Jobs.
    pub store: Store,
    /// Blobs.
    pub keystore: Keystore,
    /// Source of the current time.
    pub clock: Clock,
    /// Limits.
    pub limits: Arc<Limits>,
    /// Limits that tenants have of their own.
    pub tenant_limits: TenantLimits,
    /// Metrics.
    pub telemetry: Arc<Telemetry>,
    /// The declared pools.
    pub backlogs: Backlogs,
    /// The owners of the other shards.
    pub neighbours: Neighbours,
}

/// A watch on a job: it yields the job's current view and each later change.
pub type Watched = watch::Receiver<JobView>;

impl Dispatcher {
    /// Loads the unfinished jobs of the previous process. The returned future runs the dispatcher
    /// and ends when the last handle is dropped.
    pub async fn start(parts: Parts) -> Result<(Self, impl Future<Output = ()> + Send + 'static), ApiError> {
        let (commands, received) = mpsc::channel(COMMANDS_MAX);
        let store = parts.store.clone();
        let parts = Parts {
            store: parts.store.always_as(Asker::Server),
            keystore: parts.keystore.always_as(Asker::Server),
            ..parts
        };
        let (actor, pools) = actor::Actor::restore(parts, received).await?;
        let (writes, reports) = (FairShare::new(UNITS_MAX, TENANT_UNITS_MAX), FairShare::new(REPORTS_MAX, 1));
        Ok((Self { commands, store, writes, reports, pools }, actor.run()))
    }

    /// Stores a job and queues it. A repeated request returns the job of the first request.
    ///
    /// A `promised` job ends in exactly one way, also after a crash, because its caller may
    /// disconnect now. A job that is not promised has a caller that waits for its result, so the
    /// answer does not wait for the store. A crash or a power failure may then undo the job until
    /// shortly after its result has been handed over. If the store refuses the job, the watch
    /// closes without a final state of the job.
    pub async fn submit(&self, job: Admitted, promised: bool) -> Result<Watched, ApiError> {
        let tenant = job.meta.tenant.clone();
        let share = self.writes.take(&tenant, units(&job.inputs)).await;
        match self.ask(|reply| Command::Submit { job: Box::new(job), promised, share, reply }).await?? {
            Submitted::Live(watched) => Ok(watched),
            Submitted::Ended(job) => self.find(&tenant, job).await?.ok_or_else(database::unavailable),
        }
    }

    /// Promises a job. Returns `None` if the job has ended, once that end is durable.
    pub async fn confirm(&self, tenant: &str, job: JobId) -> Result<Option<Watched>, ApiError> {
        self.ask(|reply| Command::Confirm { tenant: tenant.into(), job, reply }).await?
    }

    /// Cancels an unfinished job, and leaves an ended job unchanged. Returns `None` if only the
    /// store has the job.
    pub async fn cancel(&self, tenant: &str, job: JobId) -> Result<Option<Watched>, ApiError> {
        self.ask(|reply| Command::Cancel { tenant: tenant.into(), job, reply }).await?
    }

    /// A watch on a job that is unfinished or has just ended.
    pub async fn watch(&self, tenant: &str, job: JobId) -> Result<Option<Watched>, ApiError> {
        self.ask(|reply| Command::Watch { tenant: tenant.into(), job, reply }).await
    }

    /// A watch on a job of the tenant, whether the job is live or only in the store.
    pub async fn find(&self, tenant: &str, job: JobId) -> Result<Option<Watched>, ApiError> {
        if let Some(watched) = self.watch(tenant, job).await? {
            return Ok(Some(watched));
        }
        let view = self.store.job(tenant, job, true).await.map_err(database::failed)?;
        Ok(view.map(submit::ended))
    }

    /// Returns once the store holds every change that any caller has learned of so far, or when the
    /// store fails.
    pub async fn settled(&self) -> Result<(), ApiError> {
        self.ask(|reply| Command::Settled { reply }).await
    }

    /// Fails for a worker that is quarantined.
    pub async fn refuse_quarantined(&self, worker: WorkerId) -> Result<(), ApiError> {
        self.ask(|reply| Command::RefuseQuarantined { worker, reply }).await?
    }

    /// Registers the stream that a worker opened. The returned receiver yields the leases that the
    /// worker is to hold. The receiver closes when the worker is quarantined, or
    /// moves to another shard.
    pub async fn attach(
        &self,
        report: Arc<WorkerReport>,
        seat: Seat,
    ) -> Result<(watch::Receiver<Wish>, u64), ApiError> {
        let turn = self.reports.take(&report.worker, 1).await;
        self.ask(|reply| Command::Attach { report, seat, turn, reply }).await?
    }

    /// Passes on a worker's report from the stream with this number. Returns once the dispatcher
    /// has taken the report, so that a stream has only one report in line.
    pub async fn report(&self, stream: u64, report: Arc<WorkerReport>) -> Result<(), ApiError> {
        let turn = self.reports.take(&report.worker, 1).await;
        self.ask(|reply| Command::Report { stream, report, turn, reply }).await
    }

    /// Records that a worker's stream ended.
    pub async fn detach(&self, worker: WorkerId, stream: u64) -> Result<(), ApiError> {
        self.send(Command::Detach { worker, stream }).await
    }

    /// The job behind a lease, if the worker holds the lease.
    pub async fn leased(&self, worker: WorkerId, job: JobId, epoch: u64) -> Result<Option<Arc<Leased>>, ApiError> {
        self.ask(|reply| Command::Leased { worker, job, epoch, reply }).await?
    }

    /// Hands in a worker's outcome of a tenant's job. Returns false when the worker no longer holds
    /// the lease.
    pub async fn commit(&self, tenant: &str, outcome: Outcome) -> Result<bool, ApiError> {
        let tenant: Arc<str> = tenant.into();
        let share = self.writes.take(&tenant, units(outcome.result.as_deref().unwrap_or_default())).await;
        self.ask(|reply| Command::Commit { outcome: Box::new(outcome), share, reply }).await?
    }

    /// A snapshot for operators. Takes time in proportion to the workers and their resident keys.
    pub async fn snapshot(&self) -> Result<Snapshot, ApiError> {
        self.ask(|reply| Command::Snapshot { reply }).await
    }

    /// Gives a worker no further jobs, or gives it jobs again. Returns false if the worker is not
    /// attached.
    pub async fn set_drained(&self, worker: WorkerId, is_drained: bool) -> Result<bool, ApiError> {
        self.ask(|reply| Command::SetDrained { worker, is_drained, reply }).await
    }

    /// Refuses new jobs from now on.
    pub async fn drain(&self) -> Result<(), ApiError> {
        self.send(Command::Drain).await
    }

    /// Stops the dispatcher. Decisions made so far become durable, and unfinished jobs continue in
    /// the next process. The leases of the embedded worker go back to the queue: the worker stops
    /// with this process, so it has not crashed.
    pub async fn stop(&self, embedded: Option<WorkerId>) -> Result<(), ApiError> {
        self.send(Command::Stop { embedded }).await
    }

    /// The attached workers, by kind.
    pub fn pools(&self) -> Arc<Vec<PoolView>> {
        self.pools.borrow().clone()
    }

    async fn ask<A>(&self, command: impl FnOnce(oneshot::Sender<A>) -> Command) -> Result<A, ApiError> {
        let (reply, answer) = oneshot::channel();
        self.send(command(reply)).await?;
        answer.await.map_err(|_| gone())
    }

    async fn send(&self, command: Command) -> Result<(), ApiError> {
        self.commands.send(command).await.map_err(|_| gone())
    }
}

/// The number of units that a write takes for a job with these inputs, or for an end with these
/// outputs.
fn units(contents: &[Content]) -> u64 {
    let bytes = contents.iter().filter_map(|content| content.bytes.as_ref()).map(Bytes::len).sum::<usize>();
    (1 + contents.len() + bytes / UNIT_BYTES) as u64
}

fn gone() -> ApiError {
    DRAINING.error("the server is stopping")
}

#[cfg(test)]
mod tests;
