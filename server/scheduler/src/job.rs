//! An unfinished job.

use crate::config::Config;
use crate::queue::{Class, Entry, Rank, Size};
use crate::seat::Seat;
use crate::types::{LeaseReport, NewJob, Stage, SuspectId, Time, WorkerId};

/// An unfinished job and its state.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) spec: NewJob,
    pub(crate) submitted: Time,
    /// Order of arrival.
    pub(crate) sequence: u64,
    pub(crate) attempts: u32,
    pub(crate) epoch: u64,
    pub(crate) suspect: Option<SuspectId>,
    pub(crate) solo_crashes: u32,
    /// Workers that have refused the job as too large, sorted.
    pub(crate) refused_by: Box<[WorkerId]>,
    /// Set while the job is too large for all workers: when the workers may have the job again,
    /// unless a new worker takes it first.
    pub(crate) rests_until: Option<Time>,
    pub(crate) state: State,
    /// Time of the job's entry among the timers. The timer is never later than [`Job::due`]. An
    /// earlier timer is allowed, so that a lease renewal changes no timer until the old time has
    /// come.
    pub(crate) timer: Time,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Queued,
    /// Assigned to a worker. The worker learns of the job once the attempt is durable.
    Recording {
        worker: WorkerId,
    },
    Leased(Lease),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) worker: WorkerId,
    pub(crate) expires: Time,
    /// The worker's latest report of the job. Boxed, because most jobs wait and a waiting job
    /// should be small.
    pub(crate) seen: Option<Box<Seen>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) stage: Stage,
    pub(crate) progress: u64,
    /// The highest number of rows that was reported done.
    pub(crate) rows_done: u64,
    /// When the stage last changed or the progress last grew.
    pub(crate) moved: Time,
    /// How the attempt has computed, once it has begun to.
    pub(crate) shown: Option<Shown>,
}

/// The computation that an attempt has shown so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The highest progress that was reported.
    pub(crate) most: u64,
    /// When the attempt was first reported as computing.
    pub(crate) first: Time,
    /// When its progress last grew.
    pub(crate) last: Time,
}

impl Shown {
    /// The state after a report. Reading inputs, waiting for memory and handing in results are no
    /// evidence about computation. Waits between waves are part of the computation.
    pub(crate) fn after(before: Option<Self>, now: Time, report: &LeaseReport) -> Option<Self> {
        match (before, report.stage) {
            (None, Stage::Computing) => Some(Self { most: report.progress, first: now, last: now }),
            (Some(shown), Stage::Waiting | Stage::Computing) if report.progress > shown.most => {
                Some(Self { most: report.progress, last: now, ..shown })
            }
            (before, _) => before,
        }
    }
}

impl Job {
    /// The job's entry in the queue, with its seat.
    pub(crate) fn entry(&self, seat: Seat, config: &Config) -> Entry {
        Entry {
            class: self.class(),
            tenant: self.spec.group.tenant,
            key: self.spec.group.key,
            size: self.size(config),
            rank: Rank::new(self.spec.priority, self.spec.deadline, self.sequence, seat),
        }
    }

    pub(crate) fn class(&self) -> Class {
        Class { set: self.spec.group.set, refused_by: self.refused_by.clone() }
    }

    pub(crate) fn size(&self, config: &Config) -> Size {
        if self.spec.cost > config.quantum_cost { Size::Long } else { Size::Short }
    }

    /// Cost of the rows that are still to compute, according to the worker.
    pub(crate) fn left(&self) -> u64 {
        let rows = u128::from(self.spec.rows.max(1));
        let done = u128::from(self.seen().map_or(0, |seen| seen.rows_done)).min(rows);
        let cost = u128::from(self.spec.cost);
        // The result is at most the cost, which has 64 bits.
        (cost - cost * done / rows) as u64
    }

    /// How the attempt has computed so far, according to the worker.
    pub(crate) fn shown(&self) -> Option<Shown> {
        self.seen()?.shown
    }

    /// Whether the worker has reported the job.
    pub(crate) fn is_seen(&self) -> bool {
        self.seen().is_some()
    }

    fn seen(&self) -> Option<&Seen> {
        if let State::Leased(lease) = &self.state { lease.seen.as_deref() } else { None }
    }

    /// How long a suspect must compute before it is acquitted. The time is two leases after the
    /// first crash, and doubles with each further attempt that did not end by itself. All inputs of
    /// this rule are stored with the job. A job that crashes late again and again is therefore
    /// still alone at its crash, once it has crashed often enough.
    pub(crate) fn trial(&self, config: &Config) -> u64 {
        let doublings = self.epoch.saturating_sub(u64::from(self.attempts)).saturating_sub(1).clamp(1, 63);
        config.lease_micros.saturating_mul(1 << doublings)
    }

    /// The worker that holds the job or is assigned it.
    pub(crate) fn worker(&self) -> Option<WorkerId> {
        match self.state {
            State::Queued => None,
            State::Recording { worker } | State::Leased(Lease { worker, .. }) => Some(worker),
        }
    }

    /// When the scheduler must act on the job if no event arrives before.
    pub(crate) fn due(&self, config: &Config) -> Time {
        match &self.state {
            State::Queued => self.spec.deadline.min(self.rests_until.unwrap_or(Time::MAX)),
            State::Recording { .. } => self.spec.deadline,
            State::Leased(lease) => self.spec.deadline.min(lease.expires).min(lease.stalls(config)),
        }
    }
}

impl Lease {
    /// When the job will have made no progress for too long.
    pub(crate) fn stalls(&self, config: &Config) -> Time {
        match &self.seen {
            Some(seen) if seen.stage != Stage::Waiting => seen.moved.saturating_add(config.progress_timeout_micros),
            _ => Time::MAX,
        }
    }
}
