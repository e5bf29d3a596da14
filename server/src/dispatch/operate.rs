//! The view that operators have of the dispatcher, and the workers that operators drain.

use std::sync::Arc;

use cloakwork_params::AnySet;
use cloakwork_proto::v1::WorkerState;
use cloakwork_scheduler::{Event, PoolStats, WorkerId};

use super::actor::Actor;

/// The dispatcher at a moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Jobs that wait for a worker.
    pub queued: usize,
    /// Jobs that a worker has.
    pub running: usize,
    /// Time for which the oldest waiting job has waited, in microseconds.
    pub oldest_queued_micros: Option<u64>,
    /// The pools, declared or with workers, sorted by kind.
    pub pools: Vec<PoolSnapshot>,
    /// The workers, sorted by name and ID.
    pub workers: Vec<WorkerSnapshot>,
}

/// Workers of one kind at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolSnapshot {
    /// The kind, for example `cpu`.
    pub kind: String,
    /// Attached workers.
    pub workers: usize,
    /// Those of the workers that get no further jobs.
    pub draining: usize,
    /// Jobs that the workers have.
    pub jobs: usize,
    /// Time that one worker would need for the pool's work. An undeclared pool has none.
    pub backlog_seconds: Option<f64>,
    /// Keys in the memory of its workers.
    pub resident_keys: u64,
    /// Bytes that these keys take.
    pub resident_bytes: u64,
}

/// A worker at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSnapshot {
    /// The worker.
    pub id: WorkerId,
    /// Name for display.
    pub name: Arc<str>,
    /// Kind of the worker.
    pub pool: String,
    /// Class of the worker's results. Empty if they are not reproducible.
    pub class: String,
    /// Whether the worker gets no further jobs.
    pub is_draining: bool,
    /// Whether the operator drained the worker.
    pub is_drained_by_operator: bool,
    /// Whether the worker's stream is open.
    pub is_connected: bool,
    /// Jobs that the worker has.
    pub jobs: usize,
    /// Keys in its memory.
    pub resident_keys: usize,
    /// Bytes that these keys take.
    pub resident_bytes: u64,
    /// Names of the parameter sets that the worker computes.
    pub sets: Vec<&'static str>,
}

impl WorkerSnapshot {
    /// The worker's state.
    pub fn state(&self) -> WorkerState {
        match (self.is_connected, self.is_draining) {
            (false, _) => WorkerState::Disconnected,
            (true, true) => WorkerState::Draining,
            (true, false) => WorkerState::Ready,
        }
    }
}

impl Actor {
    pub(super) fn snapshot(&self) -> Snapshot {
        let stats = self.scheduler.stats();
        let backlogs = &self.parts.backlogs;
        let mut pools: Vec<PoolSnapshot> = self
            .workers
            .pools()
            .into_iter()
            .map(|pool| PoolSnapshot {
                resident_keys: pool.resident_keys,
                resident_bytes: pool.resident_bytes,
                kind: pool.kind,
                ..PoolSnapshot::default()
            })
            .collect();
        for name in stats.pools.keys().cloned().chain(backlogs.names().map(str::to_owned)) {
            if pools.iter().all(|pool| pool.kind != name) {
                pools.push(PoolSnapshot { kind: name, ..PoolSnapshot::default() });
            }
        }
        for pool in &mut pools {
            let PoolStats { workers, draining, jobs, .. } = stats.pools.get(&pool.kind).copied().unwrap_or_default();
            (pool.workers, pool.draining, pool.jobs) = (workers, draining, jobs);
            let is_declared = backlogs.names().any(|name| name == pool.kind);
            pool.backlog_seconds = is_declared.then(|| backlogs.millis(&stats, &pool.kind) as f64 / 1000.0);
        }
        pools.sort_unstable_by(|left, right| left.kind.cmp(&right.kind));
        let mut workers: Vec<WorkerSnapshot> = self
            .workers
            .latest_with_connection()
            .map(|(report, is_connected)| {
                let id = report.worker;
                let is_drained_by_operator = self.drained.contains(&id);
                WorkerSnapshot {
                    id,
                    name: report.name.clone(),
                    pool: report.report.pool.clone(),
                    class: report.report.class.clone(),
                    is_draining: report.report.draining || is_drained_by_operator || self.placement.is_leaving(id),
                    is_drained_by_operator,
                    is_connected,
                    jobs: report.report.leases.len(),
                    resident_keys: report.resident.len(),
                    resident_bytes: report.resident_bytes,
                    sets: report.report.sets.iter().filter_map(|set| Some(AnySet::find(*set)?.name())).collect(),
                }
            })
            .collect();
        workers.sort_unstable_by(|left, right| (&left.name, left.id).cmp(&(&right.name, right.id)));
        let oldest = stats.oldest_queued.map(|since| self.uptime.micros().saturating_sub(since));
        Snapshot { queued: stats.queued, running: stats.running, oldest_queued_micros: oldest, pools, workers }
    }

    /// Gives a worker no further jobs, or gives it jobs again. Returns false if the worker is not
    /// attached.
    pub(super) fn set_drained(&mut self, worker: WorkerId, is_drained: bool) -> bool {
        let latest = self.workers.latest().find(|report| report.worker == worker).cloned();
        let Some(latest) = latest else { return false };
        if is_drained {
            self.drained.insert(worker);
        } else {
            self.drained.remove(&worker);
        }
        let event = self.event_of(&latest);
        self.step(Event::Reported { worker, report: event });
        self.pools_changed();
        true
    }
}
