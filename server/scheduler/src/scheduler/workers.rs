//! Workers come, report and leave.

use super::Scheduler;
use super::timers::Timer;
use crate::event::{Effect, Why};
use crate::job::{Job, Lease, Seen, Shown, State};
use crate::types::{JobId, LeaseReport, Report, Time, WorkerId};
use crate::worker::{Hold, Worker};

impl Scheduler {
    pub(super) fn reported(&mut self, now: Time, id: WorkerId, report: Report, effects: &mut Vec<Effect>) {
        let full = self.workers.len() >= self.config.workers_max;
        if full && !self.workers.contains_key(&id) {
            // It is told to hold nothing, and may ask again.
            self.counters.workers_refused += 1;
            self.todo.dirty.insert(id);
            return;
        }
        if !self.workers.contains_key(&id) {
            self.todo.dirty.insert(id);
        }
        let mut renewed = 0;
        let listed = report.leases.len().min(self.config.leases_per_worker_max.saturating_mul(2));
        for lease in &report.leases[..listed] {
            renewed += usize::from(self.renew(now, id, lease));
        }
        let config = self.config;
        let worker = self.attach(now, id);
        worker.silent_at = now.saturating_add(config.lease);
        worker.pool = report.pool;
        worker.sets = report.sets.into_iter().collect();
        worker.wanted = report.wanted_cost;
        worker.draining = report.draining;
        worker.resident = report.resident.into_iter().take(config.resident_keys_max).collect();
        worker.idle = report.leases.is_empty() && worker.holds.is_empty();
        let clings = renewed < report.leases.len();
        worker.clinging_since = clings.then(|| worker.clinging_since.unwrap_or(now));
        let expected = worker.holds.values().filter(|hold| hold.recorded).count();
        if clings || renewed < expected {
            self.todo.dirty.insert(id);
        }
        self.todo.wake.insert(id);
        self.judge_trial(id, effects);
    }

    /// Renews a lease that is the worker's. Says whether it was.
    fn renew(&mut self, now: Time, worker: WorkerId, report: &LeaseReport) -> bool {
        let Some(job) = self.jobs.get_mut(&report.job) else { return false };
        if job.epoch != report.epoch {
            return false;
        }
        let State::Leased(lease) = &mut job.state else { return false };
        if lease.worker != worker {
            return false;
        }
        lease.expires = now.saturating_add(self.config.lease);
        let moved = match lease.seen {
            Some(seen) if seen.stage == report.stage && report.progress <= seen.progress => seen.moved,
            _ => now,
        };
        let rows_before = lease.seen.map_or(0, |seen| seen.rows_done);
        let rows_done = report.rows_done.max(rows_before);
        let shown = Shown::after(lease.seen.and_then(|seen| seen.shown), now, report);
        lease.seen = Some(Seen { stage: report.stage, progress: report.progress, rows_done, moved, shown });
        if rows_done > rows_before
            && let Some(worker) = self.workers.get_mut(&worker)
        {
            worker.credit(job, &self.config);
        }
        self.set_timer(report.job);
        true
    }

    /// The worker's entry, made where there is none.
    fn attach(&mut self, now: Time, id: WorkerId) -> &mut Worker {
        let silent_at = now.saturating_add(self.config.lease);
        self.workers.entry(id).or_insert_with(|| {
            self.timers.insert((silent_at, Timer::Worker(id)));
            Worker { silent_at, timer: silent_at, ..Worker::default() }
        })
    }

    /// The state of a restored job that a worker held: if that worker comes back in time, it may go on.
    pub(super) fn continued(&mut self, now: Time, id: WorkerId, job: &Job) -> State {
        let (expires, config) = (now.saturating_add(self.config.lease), self.config);
        let worker = self.attach(now, id);
        worker.hold(job, true, &config);
        // Whether it was being tried as a suspect shows in the job.
        if job.suspect.is_some() {
            worker.mode = crate::worker::Mode::Exclusive;
        }
        State::Leased(Lease { worker: id, expires, seen: None })
    }

    pub(super) fn recovered(&mut self, now: Time, dead: &[WorkerId], effects: &mut Vec<Effect>) {
        self.recovering = false;
        self.renew_acquittals();
        for &worker in dead {
            self.worker_gone(now, worker, true, effects);
        }
        self.todo.wake_all = true;
    }

    pub(super) fn worker_gone(&mut self, now: Time, id: WorkerId, crashed: bool, effects: &mut Vec<Effect>) {
        let Some(worker) = self.remove_worker(id) else { return };
        let (held, promised): (Vec<(JobId, Hold)>, Vec<_>) =
            worker.holds.into_iter().partition(|(_, hold)| hold.recorded);
        for (job, _) in promised {
            self.requeue(job, Why::NotStarted, effects);
        }
        let held: Vec<JobId> = held.into_iter().map(|(job, _)| job).collect();
        if crashed {
            self.blame(now, held, effects);
        } else {
            held.into_iter().for_each(|job| self.requeue(job, Why::WorkerLeft, effects));
        }
    }

    /// Takes a worker out. Its jobs still name it, until they are requeued.
    pub(super) fn remove_worker(&mut self, id: WorkerId) -> Option<Worker> {
        let worker = self.workers.remove(&id)?;
        self.timers.remove(&(worker.timer, Timer::Worker(id)));
        self.todo.dirty.remove(&id);
        self.todo.wake.remove(&id);
        // Its place among those that try suspects is free.
        self.todo.wake_all |= !self.suspects.is_empty();
        Some(worker)
    }
}
