//! The scheduler's input events and output effects.

use std::borrow::Cow;

use crate::types::{Group, JobId, NewCheck, NewJob, Report, RestoredJob, SuspectId, WorkerId};

/// A stable code for the cause of a job's failure, as in `docs/errors`.
pub type Reason = Cow<'static, str>;

/// Reasons that the scheduler itself gives.
pub mod reasons {
    /// Too many attempts were lost: leases expired, or the job made no progress.
    pub const ATTEMPTS_EXHAUSTED: &str = "ATTEMPTS_EXHAUSTED";
    /// The job crashed its worker, while it ran alone, as often as the limit allows.
    pub const POISON: &str = "POISON";
}

/// An input of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A job was checked and admitted, and is being stored. The event is ignored if the job is
    /// already known.
    Submitted(NewJob),
    /// At start-up: the store has this job. The scheduler hands out nothing until
    /// [`Event::Recovered`].
    Restored(RestoredJob),
    /// All jobs of the store have been fed.
    Recovered {
        /// Workers that certainly died with the server. The jobs that they held are suspects.
        dead: Vec<WorkerId>,
    },
    /// The job's tenant asked to cancel it.
    CancelRequested {
        /// The job.
        job: JobId,
    },
    /// A worker has sent its state.
    Reported {
        /// The worker.
        worker: WorkerId,
        /// Its state.
        report: Report,
    },
    /// A worker has left.
    WorkerGone {
        /// The worker.
        worker: WorkerId,
        /// Whether the worker's jobs may have killed it. False for a worker that left in order,
        /// was stopped together with the server, or was quarantined.
        crashed: bool,
    },
    /// Rows of an ended job are to be computed again. The last effect about a check is
    /// [`Effect::CheckEnded`].
    CheckSubmitted(NewCheck),
    /// A worker's results were found wrong. The worker gets no work any more, as long as it is
    /// among the latest `quarantined_max` of them.
    Quarantined {
        /// The worker.
        worker: WorkerId,
    },
    /// An attempt is durable.
    Recorded {
        /// The job.
        job: JobId,
        /// The attempt's fencing epoch.
        epoch: u64,
    },
    /// A worker has handed in the outcome of an attempt. The answer is [`Effect::Accept`] or
    /// [`Effect::Refuse`].
    Committed {
        /// The worker that hands in the outcome.
        worker: WorkerId,
        /// The job.
        job: JobId,
        /// The attempt's fencing epoch.
        epoch: u64,
        /// The attempt's outcome.
        outcome: Outcome,
    },
    /// Time has passed. The owner sends a tick at [`crate::Scheduler::next_timer`].
    Tick,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The attempt has results.
    Succeeded,
    /// The attempt has no results.
    Failed {
        /// Whether another attempt may succeed.
        retry: Retry,
        /// The cause of the failure.
        reason: Reason,
    },
}

/// Whether another attempt at the job may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The job itself is at fault.
    Never,
    /// The cause of the failure may pass, so any worker may retry the job.
    Anywhere,
    /// The cause lies with this worker, for example because the job is too large for it. The worker
    /// does not get the job again while some worker has not refused it.
    Elsewhere,
}

/// An output of the scheduler: a change to make durable, or an action to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make the start of this attempt durable, then feed [`Event::Recorded`].
    Record(Attempt),
    /// Every lease that the worker is to hold. Sent whenever the leases change, and to a worker
    /// that reports other leases.
    Assign {
        /// The worker.
        worker: WorkerId,
        /// Job and epoch of each lease.
        leases: Vec<(JobId, u64)>,
    },
    /// The job is back in the queue. Make the change durable with the other changes; nothing waits
    /// for it.
    Requeued {
        /// The job.
        job: JobId,
        /// Number of failed and lost attempts so far.
        attempts: u32,
        /// Fencing epoch of the attempt that is over.
        epoch: u64,
        /// The job's group of suspects, if it is a suspect.
        suspect: Option<SuspectId>,
        /// Number of workers that the job crashed while it ran alone.
        solo_crashes: u32,
        /// The cause that ended the attempt.
        why: Why,
    },
    /// The handed-in outcome counts.
    Accept {
        /// The job.
        job: JobId,
        /// The attempt's fencing epoch.
        epoch: u64,
    },
    /// The outcome came from a lease that was lost or never existed. Discard its results.
    Refuse {
        /// The job.
        job: JobId,
        /// The attempt's fencing epoch, as the worker claims.
        epoch: u64,
    },
    /// A check has ended. Sent once for each check, as the last effect about it.
    CheckEnded {
        /// The check.
        check: JobId,
        /// How the check ended.
        end: CheckEnd,
    },
    /// The job has ended. Sent once for each job, as the last effect about it.
    Finished {
        /// The job.
        job: JobId,
        /// How the job ended.
        end: End,
    },
}

/// An attempt at a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The job.
    pub job: JobId,
    /// The job's group.
    pub group: Group,
    /// Number of the attempt, counted from 1. The number is a fencing epoch: only the latest
    /// attempt may commit.
    pub epoch: u64,
    /// The worker that is to make the attempt.
    pub worker: WorkerId,
    /// Number of failed and lost attempts before this one.
    pub attempts: u32,
    /// The job's group of suspects, if it is a suspect. The worker of a suspect holds only jobs of
    /// that group.
    pub suspect: Option<SuspectId>,
    /// Number of workers that the job has crashed while it ran alone.
    pub solo_crashes: u32,
}

/// The cause that ended an attempt without ending the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The worker handed in a failure that may pass.
    Failed,
    /// The worker did not report the job, or did not report at all, for too long. The loss counts
    /// as an attempt if the worker had ever reported the job.
    LeaseExpired,
    /// The job made no progress for too long.
    NoProgress,
    /// The attempt ended before it began. Its worker left before the attempt was durable, or the
    /// job never computed in a trial.
    NotStarted,
    /// The worker crashed.
    WorkerCrashed,
    /// The worker left without a crash.
    WorkerLeft,
    /// The worker's results were found wrong.
    Quarantined,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckEnd {
    /// The worker has handed in the rows, with the commit that was accepted just before.
    Computed {
        /// The worker.
        worker: WorkerId,
    },
    /// The worker has handed in a failure.
    Failed {
        /// The worker.
        worker: WorkerId,
    },
    /// No attached worker may compute the check.
    NoWorker,
    /// Too many checks are waiting.
    Crowded,
    /// The worker crashed, left or fell silent. The rows of the check may have crashed it.
    WorkerLost {
        /// The worker.
        worker: WorkerId,
    },
    /// The check did not end in time.
    Expired,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The job has results.
    Succeeded,
    /// The job has no results.
    Failed(Reason),
    /// The tenant cancelled the job.
    Cancelled,
    /// The job did not end before its deadline.
    DeadlineExceeded,
}
