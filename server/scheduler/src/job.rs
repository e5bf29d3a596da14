//! An unfinished job.

use crate::config::Config;
use crate::queue::{Class, Entry, Rank, Size};
use crate::seat::Seat;
use crate::types::{LeaseReport, NewJob, Stage, SuspectId, Time, WorkerId};

/// An unfinished job and where it is.
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
    /// Workers that it is too large for, in order.
    pub(crate) refused_by: Box<[WorkerId]>,
    /// When they may have it again, if no other takes it before: it is too large for all that there are.
    pub(crate) rests_until: Option<Time>,
    pub(crate) state: State,
    /// Time of the job's entry among the timers: never later than [`Job::due`], but it may be earlier, so that a
    /// renewed lease costs nothing until the old time has come.
    pub(crate) timer: Time,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Queued,
    /// Promised to a worker that will hear of it once the attempt is durable.
    Recording {
        worker: WorkerId,
    },
    Leased(Lease),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) worker: WorkerId,
    pub(crate) expires: Time,
    /// What the worker has said of it. Apart, as a job that waits is to be small.
    pub(crate) seen: Option<Box<Seen>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) stage: Stage,
    pub(crate) progress: u64,
    /// The most that it has said.
    pub(crate) rows_done: u64,
    /// When stage or progress last moved.
    pub(crate) moved: Time,
    /// How it has computed, once it has.
    pub(crate) shown: Option<Shown>,
}

/// How an attempt has computed so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The most progress that was reported.
    pub(crate) most: u64,
    /// When it first was seen computing.
    pub(crate) first: Time,
    /// When its progress last grew.
    pub(crate) last: Time,
}

impl Shown {
    /// What is known after a report. Reading inputs, waiting for memory and handing in results say nothing of what
    /// computing does; waits between waves are part of it.
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
    /// Its entry in the queue, with its seat.
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
        if self.spec.cost > config.quantum { Size::Long } else { Size::Short }
    }

    /// Cost of the rows that are still to do, by what the worker says.
    pub(crate) fn left(&self) -> u64 {
        let rows = u128::from(self.spec.rows.max(1));
        let done = u128::from(self.seen().map_or(0, |seen| seen.rows_done)).min(rows);
        let cost = u128::from(self.spec.cost);
        // At most the cost, which is 64 bits.
        (cost - cost * done / rows) as u64
    }

    /// How its attempt has computed so far, by what the worker says.
    pub(crate) fn shown(&self) -> Option<Shown> {
        self.seen()?.shown
    }

    /// Whether its worker has said that it has the job.
    pub(crate) fn is_seen(&self) -> bool {
        self.seen().is_some()
    }

    fn seen(&self) -> Option<&Seen> {
        if let State::Leased(lease) = &self.state { lease.seen.as_deref() } else { None }
    }

    /// How long a suspect must compute before it is no longer kept alone: two leases after its first crash, and twice as
    /// long with each further attempt that did not end by itself. All that goes into it is stored with the job. So one
    /// that crashes late again and again is alone when it does, once it has crashed often enough.
    pub(crate) fn trial(&self, config: &Config) -> u64 {
        let doublings = self.epoch.saturating_sub(u64::from(self.attempts)).saturating_sub(1).clamp(1, 63);
        config.lease.saturating_mul(1 << doublings)
    }

    /// The worker that has the job or has been promised it.
    pub(crate) fn worker(&self) -> Option<WorkerId> {
        match self.state {
            State::Queued => None,
            State::Recording { worker } | State::Leased(Lease { worker, .. }) => Some(worker),
        }
    }

    /// When something must be done about the job if nothing happens before.
    pub(crate) fn due(&self, config: &Config) -> Time {
        match &self.state {
            State::Queued => self.spec.deadline.min(self.rests_until.unwrap_or(Time::MAX)),
            State::Recording { .. } => self.spec.deadline,
            State::Leased(lease) => self.spec.deadline.min(lease.expires).min(lease.stalls(config)),
        }
    }
}

impl Lease {
    /// When the job will have stood still for too long.
    pub(crate) fn stalls(&self, config: &Config) -> Time {
        match &self.seen {
            Some(seen) if seen.stage != Stage::Waiting => seen.moved.saturating_add(config.progress_timeout),
            _ => Time::MAX,
        }
    }
}
