//! Jobs that are too large for some workers.
//!
//! A worker finds out what a job takes when it has it, and hands back what it has no memory for. Such a job waits for a
//! worker that has not done so, however long the others are free. Where there is none, it rests, for one may be about to
//! come, and what the others lacked may only be taken up: then all may have it again.

use super::Scheduler;
use crate::queue::Class;
use crate::seat::Seat;
use crate::types::{Time, WorkerId};

impl Scheduler {
    /// A worker hands back a job that is too large for it.
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

    /// Twice as long with each attempt, and a lease's time before the last one.
    fn rest_after(&self, attempts: u32) -> Time {
        let attempts_left = self.config.attempts_max.saturating_sub(attempts);
        self.config.lease >> attempts_left.saturating_sub(2).min(63)
    }

    /// What comes back to the queue, and has not to rest, is kept from nobody where nobody else would take it.
    pub(super) fn relent(&mut self, seat: Seat) {
        let Some(job) = self.jobs.get(seat) else { return };
        let is_kept = !job.refused_by.is_empty() && job.rests_until.is_none();
        if is_kept && !self.could_take(&job.class()) {
            self.forget_refusals(seat);
        }
    }

    /// Nor is what waits, once the last worker is gone that might have taken it.
    pub(super) fn relent_to_all(&mut self) {
        if !std::mem::take(&mut self.todo.fewer) {
            return;
        }
        let hopeless: Vec<Class> = self.queue.refused().filter(|class| !self.could_take(class)).cloned().collect();
        let seats: Vec<Seat> = hopeless.iter().flat_map(|class| self.queue.seats_of(class)).collect();
        seats.into_iter().for_each(|seat| self.open_to_all(seat));
    }

    /// A job that waits may go to any worker again.
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

    /// Whether there is a worker for a class.
    pub(super) fn could_take(&self, class: &Class) -> bool {
        self.workers.iter().any(|(id, worker)| !class.refused_by.contains(id) && worker.would_take(class.set))
    }
}
