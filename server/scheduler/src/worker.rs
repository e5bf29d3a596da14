//! An attached worker, and what it has room for.
//!
//! A worker says how much work it wants to hold, and gets whatever comes next until what is left of its jobs is that
//! much. One job of ten million bootstraps is more than that for hours, and a worker mixes jobs in its waves. So while
//! its *long* jobs, those of more than a turn's cost, are all that it wants, it has room for others beside them:
//!
//! - *short* ones, until what is left of those is as much again. They end soon, so that no long job keeps anybody's short
//!   ones waiting;
//! - a long one of each tenant that has none here, while fewer than [`LONG_MAX`] tenants have one. A tenant with a hundred
//!   long jobs fills no worker that way, and one with its first does not wait for the end of somebody else's. One that is
//!   more than all that the worker wants must have waited for a lease's time first: it may run for hours, and an empty
//!   worker that is about to report is a better place for it.
//!
//! At all other times whose turn it is decides alone, as the room that short jobs leave is never far.

use std::collections::{BTreeMap, BTreeSet};

use cloakwork_params::{KeyId, SetId};

use crate::config::Config;
use crate::job::Job;
use crate::queue::Size;
use crate::seat::Seat;
use crate::types::{Group, JobId, TenantId, Time};

/// Tenants whose long jobs a worker takes beyond what it wants.
pub(crate) const LONG_MAX: usize = 8;

/// What is known of a worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Worker {
    pub(crate) pool: String,
    pub(crate) sets: BTreeSet<SetId>,
    pub(crate) wanted: u64,
    pub(crate) draining: bool,
    pub(crate) resident: BTreeSet<(KeyId, SetId)>,
    /// The jobs that it holds or was promised.
    pub(crate) holds: BTreeMap<JobId, Hold>,
    /// Cost of what is left of them.
    pub(crate) held_cost: u64,
    /// Cost of what is left of the short ones.
    pub(crate) held_short: u64,
    /// How many long ones each tenant has.
    pub(crate) long: BTreeMap<TenantId, usize>,
    /// How many of them are of each group.
    pub(crate) groups: BTreeMap<Group, usize>,
    pub(crate) mode: Mode,
    pub(crate) turn: Turn,
    /// When it is given up unless it reports.
    pub(crate) silent_at: Time,
    /// Time of its entry among the timers, never later.
    pub(crate) timer: Time,
    /// Whether its latest report listed no lease, and nothing was promised to it since. Only then it is sure that no
    /// withdrawn job still runs there.
    pub(crate) idle: bool,
    /// Since when every report has listed leases that were taken away.
    pub(crate) clinging_since: Option<Time>,
}

/// A job on a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) seat: Seat,
    pub(crate) epoch: u64,
    /// Whether the attempt is durable, and the job in the worker's assignment.
    pub(crate) recorded: bool,
    /// Cost of what is left of the job.
    pub(crate) left: u64,
}

/// What a worker may be given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Shared,
    /// Nothing more until it is empty: the next are suspects.
    Reserved,
    /// Holds suspects, and nothing else beside them.
    Exclusive,
}

/// Whose turn it is on a worker where both suspects and other jobs wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Turn {
    #[default]
    Suspects,
    Others,
}

impl Worker {
    /// Whether it would take a job of the set, now or once it has room.
    pub(crate) fn would_take(&self, set: SetId) -> bool {
        !self.draining && self.wanted > 0 && self.sets.contains(&set)
    }

    /// Whether it wants jobs at all, and lets go of those that were taken away: one that does not has its hands full
    /// with them, whatever it says.
    pub(crate) fn is_willing(&self, now: Time, config: &Config) -> bool {
        let clings = self.clinging_since.is_some_and(|since| now.saturating_sub(since) >= config.lease);
        !self.draining && self.wanted > 0 && !clings
    }

    /// Whether it may have more jobs of some kind.
    pub(crate) fn is_open(&self, now: Time, config: &Config) -> bool {
        self.is_willing(now, config) && self.mode != Mode::Exclusive && self.holds.len() < config.leases_per_worker_max
    }

    /// Whether it has less than it wants.
    pub(crate) fn wants_any(&self) -> bool {
        self.held_cost < self.wanted
    }

    /// Whether short jobs may come beside its long ones.
    pub(crate) fn wants_short(&self) -> bool {
        self.is_taken_up() && self.held_short < self.wanted
    }

    /// Whether other tenants' long jobs may.
    pub(crate) fn wants_long(&self) -> bool {
        self.is_taken_up() && self.long.len() < LONG_MAX
    }

    /// Whether a long job may come beside those that it has.
    pub(crate) fn fits_beside(&self, now: Time, job: &Job, config: &Config) -> bool {
        job.spec.cost <= self.wanted || now.saturating_sub(job.submitted) >= config.lease
    }

    /// Whether its long jobs are all that it wants: it will have no other room soon.
    pub(crate) fn is_taken_up(&self) -> bool {
        self.held_cost - self.held_short >= self.wanted
    }

    /// Whether a job of the group needs no key loaded here.
    pub(crate) fn is_near(&self, group: &Group) -> bool {
        self.groups.contains_key(group) || self.resident.contains(&(group.key, group.set))
    }

    /// Thousandths of what it wants that it holds.
    pub(crate) fn load(&self) -> u64 {
        self.held_cost.saturating_mul(1000) / self.wanted.max(1)
    }

    pub(crate) fn hold(&mut self, seat: Seat, job: &Job, recorded: bool, config: &Config) {
        let (group, left) = (job.spec.group, job.spec.cost);
        let before = self.holds.insert(job.spec.id, Hold { seat, epoch: job.epoch, recorded, left });
        debug_assert!(before.is_none(), "a worker holds a job once");
        self.held_cost += left;
        match job.size(config) {
            Size::Short => self.held_short += left,
            Size::Long => *self.long.entry(group.tenant).or_default() += 1,
        }
        *self.groups.entry(group).or_default() += 1;
        self.idle = false;
    }

    /// So much of a job is left.
    pub(crate) fn credit(&mut self, job: &Job, config: &Config) {
        let Some(hold) = self.holds.get_mut(&job.spec.id) else { return };
        let left = job.left();
        debug_assert!(left <= hold.left, "what is done stays done");
        let done = hold.left - left;
        hold.left = left;
        self.held_cost -= done;
        if job.size(config) == Size::Short {
            self.held_short -= done;
        }
    }

    /// Takes a job off. Says whether it was in the assignment.
    pub(crate) fn release(&mut self, job: &Job, config: &Config) -> bool {
        let Some(hold) = self.holds.remove(&job.spec.id) else { return false };
        let group = job.spec.group;
        self.held_cost -= hold.left;
        match job.size(config) {
            Size::Short => self.held_short -= hold.left,
            Size::Long => take_one(&mut self.long, &group.tenant),
        }
        take_one(&mut self.groups, &group);
        hold.recorded
    }
}

pub(crate) fn take_one<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    debug_assert!(counts.contains_key(key), "what is taken off was counted");
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
