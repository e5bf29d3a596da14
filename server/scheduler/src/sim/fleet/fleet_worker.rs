//! A worker: it computes its jobs one after another, those with a resident key first.

use std::collections::VecDeque;

use cloakwork_params::{KeyId, SetId};

use crate::types::{Group, JobId, LeaseReport, Report, Stage, Time};

/// Time of a job, in microseconds.
pub(super) const JOB_MICROS: Time = 8000;
/// Cost of a job: its milliseconds.
pub(super) const JOB_COST: u64 = 8;
/// Time to load a key, in microseconds.
const LOAD_MICROS: Time = 30_000;
/// Cost that a worker wants to hold.
const WANTED: u64 = 64;
const RESIDENT: usize = 64;

#[derive(Default)]
pub(super) struct Worker {
    pub(super) shard: usize,
    /// The shard that the worker moves to once it is empty.
    pub(super) next_shard: Option<usize>,
    waiting: Vec<Lease>,
    computing: Option<Lease>,
    /// Keys in memory, the last used at the end.
    resident: VecDeque<KeyId>,
    pub(super) hits: u64,
    pub(super) misses: u64,
}

#[derive(Clone, Copy)]
struct Lease {
    job: JobId,
    epoch: u64,
    group: Group,
}

impl Worker {
    pub(super) fn of(shard: usize) -> Self {
        Self { shard, ..Self::default() }
    }

    /// Loads a key while there is room.
    pub(super) fn preload(&mut self, key: KeyId) -> bool {
        let has_room = self.resident.len() < RESIDENT && !self.resident.contains(&key);
        if has_room {
            self.resident.push_back(key);
        }
        has_room
    }

    /// Takes new leases. The assignment lists all leases that the worker is to hold.
    pub(super) fn take(&mut self, leases: &[(JobId, u64)], group_of: impl Fn(JobId) -> Group) {
        for (job, epoch) in leases {
            let is_known = |lease: &Lease| lease.job == *job;
            if !self.waiting.iter().chain(&self.computing).any(is_known) {
                self.waiting.push(Lease { job: *job, epoch: *epoch, group: group_of(*job) });
            }
        }
    }

    /// Begins the next job if the worker is idle. Returns the time that it takes.
    pub(super) fn begin(&mut self) -> Option<Time> {
        if self.computing.is_some() || self.waiting.is_empty() {
            return None;
        }
        let near = self.waiting.iter().position(|lease| self.resident.contains(&lease.group.key));
        let lease = self.waiting.remove(near.unwrap_or(0));
        self.computing = Some(lease);
        let place = self.resident.iter().position(|key| *key == lease.group.key);
        match place {
            Some(place) => _ = self.resident.remove(place),
            None if self.resident.len() >= RESIDENT => _ = self.resident.pop_front(),
            None => {}
        }
        self.resident.push_back(lease.group.key);
        self.hits += u64::from(place.is_some());
        self.misses += u64::from(place.is_none());
        Some(JOB_MICROS + if place.is_some() { 0 } else { LOAD_MICROS })
    }

    /// Ends the job that the worker computes.
    pub(super) fn end(&mut self) -> Option<(JobId, u64)> {
        self.computing.take().map(|lease| (lease.job, lease.epoch))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.computing.is_none()
    }

    pub(super) fn jobs(&self) -> usize {
        self.waiting.len() + usize::from(self.computing.is_some())
    }

    pub(super) fn report(&self) -> Report {
        let lease = |lease: &Lease, stage, progress| {
            let (job, epoch) = (lease.job, lease.epoch);
            LeaseReport { job, epoch, stage, progress, rows_done: 0 }
        };
        let computing = self.computing.iter().map(|held| lease(held, Stage::Computing, 1));
        Report {
            pool: "cpu".to_owned(),
            sets: vec![SetId(1)],
            wanted_cost: WANTED,
            leases: computing.chain(self.waiting.iter().map(|held| lease(held, Stage::Waiting, 0))).collect(),
            resident: self.resident.iter().map(|key| (*key, SetId(1))).collect(),
            draining: self.next_shard.is_some(),
            class: "one".to_owned(),
        }
    }
}
