//! An attached worker.

use std::collections::{BTreeMap, BTreeSet};

use cloakwork_params::{KeyId, SetId};

use crate::config::Config;
use crate::types::{Group, JobId, Time};

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
    /// Sum of their costs.
    pub(crate) held_cost: u64,
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
    pub(crate) epoch: u64,
    /// Whether the attempt is durable, and the job in the worker's assignment.
    pub(crate) recorded: bool,
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
    /// Whether it wants jobs at all, and lets go of those that were taken away: one that does not has its hands full
    /// with them, whatever it says.
    pub(crate) fn is_willing(&self, now: Time, config: &Config) -> bool {
        let clings = self.clinging_since.is_some_and(|since| now.saturating_sub(since) >= config.lease);
        !self.draining && self.wanted > 0 && !clings
    }

    /// Whether it may have more jobs.
    pub(crate) fn has_room(&self, now: Time, config: &Config) -> bool {
        self.is_willing(now, config)
            && self.mode != Mode::Exclusive
            && self.held_cost < self.wanted
            && self.holds.len() < config.leases_per_worker_max
    }

    /// Whether a job of the group needs no key loaded here.
    pub(crate) fn is_near(&self, group: &Group) -> bool {
        self.groups.contains_key(group) || self.resident.contains(&(group.key, group.set))
    }

    /// Thousandths of what it wants that it holds.
    pub(crate) fn load(&self) -> u64 {
        self.held_cost.saturating_mul(1000) / self.wanted.max(1)
    }

    pub(crate) fn hold(&mut self, job: JobId, epoch: u64, group: Group, cost: u64) {
        let before = self.holds.insert(job, Hold { epoch, recorded: false });
        debug_assert!(before.is_none(), "a worker holds a job once");
        self.held_cost += cost;
        *self.groups.entry(group).or_default() += 1;
        self.idle = false;
    }

    /// Takes a job off. Says whether it was in the assignment.
    pub(crate) fn release(&mut self, job: JobId, group: Group, cost: u64) -> bool {
        let Some(hold) = self.holds.remove(&job) else { return false };
        self.held_cost -= cost;
        if let Some(count) = self.groups.get_mut(&group) {
            *count -= 1;
            if *count == 0 {
                self.groups.remove(&group);
            }
        }
        hold.recorded
    }
}
