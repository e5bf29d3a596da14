//! Deadlines, leases and progress that run out.

use super::Scheduler;
use crate::event::{Effect, End, Why};
use crate::job::State;
use crate::types::{JobId, Time, WorkerId};

/// Most timers that one tick looks at, so that a step has a bound. The next tick is due at once then.
const PER_TICK: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Worker(WorkerId),
    Job(JobId),
}

impl Scheduler {
    /// Earliest time at which a [`crate::Event::Tick`] may do something.
    pub fn next_timer(&self) -> Option<Time> {
        self.timers.first().map(|(time, _)| *time)
    }

    pub(super) fn tick(&mut self, now: Time, effects: &mut Vec<Effect>) {
        for _ in 0..PER_TICK {
            match self.timers.first() {
                Some(&(time, timer)) if time <= now => {
                    self.timers.pop_first();
                    match timer {
                        Timer::Job(id) => self.job_due(now, id, time, effects),
                        Timer::Worker(id) => self.worker_due(now, id, effects),
                    }
                }
                _ => break,
            }
        }
    }

    /// Moves a job's timer forward if it must ring earlier than it would.
    pub(super) fn set_timer(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let due = job.due(&self.config);
        if due < job.timer {
            self.timers.remove(&(job.timer, Timer::Job(id)));
            self.timers.insert((due, Timer::Job(id)));
            job.timer = due;
        }
    }

    fn job_due(&mut self, now: Time, id: JobId, rang: Time, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        debug_assert_eq!(job.timer, rang, "a job has one timer");
        // A time that is due again at once would ring for ever in this tick.
        job.timer = Time::MAX;
        self.timers.insert((Time::MAX, Timer::Job(id)));
        if job.spec.deadline <= now {
            return self.finish(now, id, End::DeadlineExceeded, effects);
        }
        let lost = match &job.state {
            State::Leased(lease) if lease.expires <= now => Some(Why::LeaseExpired),
            State::Leased(lease) if lease.stalls(&self.config) <= now => Some(Why::NoProgress),
            _ => None,
        };
        if let Some(why) = lost {
            self.lose_attempt(now, id, why, Self::exhausted(), effects);
        }
        self.set_timer(id);
    }

    fn worker_due(&mut self, now: Time, id: WorkerId, effects: &mut Vec<Effect>) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if worker.silent_at > now {
            worker.timer = worker.silent_at;
            self.timers.insert((worker.timer, Timer::Worker(id)));
            return;
        }
        self.counters.workers_silent += 1;
        let Some(worker) = self.remove_worker(id) else { return };
        for (job, hold) in worker.holds {
            if hold.recorded {
                self.lose_attempt(now, job, Why::LeaseExpired, Self::exhausted(), effects);
            } else {
                self.requeue(job, Why::NotStarted, effects);
            }
        }
    }
}
