//! What can be asked.

use std::collections::BTreeMap;

use super::Scheduler;
use crate::event::Why;
use crate::types::{JobId, Time, WorkerId};
use crate::worker::Mode;

/// Figures of this moment, and counters since the scheduler was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Jobs that wait, suspects included.
    pub queued: usize,
    /// Jobs promised to a worker or leased by one.
    pub running: usize,
    /// Of those that wait, how many are suspected of killing their worker.
    pub suspects: usize,
    /// Cost of all unfinished jobs.
    pub cost: u128,
    /// Tenants with unfinished jobs.
    pub tenants: usize,
    /// When the oldest of the waiting jobs was submitted, or up to a tenth of a second before.
    pub oldest_queued: Option<Time>,
    /// Cost finished per second of late; 0 while nothing is known.
    pub cost_per_second: u64,
    /// By kind of worker.
    pub pools: BTreeMap<String, PoolStats>,
    /// What has happened so far.
    pub counters: Counters,
}

/// Figures of the workers of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Attached workers.
    pub workers: usize,
    /// Those of them that want no new jobs.
    pub draining: usize,
    /// Those of them that try suspects, or are kept free for it.
    pub exclusive: usize,
    /// Jobs that they hold or were promised.
    pub jobs: usize,
    /// Cost of what is left of those jobs.
    pub held_cost: u128,
    /// Cost that the workers would like to hold.
    pub wanted_cost: u128,
}

/// What has happened since the scheduler was made. They balance: submitted and restored jobs have ended in one of four
/// ways or are unfinished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// New jobs.
    pub submitted: u64,
    /// Jobs from the store.
    pub restored: u64,
    /// Jobs that ended with results.
    pub succeeded: u64,
    /// Jobs that ended without.
    pub failed: u64,
    /// Jobs that ended by request.
    pub cancelled: u64,
    /// Jobs that ended too late.
    pub deadline_exceeded: u64,
    /// Attempts begun.
    pub attempts: u64,
    /// Attempts that ended without ending the job.
    pub requeued: BTreeMap<Why, u64>,
    /// Commits refused.
    pub refused: u64,
    /// Workers that crashed.
    pub crashes: u64,
    /// Suspects that computed for long enough to be none any more.
    pub acquitted: u64,
    /// Workers given up because they said nothing.
    pub workers_silent: u64,
    /// Reports of workers beyond the limit.
    pub workers_refused: u64,
}

impl Scheduler {
    /// Figures for metrics. Takes time with the number of workers, not of jobs.
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
            cost: self.total.cost,
            tenants: self.tenants.len(),
            oldest_queued: self.ages.oldest(),
            cost_per_second: self.meter.per_second(),
            pools,
            counters: self.counters.clone(),
        }
    }

    /// Every lease that the worker shall hold.
    pub fn assignment(&self, worker: WorkerId) -> Vec<(JobId, u64)> {
        let holds = self.workers.get(&worker).into_iter().flat_map(|worker| &worker.holds);
        holds.filter(|(_, hold)| hold.recorded).map(|(job, hold)| (*job, hold.epoch)).collect()
    }
}
