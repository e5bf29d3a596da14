//! What goes into the scheduler and what comes out of it.

use std::borrow::Cow;

use crate::types::{Group, JobId, NewJob, Report, RestoredJob, SuspectId, WorkerId};

/// A stable code that says why a job has failed, as in `docs/errors`.
pub type Reason = Cow<'static, str>;

/// Reasons that come from the scheduler itself.
pub mod reasons {
    /// Attempts were lost too often: leases ran out, or the job stood still.
    pub const ATTEMPTS_EXHAUSTED: &str = "ATTEMPTS_EXHAUSTED";
    /// The job crashed its worker, alone, as often as that is allowed.
    pub const POISON: &str = "POISON";
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A job was checked and admitted, and is being stored. A job that is already known is left as it is.
    Submitted(NewJob),
    /// At start-up: the store has this job. Nothing is handed out until [`Event::Recovered`].
    Restored(RestoredJob),
    /// All of the store's jobs have been fed.
    Recovered {
        /// Workers that are known to have died with the server; what they held are suspects.
        dead: Vec<WorkerId>,
    },
    /// The job's tenant no longer wants it.
    CancelRequested {
        /// Which job.
        job: JobId,
    },
    /// A worker has sent its state.
    Reported {
        /// Which worker.
        worker: WorkerId,
        /// Its state.
        report: Report,
    },
    /// A worker has left.
    WorkerGone {
        /// Which worker.
        worker: WorkerId,
        /// Whether it may have been killed by what it computed. A worker that drained and said goodbye was not.
        crashed: bool,
    },
    /// An attempt is durable.
    Recorded {
        /// Which job.
        job: JobId,
        /// Which attempt at it.
        epoch: u64,
    },
    /// A worker has handed in how an attempt ended. Answered by [`Effect::Accept`] or [`Effect::Refuse`].
    Committed {
        /// Who says so.
        worker: WorkerId,
        /// Which job.
        job: JobId,
        /// Which attempt at it.
        epoch: u64,
        /// How it ended.
        outcome: Outcome,
    },
    /// Time has passed. Send one when [`crate::Scheduler::next_timer`] has come.
    Tick,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There are results.
    Succeeded,
    /// There are none.
    Failed {
        /// Would another attempt have a chance?
        retry: Retry,
        /// Why.
        reason: Reason,
    },
}

/// Whether another attempt would have a chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The job itself is at fault.
    Never,
    /// What was wrong may pass.
    Anywhere,
    /// The job is too large for this worker. It is not given to it again while there is one that has not said so.
    Elsewhere,
}

/// Something to make durable or to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make durable that this attempt is about to begin, then feed [`Event::Recorded`].
    Record(Attempt),
    /// Everything that the worker shall hold. Sent whenever it changes, and to a worker that holds something else.
    Assign {
        /// To whom.
        worker: WorkerId,
        /// Job and epoch of each lease.
        leases: Vec<(JobId, u64)>,
    },
    /// The job is back in the queue. Make it durable with what else happens; nothing waits for it.
    Requeued {
        /// Which job.
        job: JobId,
        /// Failed and lost attempts so far.
        attempts: u32,
        /// The attempt that is over.
        epoch: u64,
        /// The group of suspects that it belongs to.
        suspect: Option<SuspectId>,
        /// Workers that it crashed alone.
        solo_crashes: u32,
        /// What ended the attempt.
        why: Why,
    },
    /// The commit counts.
    Accept {
        /// Which job.
        job: JobId,
        /// Which attempt at it.
        epoch: u64,
    },
    /// The commit came from a lease that is lost, or never was: throw its results away.
    Refuse {
        /// Which job.
        job: JobId,
        /// Which attempt at it, as claimed.
        epoch: u64,
    },
    /// The job has ended. Comes once for each job; nothing else about the job follows.
    Finished {
        /// Which job.
        job: JobId,
        /// How.
        end: End,
    },
}

/// An attempt at a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The job.
    pub job: JobId,
    /// Its group.
    pub group: Group,
    /// Number of the attempt, counted from 1. It fences: only the latest may commit.
    pub epoch: u64,
    /// Who shall make it.
    pub worker: WorkerId,
    /// Failed and lost attempts before.
    pub attempts: u32,
    /// The group of suspects that the job belongs to. The worker holds nothing else while it does.
    pub suspect: Option<SuspectId>,
    /// Workers that the job has crashed alone.
    pub solo_crashes: u32,
}

/// What ended an attempt without ending the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The worker handed in a failure that may pass.
    Failed,
    /// The worker did not report the job, or not at all, for too long. It counts as an attempt if it ever had.
    LeaseExpired,
    /// The job stood still for too long.
    NoProgress,
    /// The worker left before the attempt was durable.
    NotStarted,
    /// The worker crashed.
    WorkerCrashed,
    /// The worker left in good order.
    WorkerLeft,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With results.
    Succeeded,
    /// Without.
    Failed(Reason),
    /// By request.
    Cancelled,
    /// Too late.
    DeadlineExceeded,
}
