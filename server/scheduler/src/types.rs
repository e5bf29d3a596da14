//! Names of things, and what is said about jobs and workers.

use cloakwork_params::{KeyId, SetId};

/// Microseconds on the server's monotonic clock.
pub type Time = u64;

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u128);

/// A tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u64);

/// A worker process. A restarted worker is another worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u128);

/// A group of jobs one of which may have killed its worker. They are retried together, and with nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SuspectId(pub u64);

/// Jobs of one group may share waves; jobs of different groups share nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// Whose jobs they are.
    pub tenant: TenantId,
    /// The evaluation key they run under.
    pub key: KeyId,
    /// Its parameter set.
    pub set: SetId,
}

/// A job that has been checked and stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// Its name.
    pub id: JobId,
    /// What it may share waves with.
    pub group: Group,
    /// Bootstraps times the weight of the set. At most [`crate::COST_MAX`] of it counts.
    pub cost: u64,
    /// What [`LeaseReport::rows_done`] counts up to.
    pub rows: u64,
    /// From -10 (last) to 10 (first), among the tenant's own jobs.
    pub priority: i8,
    /// When to give up on it.
    pub deadline: Time,
}

/// An unfinished job as the store has it when the server starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoredJob {
    /// The job, its deadline on the clock of this process.
    pub job: NewJob,
    /// When it was submitted, or 0 where that was before this clock began. Feed the oldest first.
    pub submitted: Time,
    /// As in the latest [`crate::Effect::Record`] or [`crate::Effect::Requeued`].
    pub attempts: u32,
    /// As in the latest of those effects; 0 before the first.
    pub epoch: u64,
    /// As in the latest of those effects.
    pub suspect: Option<SuspectId>,
    /// As in the latest of those effects.
    pub solo_crashes: u32,
    /// The worker of the latest effect, where that was a [`crate::Effect::Record`].
    pub holder: Option<WorkerId>,
}

/// Everything that a worker has to say; it replaces what it said before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Kind of worker, for statistics: 'cpu', say.
    pub pool: String,
    /// Parameter sets that it serves.
    pub sets: Vec<SetId>,
    /// Cost that it would like to hold in all. The last job handed to it may go beyond, and beside long jobs there is
    /// room for others.
    pub wanted_cost: u64,
    /// Attempts that it is busy with.
    pub leases: Vec<LeaseReport>,
    /// Keys that it has in memory.
    pub resident: Vec<(KeyId, SetId)>,
    /// Wants no new jobs.
    pub draining: bool,
}

/// An attempt as its worker sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseReport {
    /// The job.
    pub job: JobId,
    /// Which attempt at it.
    pub epoch: u64,
    /// What the worker is doing with it.
    pub stage: Stage,
    /// Grows while the job makes progress.
    pub progress: u64,
    /// Rows that are done.
    pub rows_done: u64,
}

/// What a worker is doing with a job. The progress clock stands still while a job is waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reads its inputs.
    Fetching,
    /// Reads its key.
    LoadingKey,
    /// Waits for its turn, or for memory.
    Waiting,
    /// Computes.
    Computing,
    /// Hands in results.
    Committing,
}
