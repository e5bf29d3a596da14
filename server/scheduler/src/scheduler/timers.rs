//! Timers: deadlines, leases and progress timeouts.

use super::Scheduler;
use crate::event::{Effect, End, Why};
use crate::job::State;
use crate::seat::Seat;
use crate::types::{Time, WorkerId};

/// Maximum number of timers that one tick fires, and that it moves to `near`. The bound keeps a
/// step short. If more are due, the next tick is due at once.
const TIMERS_PER_TICK: usize = 1024;

impl Scheduler {
    /// Earliest time at which a [`crate::Event::Tick`] may have an effect. Nothing is due before.
    pub fn next_timer(&self) -> Option<Time> {
        let job = self.timers.next();
        let worker = self.silences.first().map(|(time, _)| *time);
        job.into_iter().chain(worker).chain(self.checks.next_end()).min()
    }

    pub(super) fn tick(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.end_late_checks(now, effects);
        self.timers.approach(now, TIMERS_PER_TICK, &mut self.jobs);
        for _ in 0..TIMERS_PER_TICK {
            let job = self.timers.first_due(now);
            let worker = self.silences.first().copied().filter(|(time, _)| *time <= now);
            match (worker, job) {
                (Some((silent, id)), job) if job.is_none_or(|(due, _)| silent <= due) => {
                    self.silences.pop_first();
                    self.worker_due(now, id, effects);
                }
                (_, Some((_, seat))) => {
                    self.timers.remove(seat, &mut self.jobs);
                    self.job_due(now, seat, effects);
                }
                _ => break,
            }
        }
    }

    /// Moves a job's timer to an earlier time if the job is due before it.
    pub(super) fn set_timer(&mut self, seat: Seat) {
        let Some(job) = self.jobs.get(seat) else { return };
        let due = job.due(&self.config);
        if due < job.timer {
            self.timers.remove(seat, &mut self.jobs);
            self.timers.insert(due, seat, &mut self.jobs);
        }
    }

    fn job_due(&mut self, now: Time, seat: Seat, effects: &mut Vec<Effect>) {
        // The timer is parked at the far end first. A timer that is due again at once would fire
        // endlessly in this tick.
        self.timers.insert(Time::MAX, seat, &mut self.jobs);
        let Some(job) = self.jobs.get(seat) else { return };
        if job.spec.deadline <= now {
            return self.finish(now, seat, End::DeadlineExceeded, effects);
        }
        if job.state == State::Queued && job.rests_until.is_some_and(|until| until <= now) {
            self.open_to_all(seat);
            return self.set_timer(seat);
        }
        let lost = match &job.state {
            State::Leased(lease) if lease.expires <= now => Some(Why::LeaseExpired),
            State::Leased(lease) if lease.stalls(&self.config) <= now => Some(Why::NoProgress),
            _ => None,
        };
        if let Some(why) = lost {
            self.lose_silent(now, seat, why, effects);
        }
        self.set_timer(seat);
    }

    fn worker_due(&mut self, now: Time, id: WorkerId, effects: &mut Vec<Effect>) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if worker.silent_at > now {
            worker.timer = worker.silent_at;
            self.silences.insert((worker.timer, id));
            return;
        }
        self.counters.workers_silent += 1;
        let Some(worker) = self.remove_worker(id) else { return };
        self.lose_checks(id, &worker, effects);
        for hold in worker.holds.into_values() {
            if hold.recorded {
                self.lose_silent(now, hold.seat, Why::LeaseExpired, effects);
            } else {
                self.requeue(hold.seat, Why::NotStarted, effects);
            }
        }
    }
}
