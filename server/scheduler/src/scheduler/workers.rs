//! Workers attach, report and leave.

use cloakwork_params::SetId;

use super::Scheduler;
use crate::event::{Effect, Why};
use crate::job::{Lease, Seen, Shown, State};
use crate::seat::Seat;
use crate::types::{LeaseReport, Report, Time, WorkerId};
use crate::worker::{Hold, Mode, Worker};

impl Scheduler {
    pub(super) fn reported(&mut self, now: Time, id: WorkerId, report: Report, effects: &mut Vec<Effect>) {
        let full = self.workers.len() >= self.config.workers_max;
        if full && !self.workers.contains_key(&id) {
            // The worker receives an empty assignment, and may ask again.
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
            renewed += usize::from(self.renew(now, id, lease) || self.holds_check(id, lease));
        }
        self.leave_room(id);
        // The results of a worker of another class would not compare. A worker that leaves waits
        // for the end of its work, and no tenant waits for a check.
        if report.draining || self.workers.get(&id).is_some_and(|worker| worker.class != report.class) {
            self.withdraw_checks(id);
        }
        let config = self.config;
        let worker = self.attach(now, id);
        worker.class = report.class;
        worker.silent_at = now.saturating_add(config.lease_micros);
        worker.pool = report.pool;
        let served: Vec<SetId> = worker.sets.iter().copied().filter(|set| worker.would_take(*set)).collect();
        worker.sets = report.sets.into_iter().collect();
        worker.wanted = report.wanted_cost;
        worker.draining = report.draining;
        worker.resident = report.resident.into_iter().take(config.resident_keys_max).collect();
        let fewer = served.into_iter().any(|set| !worker.would_take(set));
        worker.idle = report.leases.is_empty() && worker.holds.is_empty() && worker.checks.is_empty();
        let clings = renewed < report.leases.len();
        worker.has_company = clings || !worker.checks.is_empty();
        worker.clinging_since = clings.then(|| worker.clinging_since.unwrap_or(now));
        let expected = worker.holds.values().filter(|hold| hold.recorded).count() + worker.checks.len();
        if clings || renewed < expected {
            self.todo.dirty.insert(id);
        }
        self.todo.fewer |= fewer;
        self.todo.wake.insert(id);
        self.judge_trial(id, effects);
    }

    /// Renews a lease. Returns whether the worker holds this lease.
    fn renew(&mut self, now: Time, worker: WorkerId, report: &LeaseReport) -> bool {
        let Some(seat) = self.jobs.seat(&report.job) else { return false };
        let Some(job) = self.jobs.get_mut(seat) else { return false };
        if job.epoch != report.epoch {
            return false;
        }
        let State::Leased(lease) = &mut job.state else { return false };
        if lease.worker != worker {
            return false;
        }
        lease.expires = now.saturating_add(self.config.lease_micros);
        let before = lease.seen.as_deref();
        let moved = match before {
            Some(seen) if seen.stage == report.stage && report.progress <= seen.progress => seen.moved,
            _ => now,
        };
        let rows_before = before.map_or(0, |seen| seen.rows_done);
        let rows_done = report.rows_done.max(rows_before);
        let shown = Shown::after(before.and_then(|seen| seen.shown), now, report);
        let seen = Seen { stage: report.stage, progress: report.progress, rows_done, moved, shown };
        match &mut lease.seen {
            Some(place) => **place = seen,
            place => *place = Some(Box::new(seen)),
        }
        if rows_done > rows_before
            && let Some(worker) = self.workers.get_mut(&worker)
        {
            worker.credit(job, &self.config);
        }
        self.set_timer(seat);
        true
    }

    /// The worker's entry, created if absent.
    fn attach(&mut self, now: Time, id: WorkerId) -> &mut Worker {
        let silent_at = now.saturating_add(self.config.lease_micros);
        self.workers.entry(id).or_insert_with(|| {
            self.silences.insert((silent_at, id));
            let quarantined = self.quarantined.contains(&id);
            Worker { silent_at, timer: silent_at, quarantined, ..Worker::default() }
        })
    }

    /// Restores a worker's hold on a job. If the worker comes back in time, it may continue the
    /// job.
    pub(super) fn continued(&mut self, now: Time, id: WorkerId, seat: Seat) {
        self.attach(now, id);
        let (Some(worker), Some(job)) = (self.workers.get_mut(&id), self.jobs.get_mut(seat)) else { return };
        worker.hold(seat, job, true, &self.config);
        // The job records whether it was being tried as a suspect.
        if job.suspect.is_some() {
            worker.mode = Mode::Exclusive;
        }
        let expires = now.saturating_add(self.config.lease_micros);
        job.state = State::Leased(Lease { worker: id, expires, seen: None });
        self.set_timer(seat);
    }

    pub(super) fn recovered(&mut self, now: Time, dead: &[WorkerId], effects: &mut Vec<Effect>) {
        self.recovering = false;
        self.todo.fewer = true;
        self.renew_acquittals();
        for &worker in dead {
            self.worker_gone(now, worker, true, effects);
        }
        self.todo.wake_all = true;
    }

    pub(super) fn worker_gone(&mut self, now: Time, id: WorkerId, crashed: bool, effects: &mut Vec<Effect>) {
        let Some(worker) = self.remove_worker(id) else { return };
        self.lose_checks(id, &worker, effects);
        // In a trial, nothing else ran on the worker.
        let alone = !worker.has_company || worker.mode == Mode::Exclusive;
        let (held, promised): (Vec<Hold>, Vec<_>) = worker.holds.into_values().partition(|hold| hold.recorded);
        for hold in promised {
            self.requeue(hold.seat, Why::NotStarted, effects);
        }
        let held: Vec<Seat> = held.into_iter().map(|hold| hold.seat).collect();
        if crashed {
            self.blame(now, held, alone, effects);
        } else {
            held.into_iter().for_each(|job| self.requeue(job, Why::WorkerLeft, effects));
        }
    }

    /// Removes a worker. Its jobs still name it until they are requeued.
    pub(super) fn remove_worker(&mut self, id: WorkerId) -> Option<Worker> {
        self.leave_room(id);
        let worker = self.workers.remove(&id)?;
        self.silences.remove(&(worker.timer, id));
        self.todo.dirty.remove(&id);
        self.todo.wake.remove(&id);
        self.todo.spare.remove(&id);
        self.todo.fewer = true;
        // One more worker may now try suspects.
        self.todo.wake_all |= !self.suspects.is_empty();
        Some(worker)
    }
}
