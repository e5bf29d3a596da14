//! Jobs that are too large for some workers.
//!
//! A worker learns the memory need of a job only when it has the job, and hands back a job that
//! does not fit. The job then waits for a worker that has not refused it, even while other workers
//! are free. If every worker has refused the job, the job rests. A new worker may be about to
//! attach, or the missing memory may be in use only for now. After the rest, all workers may have
//! the job again.

use super::Scheduler;
use crate::queue::Class;
use crate::seat::Seat;
use crate::types::{Time, WorkerId};

impl Scheduler {
    /// Records that a worker handed back a job that is too large for it.
    pub(super) fn refused(&mut self, now: Time, worker: WorkerId, seat: Seat) {
        let Some(job) = self.jobs.get_mut(seat) else { return };
        if let Err(place) = job.refused_by.binary_search(&worker) {
            let mut refused_by = std::mem::take(&mut job.refused_by).into_vec();
            refused_by.insert(place, worker);
            job.refused_by = refused_by.into();
        }
        let Some(job) = self.jobs.get(seat) else { return };
        let rests_until = (!self.could_take(&job.class())).then(|| now.saturating_add(self.rest_after(job.attempts)));
        if let Some(job) = self.jobs.get_mut(seat) {
            job.rests_until = rests_until;
        }
    }

    /// The length of a job's rest. The length doubles with each attempt, and is one lease before
    /// the last attempt.
    fn rest_after(&self, attempts: u32) -> Time {
        let attempts_left = self.config.attempts_max.saturating_sub(attempts);
        self.config.lease_micros >> attempts_left.saturating_sub(2).min(63)
    }

    /// Makes a requeued job open to all workers if every worker that could take it has refused it.
    /// A resting job is left alone.
    pub(super) fn relent(&mut self, seat: Seat) {
        let Some(job) = self.jobs.get(seat) else { return };
        let is_kept = !job.refused_by.is_empty() && job.rests_until.is_none();
        if is_kept && !self.could_take(&job.class()) {
            self.forget_refusals(seat);
        }
    }

    /// Makes waiting jobs open to all workers, once the last worker that could take them is gone.
    pub(super) fn relent_to_all(&mut self) {
        if !std::mem::take(&mut self.todo.fewer) {
            return;
        }
        let hopeless: Vec<Class> = self.queue.refused().filter(|class| !self.could_take(class)).cloned().collect();
        let seats: Vec<Seat> = hopeless.iter().flat_map(|class| self.queue.seats_of(class)).collect();
        seats.into_iter().for_each(|seat| self.open_to_all(seat));
    }

    /// Lets a waiting job go to any worker again.
    pub(super) fn open_to_all(&mut self, seat: Seat) {
        let Some(job) = self.jobs.get(seat) else { return };
        self.queue.remove(&job.entry(seat, &self.config));
        self.forget_refusals(seat);
        if let Some(job) = self.jobs.get(seat) {
            self.queue.insert(&job.entry(seat, &self.config));
            self.todo.fresh.push(seat);
        }
    }

    fn forget_refusals(&mut self, seat: Seat) {
        if let Some(job) = self.jobs.get_mut(seat) {
            (job.refused_by, job.rests_until) = (Box::default(), None);
        }
    }

    /// Whether some worker could take jobs of a class.
    pub(super) fn could_take(&self, class: &Class) -> bool {
        self.workers.iter().any(|(id, worker)| !class.refused_by.contains(id) && worker.would_take(class.set))
    }
}
