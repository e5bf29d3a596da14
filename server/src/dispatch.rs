//! One task owns the scheduler and decides everything; whoever wants something from it sends a command.
//!
//! Commands that have queued up are decided together, what they change is committed in one transaction, and only then
//! does anybody hear of it. So the disk is waited for once for many jobs. What somebody relies on from then on is on disk
//! by then; the rest outlives the process, and follows to the disk within 100 ms. Calls that wait for the whole result
//! of a job do not wait for its transactions (`settle.rs`).

mod actor;
mod command;
mod effects;
mod live;
mod record;
mod settle;
mod submit;
mod workers;

use std::sync::Arc;

use bytes::Bytes;
use cloakwork_keystore::Keystore;
use cloakwork_scheduler::{JobId, WorkerId};
use cloakwork_share::FairShare;
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    database,
    error::{ApiError, DRAINING},
    jobs::{Content, JobView},
    limits::Limits,
    metrics::Telemetry,
    store::Store,
};

use command::Command;
pub use command::{Failure, Outcome, WorkerReport};
pub use live::{Leased, Leases, Wish};
pub use submit::Admitted;
pub use workers::PoolView;

/// Commands that may wait for the dispatcher.
const COMMANDS_MAX: usize = 4096;

/// Limits on writes that wait for the dispatcher, of all tenants together and of each tenant. A row is a unit, and so are
/// 16 KiB of its bytes. Calls that only read wait behind these writes.
const UNITS_MAX: u64 = 4096;
const TENANT_UNITS_MAX: u64 = 1024;
const UNIT_BYTES: usize = 16 << 10;

/// Talks to the dispatcher. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Dispatcher {
    commands: mpsc::Sender<Command>,
    store: Store,
    writes: Arc<FairShare<Arc<str>>>,
    pools: watch::Receiver<Arc<Vec<PoolView>>>,
}

/// What the dispatcher works with.
pub struct Parts {
    /// Jobs.
    pub store: Store,
    /// Blobs.
    pub keystore: Keystore,
    /// Limits.
    pub limits: Arc<Limits>,
    /// Metrics.
    pub telemetry: Arc<Telemetry>,
}

/// A job that changes under one's eyes.
pub type Watched = watch::Receiver<JobView>;

impl Dispatcher {
    /// Takes over the jobs of the process before. The future decides everything; it ends when the last handle is gone.
    pub async fn start(parts: Parts) -> Result<(Self, impl Future<Output = ()> + Send + 'static), ApiError> {
        let (commands, received) = mpsc::channel(COMMANDS_MAX);
        let store = parts.store.clone();
        let (actor, pools) = actor::Actor::restore(parts, received).await?;
        Ok((Self { commands, store, writes: FairShare::new(UNITS_MAX, TENANT_UNITS_MAX), pools }, actor.run()))
    }

    /// Stores a job and queues it. The same request again gives the same job.
    ///
    /// Where it is `promised`, it will end in exactly one way, whatever happens: its caller goes away now. Otherwise
    /// the caller waits for its result, and the disk need not be waited for: a crash or a power failure may undo
    /// the job until its result has been handed over, and for a moment after.
    pub async fn submit(&self, job: Admitted, promised: bool) -> Result<Watched, ApiError> {
        let _share = self.writes.take(&job.meta.tenant, units(&job.inputs)).await;
        self.ask(|reply| Command::Submit { job: Box::new(job), promised, reply }).await?
    }

    /// Promises a job; none if it had ended, and then its end is promised.
    pub async fn confirm(&self, tenant: &str, job: JobId) -> Result<Option<Watched>, ApiError> {
        self.ask(|reply| Command::Confirm { tenant: tenant.into(), job, reply }).await?
    }

    /// Ends a job that has not ended; of one that has, only what became of it.
    pub async fn cancel(&self, tenant: &str, job: JobId) -> Result<Option<Watched>, ApiError> {
        self.ask(|reply| Command::Cancel { tenant: tenant.into(), job, reply }).await?
    }

    /// A job that has not ended, or has ended just now.
    pub async fn watch(&self, tenant: &str, job: JobId) -> Result<Option<Watched>, ApiError> {
        self.ask(|reply| Command::Watch { tenant: tenant.into(), job, reply }).await
    }

    /// A job of the tenant: live, or as the store has it.
    pub async fn find(&self, tenant: &str, job: JobId) -> Result<Option<Watched>, ApiError> {
        if let Some(watched) = self.watch(tenant, job).await? {
            return Ok(Some(watched));
        }
        let view = self.store.job(tenant, job, true).await.map_err(database::failed)?;
        Ok(view.map(submit::ended))
    }

    /// Returns when the store holds all that anybody has been told by now, unless it fails.
    pub async fn settled(&self) -> Result<(), ApiError> {
        self.ask(|reply| Command::Settled { reply }).await
    }

    /// A worker opened its stream; the wishes come through what is returned.
    pub async fn attach(&self, report: WorkerReport) -> Result<(watch::Receiver<Wish>, u64), ApiError> {
        self.ask(|reply| Command::Attach { report, reply }).await?
    }

    /// A worker reported on the stream with this number.
    pub async fn report(&self, stream: u64, report: WorkerReport) -> Result<(), ApiError> {
        self.send(Command::Report { stream, report }).await
    }

    /// A worker's stream ended.
    pub async fn detach(&self, worker: WorkerId, stream: u64) -> Result<(), ApiError> {
        self.send(Command::Detach { worker, stream }).await
    }

    /// The job behind a lease, if the worker holds it.
    pub async fn leased(&self, worker: WorkerId, job: JobId, epoch: u64) -> Result<Option<Arc<Leased>>, ApiError> {
        self.ask(|reply| Command::Leased { worker, job, epoch, reply }).await?
    }

    /// A worker hands in how a tenant's job ended. False when the lease is no longer its own.
    pub async fn commit(&self, tenant: &str, outcome: Outcome) -> Result<bool, ApiError> {
        let tenant: Arc<str> = tenant.into();
        let _share = self.writes.take(&tenant, units(outcome.result.as_deref().unwrap_or_default())).await;
        self.ask(|reply| Command::Commit { outcome: Box::new(outcome), reply }).await?
    }

    /// Takes no new jobs from now on.
    pub async fn drain(&self) -> Result<(), ApiError> {
        self.send(Command::Drain).await
    }

    /// Ends the dispatcher. What has been decided is durable; jobs that have not ended go on in the next process. What
    /// the embedded worker has is handed back: it stops with this process, and has not crashed.
    pub async fn stop(&self, embedded: Option<WorkerId>) -> Result<(), ApiError> {
        self.send(Command::Stop { embedded }).await
    }

    /// What workers there are.
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

/// What it takes to write a job with these inputs, or its end with these outputs.
fn units(contents: &[Content]) -> u64 {
    let bytes = contents.iter().filter_map(|content| content.bytes.as_ref()).map(Bytes::len).sum::<usize>();
    (1 + contents.len() + bytes / UNIT_BYTES) as u64
}

fn gone() -> ApiError {
    DRAINING.error("the server is stopping")
}

#[cfg(test)]
mod tests;
