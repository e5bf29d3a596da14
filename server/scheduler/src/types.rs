//! Identifiers, and the data that jobs and workers report.

use cloakwork_params::{KeyId, SetId};

/// Microseconds on the server's monotonic clock.
pub type Time = u64;

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u128);

/// A tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u64);

/// A worker process. A restarted worker has a new ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u128);

/// A group of jobs that may include the killer of a worker. The group is retried together, and with
/// no other jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SuspectId(pub u64);

/// The owner, key and set of a job. Jobs of one group may share waves; jobs of different groups
/// share nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// The tenant that owns the jobs.
    pub tenant: TenantId,
    /// The evaluation key of the jobs.
    pub key: KeyId,
    /// The key's parameter set.
    pub set: SetId,
}

/// A job that has been checked and stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// The job's ID.
    pub id: JobId,
    /// The group of jobs that it may share waves with.
    pub group: Group,
    /// Bootstraps times the weight of the set. A cost above [`crate::COST_MAX`] counts as that.
    pub cost: u64,
    /// The total that [`LeaseReport::rows_done`] counts up to.
    pub rows: u64,
    /// Memory that the owner needs while the job is leased.
    pub bytes: u64,
    /// From -10 (last) to 10 (first), among the tenant's own jobs.
    pub priority: i8,
    /// When the scheduler gives up on the job.
    pub deadline: Time,
}

/// A second computation of rows of a job whose result has been accepted. Checks live in memory
/// only, and no tenant's job waits for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCheck {
    /// ID of the check. No job may have the same ID.
    pub id: JobId,
    /// Group of the job that is checked. A check may share waves with jobs of the group.
    pub group: Group,
    /// Cost of the rows that are computed again.
    pub cost: u64,
    /// Class of the workers whose results have the same bits.
    pub class: String,
    /// Workers that have computed these rows already.
    pub excluded: Vec<WorkerId>,
    /// Whether the check may begin beside jobs at once, without waiting for a worker that lacks
    /// work.
    pub urgent: bool,
    /// When the scheduler gives up on the check.
    pub until: Time,
}

/// An unfinished job as the store has it when the server starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoredJob {
    /// The job, with its deadline on the clock of this process.
    pub job: NewJob,
    /// When the job was submitted, or 0 if that was before this clock began. Feed the oldest jobs
    /// first.
    pub submitted: Time,
    /// As in the latest [`crate::Effect::Record`] or [`crate::Effect::Requeued`].
    pub attempts: u32,
    /// As in the latest of those effects; 0 before the first.
    pub epoch: u64,
    /// As in the latest of those effects.
    pub suspect: Option<SuspectId>,
    /// As in the latest of those effects.
    pub solo_crashes: u32,
    /// The worker of the latest effect, if that was a [`crate::Effect::Record`].
    pub holder: Option<WorkerId>,
}

/// A worker's report of its whole state. The report replaces the previous report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Kind of worker, for statistics, such as 'cpu'.
    pub pool: String,
    /// Parameter sets that the worker serves.
    pub sets: Vec<SetId>,
    /// Total cost that the worker wants to hold. The last job handed to it may exceed this cost,
    /// and beside long jobs there is room for others.
    pub wanted_cost: u64,
    /// Attempts that the worker is busy with.
    pub leases: Vec<LeaseReport>,
    /// Keys that the worker has in memory.
    pub resident: Vec<(KeyId, SetId)>,
    /// Whether the worker wants no new jobs.
    pub draining: bool,
    /// Class of the workers whose results have the same bits. Empty if the worker's results are
    /// not reproducible.
    pub class: String,
}

/// An attempt, as its worker reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseReport {
    /// The job.
    pub job: JobId,
    /// The attempt's fencing epoch.
    pub epoch: u64,
    /// The worker's current activity for the job.
    pub stage: Stage,
    /// A counter that grows while the job makes progress.
    pub progress: u64,
    /// Number of rows that are done.
    pub rows_done: u64,
}

/// A worker's current activity for a job. The progress clock stands still while a job is waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The worker reads the job's inputs.
    Fetching,
    /// The worker reads the job's key.
    LoadingKey,
    /// The job waits for its turn, or for memory.
    Waiting,
    /// The worker computes the job.
    Computing,
    /// The worker hands in the results.
    Committing,
}
