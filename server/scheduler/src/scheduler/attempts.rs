//! The life of an attempt (begun, recorded, committed or lost), and the end of a job.

use std::collections::BTreeMap;

use cloakwork_params::SetId;

use super::Scheduler;
use crate::event::{Attempt, Effect, End, Outcome, Reason, Retry, Why, reasons};
use crate::job::{Job, Lease, State};
use crate::seat::Seat;
use crate::types::{JobId, Time, WorkerId};

impl Scheduler {
    /// Removes a queued job from the queue and assigns it to a worker.
    pub(super) fn begin_attempt(&mut self, worker: WorkerId, seat: Seat, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get_mut(seat) else { return };
        debug_assert_eq!(job.state, State::Queued, "only a queued job is handed out");
        let (id, group, cost) = (job.spec.id, job.spec.group, job.spec.cost);
        job.epoch += 1;
        job.state = State::Recording { worker };
        job.rests_until = None;
        match job.suspect {
            Some(suspect) => self.suspects.remove(suspect, group.set, id),
            None => self.queue.serve(&job.entry(seat, &self.config), cost),
        }
        self.ages.remove(job.submitted);
        take_off(&mut self.waiting, group.set, cost);
        if let Some(worker) = self.workers.get_mut(&worker) {
            worker.hold(seat, job, false, &self.config);
        }
        self.counters.attempts += 1;
        effects.push(Effect::Record(Attempt {
            job: id,
            group,
            epoch: job.epoch,
            worker,
            attempts: job.attempts,
            suspect: job.suspect,
            solo_crashes: job.solo_crashes,
        }));
    }

    /// Starts the lease: the attempt is durable, so the worker may learn of it.
    pub(super) fn recorded(&mut self, now: Time, id: JobId, epoch: u64) {
        let Some(seat) = self.jobs.seat(&id) else { return };
        let Some(job) = self.jobs.get_mut(seat) else { return };
        let State::Recording { worker } = job.state else { return };
        if job.epoch != epoch {
            return;
        }
        job.state = State::Leased(Lease { worker, expires: now.saturating_add(self.config.lease_micros), seen: None });
        if let Some(hold) = self.workers.get_mut(&worker).and_then(|worker| worker.holds.get_mut(&id)) {
            hold.recorded = true;
        }
        self.todo.dirty.insert(worker);
        self.set_timer(seat);
    }

    /// Accepts or refuses an outcome. This is the only place that lets results in: they must come
    /// from the holder of the latest attempt.
    pub(super) fn committed(
        &mut self,
        now: Time,
        worker: WorkerId,
        id: JobId,
        epoch: u64,
        outcome: Outcome,
        effects: &mut Vec<Effect>,
    ) {
        if self.checks.contains(id) {
            return self.check_committed(worker, id, epoch, &outcome, effects);
        }
        let seat = self.jobs.seat(&id);
        let job = seat.and_then(|seat| Some((seat, self.jobs.get_mut(seat)?)));
        let current = job.filter(|(_, job)| {
            job.epoch == epoch && matches!(job.state, State::Leased(Lease { worker: holder, .. }) if holder == worker)
        });
        let Some((seat, job)) = current else {
            return self.refuse(worker, id, epoch, effects);
        };
        effects.push(Effect::Accept { job: id, epoch });
        match outcome {
            Outcome::Succeeded => self.finish(now, seat, End::Succeeded, effects),
            Outcome::Failed { retry: Retry::Never, reason } => self.finish(now, seat, End::Failed(reason), effects),
            Outcome::Failed { retry, reason } => {
                // The worker survived the job, which clears the suspicion.
                job.suspect = None;
                if retry == Retry::Elsewhere {
                    self.refused(now, worker, seat);
                }
                self.lose_attempt(now, seat, Why::Failed, reason, effects);
            }
        }
    }

    /// Refuses an outcome.
    pub(super) fn refuse(&mut self, worker: WorkerId, job: JobId, epoch: u64, effects: &mut Vec<Effect>) {
        self.counters.refused += 1;
        // The worker does not know that it lost the lease, so it gets its assignment again.
        if self.workers.contains_key(&worker) {
            self.todo.dirty.insert(worker);
        }
        effects.push(Effect::Refuse { job, epoch });
    }

    /// Counts a lost attempt against the job. The job goes back to the queue, or ends if this was
    /// its last attempt.
    pub(super) fn lose_attempt(&mut self, now: Time, seat: Seat, why: Why, reason: Reason, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get_mut(seat) else { return };
        job.attempts += 1;
        if job.attempts >= self.config.attempts_max {
            self.finish(now, seat, End::Failed(reason), effects);
        } else {
            self.requeue(seat, why, effects);
        }
    }

    /// Ends an attempt that the worker no longer reports. If the worker never reported it, the
    /// attempt has not begun and does not count against the job.
    pub(super) fn lose_silent(&mut self, now: Time, seat: Seat, why: Why, effects: &mut Vec<Effect>) {
        if self.jobs.get(seat).is_some_and(Job::is_seen) {
            self.lose_attempt(now, seat, why, Reason::Borrowed(reasons::ATTEMPTS_EXHAUSTED), effects);
        } else {
            self.requeue(seat, why, effects);
        }
    }

    /// Ends the attempt and puts the job back into the queue.
    pub(super) fn requeue(&mut self, seat: Seat, why: Why, effects: &mut Vec<Effect>) {
        self.withdraw(seat);
        self.relent(seat);
        let Some(job) = self.jobs.get_mut(seat) else { return };
        job.state = State::Queued;
        effects.push(Effect::Requeued {
            job: job.spec.id,
            attempts: job.attempts,
            epoch: job.epoch,
            suspect: job.suspect,
            solo_crashes: job.solo_crashes,
            why,
        });
        *self.counters.requeued.entry(why).or_default() += 1;
        self.enqueue(seat);
        self.set_timer(seat);
    }

    pub(super) fn enqueue(&mut self, seat: Seat) {
        let Some(job) = self.jobs.get(seat) else { return };
        match job.suspect {
            Some(suspect) => self.suspects.insert(suspect, job.spec.group.set, job.spec.id),
            None => self.queue.insert(&job.entry(seat, &self.config)),
        }
        self.ages.insert(job.submitted);
        if job.spec.cost > 0 {
            *self.waiting.entry(job.spec.group.set).or_default() += u128::from(job.spec.cost);
        }
        self.todo.fresh.push(seat);
    }

    /// Takes a job off its worker, if it has one.
    fn withdraw(&mut self, seat: Seat) {
        let Some(job) = self.jobs.get(seat) else { return };
        let Some(holder) = job.worker() else { return };
        let Some(worker) = self.workers.get_mut(&holder) else { return };
        if worker.release(job, &self.config) {
            self.todo.dirty.insert(holder);
        }
        self.todo.wake.insert(holder);
        self.after_release(holder);
    }

    pub(super) fn cancel(&mut self, now: Time, id: JobId, effects: &mut Vec<Effect>) {
        if let Some(seat) = self.jobs.seat(&id) {
            self.finish(now, seat, End::Cancelled, effects);
        }
    }

    /// Ends a job. The scheduler forgets the job, so nothing can end it again.
    pub(super) fn finish(&mut self, now: Time, seat: Seat, end: End, effects: &mut Vec<Effect>) {
        self.withdraw(seat);
        self.timers.remove(seat, &mut self.jobs);
        let Some(job) = self.jobs.remove(seat) else { return };
        let (id, group, cost) = (job.spec.id, job.spec.group, job.spec.cost);
        if job.state == State::Queued {
            match job.suspect {
                Some(suspect) => self.suspects.remove(suspect, group.set, id),
                None => self.queue.remove(&job.entry(seat, &self.config)),
            }
            self.ages.remove(job.submitted);
            take_off(&mut self.waiting, group.set, cost);
        } else {
            self.meter.finished(now, cost);
        }
        self.total.jobs -= 1;
        self.total.cost -= u128::from(cost);
        if let Some(load) = self.tenants.get_mut(&group.tenant) {
            load.jobs -= 1;
            load.cost -= u128::from(cost);
            if load.jobs == 0 {
                self.tenants.remove(&group.tenant);
            }
        }
        match end {
            End::Succeeded => self.counters.succeeded += 1,
            End::Failed(_) => self.counters.failed += 1,
            End::Cancelled => self.counters.cancelled += 1,
            End::DeadlineExceeded => self.counters.deadline_exceeded += 1,
        }
        effects.push(Effect::Finished { job: id, end });
    }
}

/// Takes the cost of a job off the cost of its set.
fn take_off(waiting: &mut BTreeMap<SetId, u128>, set: SetId, cost: u64) {
    if let Some(sum) = waiting.get_mut(&set) {
        *sum -= u128::from(cost);
        if *sum == 0 {
            waiting.remove(&set);
        }
    }
}
