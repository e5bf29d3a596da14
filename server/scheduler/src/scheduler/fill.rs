//! Placement: which worker gets which jobs.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::Scheduler;
use crate::event::Effect;
use crate::job::{Job, State};
use crate::queue::Choice;
use crate::queue::Size;
use crate::seat::Seat;
use crate::types::{Time, WorkerId};
use crate::worker::{Mode, Turn, Worker};

/// Maximum number of tenants whose next long job is examined for one that fits beside others.
const LONG_TENANTS_EXAMINED: usize = 16;
/// About the number of workers that a scan passes in the time of one look-up.
const SCANNED_PER_LOOK_UP: usize = 4;

impl Scheduler {
    /// Finishes a step: fills the workers that may take more, then finds a worker with room for
    /// each job that joined the queue.
    pub(super) fn settle(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.recovering {
            self.todo.fresh.clear();
            self.todo.fewer = false;
            self.todo.wake.clear();
            self.todo.wake_all = false;
            self.todo.spare.clear();
            return;
        }
        self.relent_to_all();
        let fresh = std::mem::take(&mut self.todo.fresh);
        self.todo.wake_all |= !self.suspects.is_empty() && !fresh.is_empty();
        while let Some(worker) = self.next_awake() {
            self.fill(now, worker, effects);
        }
        for seat in fresh {
            while self.is_waiting(seat) {
                let Some(worker) = self.best_worker(now, seat) else { break };
                if !self.fill(now, worker, effects) {
                    break;
                }
            }
        }
        // A trial that began in the second loop may have freed a reserved worker.
        while let Some(worker) = self.next_awake() {
            self.fill(now, worker, effects);
        }
        // Only now, after all jobs, so that no check takes the place of a job.
        while let Some(worker) = self.todo.spare.pop_first() {
            self.give_checks(now, worker);
        }
    }

    fn next_awake(&mut self) -> Option<WorkerId> {
        if std::mem::take(&mut self.todo.wake_all) {
            self.todo.wake.extend(self.workers.keys());
        }
        let worker = self.todo.wake.pop_first()?;
        if self.checks.is_waiting() {
            self.todo.spare.insert(worker);
        }
        Some(worker)
    }

    fn is_waiting(&self, seat: Seat) -> bool {
        self.jobs.get(seat).is_some_and(|job| job.state == State::Queued && job.suspect.is_none())
    }

    /// The best worker with room for the job. Workers that lack work come first, then workers that
    /// have the job's key, then the least loaded.
    fn best_worker(&self, now: Time, seat: Seat) -> Option<WorkerId> {
        let job = self.jobs.get(seat)?;
        let group = job.spec.group;
        let fits = |(id, worker): &(&WorkerId, &Worker)| {
            worker.mode == Mode::Shared
                && worker.is_open(now, &self.config)
                && worker.sets.contains(&group.set)
                && !job.refused_by.contains(id)
                && self.has_room_for(now, worker, job)
        };
        let place =
            |(id, worker): &(&WorkerId, &Worker)| (!worker.wants_any(), !worker.is_near(&group), worker.load(), **id);
        // While most workers have room, a scan costs less than a look-up of each.
        let rooms = self.rooms.of(group.set);
        let count: usize = rooms.clone().map(BTreeSet::len).sum();
        let best = if count * SCANNED_PER_LOOK_UP < self.workers.len() {
            let open = rooms.flatten().filter_map(|id| self.workers.get_key_value(id));
            open.filter(fits).min_by_key(place)
        } else {
            self.workers.iter().filter(fits).min_by_key(place)
        };
        best.map(|(id, _)| *id)
    }

    fn has_room_for(&self, now: Time, worker: &Worker, job: &Job) -> bool {
        worker.wants_any()
            || match job.size(&self.config) {
                Size::Short => worker.wants_short(),
                Size::Long => {
                    self.may_take_long(worker)
                        && !worker.long.contains_key(&job.spec.group.tenant)
                        && worker.fits_beside(now, job, &self.config)
                }
            }
    }

    /// Whether the worker may take another long job beside its own. False while suspects wait for
    /// the worker to become empty: they have waited long enough.
    fn may_take_long(&self, worker: &Worker) -> bool {
        worker.wants_long() && self.suspects.first_for(&worker.sets).is_none()
    }

    /// Hands jobs to a worker until it has no more room. Returns whether it got any. Each change
    /// that may give a worker room also wakes the worker. A worker therefore enters the index of
    /// rooms here alone.
    fn fill(&mut self, now: Time, id: WorkerId, effects: &mut Vec<Effect>) -> bool {
        let any = self.hand_out(now, id, effects);
        self.renew_room(id);
        any
    }

    fn hand_out(&mut self, now: Time, id: WorkerId, effects: &mut Vec<Effect>) -> bool {
        let config = self.config;
        let Some(worker) = self.workers.get_mut(&id) else { return false };
        if worker.mode == Mode::Reserved && !worker.is_willing(now, &config) {
            worker.mode = Mode::Shared;
            self.todo.wake_all = true;
        }
        if !worker.is_open(now, &config) || self.try_suspects(id, effects) {
            return false;
        }
        let any = self.fill_shared(now, id, effects);
        // If no other jobs wait for this worker, the suspects need not wait either.
        if self.end_turn(id) && !any {
            self.try_suspects(id, effects);
        }
        any
    }

    fn fill_shared(&mut self, now: Time, id: WorkerId, effects: &mut Vec<Effect>) -> bool {
        let mut any = false;
        while let Some(seat) = self.workers.get(&id).and_then(|worker| self.next_for(now, id, worker)) {
            self.begin_attempt(id, seat, effects);
            any = true;
        }
        any
    }

    /// The next job that the worker has room for.
    pub(super) fn next_for(&self, now: Time, id: WorkerId, worker: &Worker) -> Option<Seat> {
        if !worker.is_open(now, &self.config) {
            return None;
        }
        if worker.wants_any() {
            return self.pick(id, worker, Choice::Any);
        }
        let short = if worker.wants_short() { self.pick(id, worker, Choice::Short) } else { None };
        short.or_else(|| {
            if !self.may_take_long(worker) {
                return None;
            }
            // A long job that does not fit yet must not delay another tenant's long job.
            let mut besides = Cow::Borrowed(&worker.long);
            for _ in 0..LONG_TENANTS_EXAMINED {
                let seat = self.pick(id, worker, Choice::Long { besides: &besides })?;
                let job = self.jobs.get(seat)?;
                if worker.fits_beside(now, job, &self.config) {
                    return Some(seat);
                }
                besides.to_mut().insert(job.spec.group.tenant, 1);
            }
            None
        })
    }

    fn pick(&self, id: WorkerId, worker: &Worker, choice: Choice<'_>) -> Option<Seat> {
        self.queue.pick(id, &worker.sets, &worker.resident, choice, |group| worker.is_near(group))
    }

    /// Ends the turn of the other jobs on this worker. Returns whether it was their turn.
    fn end_turn(&mut self, id: WorkerId) -> bool {
        let Some(worker) = self.workers.get_mut(&id) else { return false };
        std::mem::replace(&mut worker.turn, Turn::Suspects) == Turn::Others
    }
}
