//! Figures about the scheduler's state.

use std::collections::BTreeMap;

use cloakwork_params::SetId;

use super::Scheduler;
use crate::event::Why;
use crate::types::{JobId, Time, WorkerId};
use crate::worker::Mode;

/// Current figures, and counters since the scheduler was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Waiting jobs, suspects included.
    pub queued: usize,
    /// Jobs assigned to a worker or leased by one.
    pub running: usize,
    /// Waiting jobs that are suspected of killing their worker.
    pub suspects: usize,
    /// Checks that wait or run. Jobs do not count checks.
    pub checks: usize,
    /// Cost of all unfinished jobs.
    pub cost: u128,
    /// Cost of the waiting jobs of each set, suspects included.
    pub waiting: BTreeMap<SetId, u128>,
    /// Tenants with unfinished jobs.
    pub tenants: usize,
    /// When the oldest of the waiting jobs was submitted, or up to a tenth of a second before.
    pub oldest_queued: Option<Time>,
    /// Recently finished cost per second; 0 before the first measurement.
    pub cost_per_second: u64,
    /// Figures by kind of worker.
    pub pools: BTreeMap<String, PoolStats>,
    /// Counters of past events.
    pub counters: Counters,
}

/// Figures of the workers of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Attached workers.
    pub workers: usize,
    /// Attached workers that leave once their jobs have ended.
    pub draining: usize,
    /// Attached workers that try suspects, or are reserved for suspects.
    pub exclusive: usize,
    /// Jobs that these workers hold or are assigned.
    pub jobs: usize,
    /// Cost that is left of those jobs.
    pub held_cost: u128,
    /// Cost that these workers want to hold.
    pub wanted_cost: u128,
}

/// Counts of events since the scheduler was created. The counts balance: each submitted or restored
/// job has ended in one of four ways or is unfinished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// New jobs.
    pub submitted: u64,
    /// Jobs from the store.
    pub restored: u64,
    /// Jobs that ended with results.
    pub succeeded: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// Jobs that their tenant cancelled.
    pub cancelled: u64,
    /// Jobs that did not end before their deadline.
    pub deadline_exceeded: u64,
    /// Attempts begun.
    pub attempts: u64,
    /// Checks handed to a worker.
    pub checks_begun: u64,
    /// Checks that ended with rows to compare.
    pub checks_computed: u64,
    /// Attempts that ended without ending the job.
    pub requeued: BTreeMap<Why, u64>,
    /// Commits that were refused.
    pub refused: u64,
    /// Workers that crashed.
    pub crashes: u64,
    /// Suspects that computed for long enough to be acquitted.
    pub acquitted: u64,
    /// Workers removed because they sent no report for a lease's time.
    pub workers_silent: u64,
    /// Reports of workers beyond the limit on workers.
    pub workers_refused: u64,
}

impl Scheduler {
    /// Figures for metrics. Takes time linear in the number of workers, not of jobs.
    pub fn stats(&self) -> Stats {
        let suspects = self.suspects.len();
        let queued = self.queue.len() + suspects;
        let mut pools: BTreeMap<String, PoolStats> = BTreeMap::new();
        for worker in self.workers.values() {
            let pool = pools.entry(worker.pool.clone()).or_default();
            pool.workers += 1;
            pool.draining += usize::from(worker.draining);
            pool.exclusive += usize::from(worker.mode != Mode::Shared);
            pool.jobs += worker.holds.len();
            pool.held_cost += u128::from(worker.held_cost);
            pool.wanted_cost += u128::from(worker.wanted);
        }
        Stats {
            queued,
            running: self.jobs.len() - queued,
            suspects,
            checks: self.checks.len(),
            cost: self.total.cost,
            waiting: self.waiting.clone(),
            tenants: self.tenants.len(),
            oldest_queued: self.ages.oldest(),
            cost_per_second: self.meter.per_second(),
            pools,
            counters: self.counters.clone(),
        }
    }

    /// Whether the worker holds no job and no check, and is to get none that was decided already.
    pub fn holds_nothing(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_none_or(|worker| worker.holds.is_empty() && worker.checks.is_empty())
    }

    /// Every lease that the worker is to hold.
    pub fn assignment(&self, worker: WorkerId) -> Vec<(JobId, u64)> {
        let Some(worker) = self.workers.get(&worker) else { return Vec::new() };
        let jobs = worker.holds.iter().filter(|(_, hold)| hold.recorded).map(|(job, hold)| (*job, hold.epoch));
        jobs.chain(worker.checks.iter().map(|(check, epoch)| (*check, *epoch))).collect()
    }
}
