//! An attached worker, and the jobs that it has room for.
//!
//! A worker reports the cost that it wants to hold. The worker gets the next jobs until the
//! remaining cost of its jobs reaches this amount. One job of ten million bootstraps exceeds that
//! for hours, yet a worker mixes jobs in its waves. *Long* jobs cost more than a quantum. While the
//! long jobs alone reach the wanted cost, the worker has room for other jobs beside them:
//!
//! - *Short* jobs, until their remaining cost reaches the wanted cost as well. Short jobs end soon,
//!   so no long job delays a short job of any tenant.
//! - A long job of each tenant that has none here, while fewer than [`LONG_MAX`] tenants have one.
//!   A tenant with a hundred long jobs therefore cannot fill a worker. A tenant with its first long
//!   job does not wait for the end of another tenant's. If the job costs more than the worker wants
//!   in total, it must have waited for a lease's time first. The long job may run for hours, and an
//!   empty worker that is about to report is a better place for it.
//!
//! At all other times the turns alone decide, because short jobs soon leave room.

use std::collections::{BTreeMap, BTreeSet};

use cloakwork_params::{KeyId, SetId};

use crate::config::Config;
use crate::job::Job;
use crate::queue::Size;
use crate::seat::Seat;
use crate::types::{Group, JobId, TenantId, Time};

/// Maximum number of tenants whose long jobs a worker takes beyond the cost that it wants.
pub(crate) const LONG_MAX: usize = 8;

/// The scheduler's state of a worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Worker {
    pub(crate) pool: String,
    /// Class of the workers whose results have the same bits, or empty.
    pub(crate) class: String,
    /// Whether the worker's results were found wrong. The worker then gets no work.
    pub(crate) quarantined: bool,
    pub(crate) sets: BTreeSet<SetId>,
    pub(crate) wanted: u64,
    pub(crate) draining: bool,
    pub(crate) resident: BTreeSet<(KeyId, SetId)>,
    /// The jobs that the worker holds or is assigned.
    pub(crate) holds: BTreeMap<JobId, Hold>,
    /// Remaining cost of these jobs.
    pub(crate) held_cost: u64,
    /// Remaining cost of the short jobs.
    pub(crate) held_short: u64,
    /// Bytes of the held jobs.
    pub(crate) held_bytes: u64,
    /// Number of long jobs of each tenant.
    pub(crate) long: BTreeMap<TenantId, usize>,
    /// Number of held jobs of each group.
    pub(crate) groups: BTreeMap<Group, usize>,
    /// The checks that the worker holds, with the epoch of each. Checks take no room from jobs.
    pub(crate) checks: BTreeMap<JobId, u64>,
    /// Cost of these checks.
    pub(crate) checks_cost: u64,
    /// Whether the worker may still run a check, or a job that it no longer holds.
    pub(crate) has_company: bool,
    pub(crate) mode: Mode,
    pub(crate) turn: Turn,
    /// Whether the worker is among the scheduler's rooms.
    pub(crate) in_rooms: bool,
    /// When the worker is removed unless it reports.
    pub(crate) silent_at: Time,
    /// Time of the worker's entry among the timers. Never later than `silent_at`.
    pub(crate) timer: Time,
    /// Whether the worker's latest report listed no lease, and nothing was assigned to it since.
    /// Only then is it certain that no withdrawn job still runs there.
    pub(crate) idle: bool,
    /// Since when every report has listed leases that were withdrawn.
    pub(crate) clinging_since: Option<Time>,
}

/// A job on a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) seat: Seat,
    pub(crate) epoch: u64,
    /// Whether the attempt is durable, and the job is in the worker's assignment.
    pub(crate) recorded: bool,
    /// Remaining cost of the job.
    pub(crate) left: u64,
}

/// The jobs that a worker may be given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Shared,
    /// No jobs until the worker is empty; suspects come next.
    Reserved,
    /// The worker holds suspects, and no other jobs.
    Exclusive,
}

/// The next kind of job for a worker when both suspects and other jobs wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Turn {
    #[default]
    Suspects,
    Others,
}

impl Worker {
    /// Whether the worker computes rows of the set, whatever it wants at present.
    pub(crate) fn serves(&self, set: SetId) -> bool {
        !self.draining && !self.quarantined && self.sets.contains(&set)
    }

    /// Whether the worker would take a job of the set, now or once it has room.
    pub(crate) fn would_take(&self, set: SetId) -> bool {
        self.wanted > 0 && self.serves(set)
    }

    /// Whether the worker may get work at all, now or once it has room.
    pub(crate) fn takes_work(&self) -> bool {
        !self.draining && self.wanted > 0 && !self.quarantined
    }

    /// Whether the worker wants jobs at all, and releases withdrawn jobs. A worker that keeps
    /// withdrawn jobs is busy with them, whatever it reports.
    pub(crate) fn is_willing(&self, now: Time, config: &Config) -> bool {
        let clings = self.clinging_since.is_some_and(|since| now.saturating_sub(since) >= config.lease_micros);
        self.takes_work() && !clings
    }

    /// Whether the worker may get more jobs of some kind.
    pub(crate) fn is_open(&self, now: Time, config: &Config) -> bool {
        self.is_willing(now, config) && self.mode != Mode::Exclusive && self.has_place(config)
    }

    /// Whether some job could get a place on the worker, now or later without any other event.
    pub(crate) fn has_room(&self, config: &Config) -> bool {
        let wants = self.wants_any() || self.wants_short() || self.wants_long();
        self.mode == Mode::Shared && self.has_place(config) && wants && self.takes_work()
    }

    /// Whether the limits on the held jobs allow another one.
    pub(crate) fn has_place(&self, config: &Config) -> bool {
        self.holds.len() < config.leases_per_worker_max && self.held_bytes < config.leased_bytes_per_worker_max
    }

    /// Whether the worker holds less cost than it wants.
    pub(crate) fn wants_any(&self) -> bool {
        self.held_cost < self.wanted
    }

    /// Whether short jobs may come beside the worker's long jobs.
    pub(crate) fn wants_short(&self) -> bool {
        self.is_taken_up() && self.held_short < self.wanted
    }

    /// Whether long jobs of other tenants may come beside the worker's long jobs.
    pub(crate) fn wants_long(&self) -> bool {
        self.is_taken_up() && self.long.len() < LONG_MAX
    }

    /// Whether a long job may come beside the held jobs.
    pub(crate) fn fits_beside(&self, now: Time, job: &Job, config: &Config) -> bool {
        job.spec.cost <= self.wanted || now.saturating_sub(job.submitted) >= config.lease_micros
    }

    /// Whether the worker's long jobs reach the cost that it wants. The worker will then have no
    /// other room soon.
    pub(crate) fn is_taken_up(&self) -> bool {
        self.held_cost - self.held_short >= self.wanted
    }

    /// Whether a job of the group needs no key load on this worker.
    pub(crate) fn is_near(&self, group: &Group) -> bool {
        self.groups.contains_key(group) || self.resident.contains(&(group.key, group.set))
    }

    /// Held cost, in thousandths of the wanted cost.
    pub(crate) fn load(&self) -> u64 {
        self.held_cost.saturating_mul(1000) / self.wanted.max(1)
    }

    pub(crate) fn hold(&mut self, seat: Seat, job: &Job, recorded: bool, config: &Config) {
        let (group, left) = (job.spec.group, job.spec.cost);
        let before = self.holds.insert(job.spec.id, Hold { seat, epoch: job.epoch, recorded, left });
        debug_assert!(before.is_none(), "a worker holds a job once");
        self.held_cost += left;
        self.held_bytes += job.spec.bytes;
        match job.size(config) {
            Size::Short => self.held_short += left,
            Size::Long => *self.long.entry(group.tenant).or_default() += 1,
        }
        *self.groups.entry(group).or_default() += 1;
        self.idle = false;
    }

    /// Updates the remaining cost of a job.
    pub(crate) fn credit(&mut self, job: &Job, config: &Config) {
        let Some(hold) = self.holds.get_mut(&job.spec.id) else { return };
        let left = job.left();
        debug_assert!(left <= hold.left, "the remaining cost of a job never grows");
        let done = hold.left - left;
        hold.left = left;
        self.held_cost -= done;
        if job.size(config) == Size::Short {
            self.held_short -= done;
        }
    }

    /// Removes a job. Returns whether the job was in the assignment.
    pub(crate) fn release(&mut self, job: &Job, config: &Config) -> bool {
        let Some(hold) = self.holds.remove(&job.spec.id) else { return false };
        let group = job.spec.group;
        self.held_cost -= hold.left;
        self.held_bytes -= job.spec.bytes;
        match job.size(config) {
            Size::Short => self.held_short -= hold.left,
            Size::Long => take_one(&mut self.long, &group.tenant),
        }
        take_one(&mut self.groups, &group);
        hold.recorded
    }
}

pub(crate) fn take_one<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    debug_assert!(counts.contains_key(key), "only a counted item is taken off");
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
