//! Consistency checks of all redundant indexes.

use std::collections::{BTreeMap, BTreeSet};

use cloakwork_params::SetId;

use super::ages::Ages;
use super::rooms::Rooms;
use super::{Load, Scheduler};
use crate::job::{Job, State};
use crate::queue::Size;
use crate::seat::Seat;
use crate::types::{Group, TenantId, WorkerId};
use crate::worker::{Mode, Worker};

impl Scheduler {
    /// Panics where two indexes disagree or a rule is broken. Takes time linear in the number of
    /// jobs: for tests only.
    pub fn check(&self) {
        self.check_jobs();
        self.check_workers();
        self.check_checks();
        self.check_rooms();
        self.check_totals();
        let todo = &self.todo;
        assert!(
            todo.fresh.is_empty() && todo.wake.is_empty() && todo.spare.is_empty() && !todo.wake_all && !todo.fewer,
            "a step is left unfinished"
        );
    }

    fn check_jobs(&self) {
        self.jobs.check();
        let mut ages = Ages::default();
        for (seat, job) in self.jobs.iter() {
            let id = &job.spec.id;
            assert!(job.timer <= job.due(&self.config), "the timer of {id:?} fires too late: {job:?}");
            if job.state == State::Queued {
                ages.insert(job.submitted);
            }
            if let Some(holder) = job.worker() {
                let hold = self.workers.get(&holder).and_then(|worker| worker.holds.get(id));
                let recorded = matches!(job.state, State::Leased(_));
                assert!(
                    hold.is_some_and(|hold| (hold.seat, hold.epoch, hold.recorded) == (seat, job.epoch, recorded)),
                    "{id:?} is not among the holds of its worker"
                );
            }
        }
        let queued = || self.jobs.iter().filter(|(_, job)| job.state == State::Queued);
        let entry = |(seat, job): (Seat, &Job)| job.entry(seat, &self.config);
        self.queue.check(queued().filter(|(_, job)| job.suspect.is_none()).map(entry));
        let rests = |seat: Seat| self.jobs.get(seat).is_some_and(|job| job.rests_until.is_some());
        for class in self.queue.refused().filter(|class| !self.recovering && !self.could_take(class)) {
            let all_rest = self.queue.seats_of(class).into_iter().all(rests);
            assert!(all_rest, "I7: jobs of {class:?} wait for a worker that does not exist");
        }
        self.suspects.check(queued().filter_map(|(_, job)| Some((job.suspect?, job.spec.group.set, job.spec.id))));
        assert_eq!(self.ages, ages, "ages");
        let timers = self.jobs.iter().map(|(seat, job)| (seat, job.timer)).collect();
        self.timers.check(&timers, &self.jobs);
        assert_eq!(self.silences.len(), self.workers.len(), "silences");
    }

    fn check_workers(&self) {
        for (id, worker) in &self.workers {
            assert!(worker.timer <= worker.silent_at, "the timer of {id:?} fires too late");
            assert!(self.silences.contains(&(worker.timer, *id)), "{id:?} has no timer");
            let jobs: Vec<_> = worker.holds.values().filter_map(|hold| self.jobs.get(hold.seat)).collect();
            assert!(
                jobs.iter().map(|job| &job.spec.id).eq(worker.holds.keys()),
                "{id:?} holds jobs that the scheduler does not have"
            );
            assert!(jobs.iter().all(|job| job.worker() == Some(*id)), "{id:?} holds jobs of another worker");
            for (hold, job) in worker.holds.values().zip(&jobs) {
                assert_eq!(hold.left, job.left(), "remaining cost of {job:?}");
            }
            assert_eq!(worker.held_cost, jobs.iter().map(|job| job.left()).sum::<u64>(), "cost on {id:?}");
            assert_eq!(worker.held_bytes, jobs.iter().map(|job| job.spec.bytes).sum::<u64>(), "bytes on {id:?}");
            let (short, long): (Vec<&Job>, Vec<_>) = jobs.iter().partition(|job| job.size(&self.config) == Size::Short);
            assert_eq!(worker.held_short, short.iter().map(|job| job.left()).sum::<u64>(), "short jobs on {id:?}");
            let mut tenants: BTreeMap<TenantId, usize> = BTreeMap::new();
            long.iter().for_each(|job| *tenants.entry(job.spec.group.tenant).or_default() += 1);
            assert_eq!(worker.long, tenants, "long jobs on {id:?}");
            self.check_room(id, worker);
            let mut groups: BTreeMap<Group, usize> = BTreeMap::new();
            jobs.iter().for_each(|job| *groups.entry(job.spec.group).or_default() += 1);
            assert_eq!(worker.groups, groups, "groups on {id:?}");
            let suspects: BTreeSet<_> = jobs.iter().map(|job| job.suspect).collect();
            match worker.mode {
                // During recovery, acquitted jobs cannot be told from suspects until all jobs are
                // restored.
                _ if self.recovering => {}
                Mode::Exclusive => assert!(!suspects.contains(&None) && !jobs.is_empty(), "{id:?} is exclusive"),
                _ => assert!(suspects.iter().all(Option::is_none), "{id:?} holds suspects beside others"),
            }
        }
    }

    /// I7: no job waits while a worker has room for it.
    fn check_room(&self, id: &WorkerId, worker: &Worker) {
        if self.recovering || worker.mode != Mode::Shared || worker.clinging_since.is_some() {
            return;
        }
        // A worker that is about to be reserved for suspects gets no other jobs.
        if self.suspects.is_empty() || worker.is_taken_up() {
            let waits = self.next_for(0, *id, worker).and_then(|seat| self.jobs.get(seat));
            // A long job beside others may be admitted later: with time, or when suspects are gone,
            // at the next report.
            let waits = waits.filter(|job| worker.wants_any() || job.size(&self.config) == Size::Short);
            assert!(waits.is_none(), "I7: {waits:?} waits beside {id:?}, which has room for it");
        }
    }

    /// I8: a fresh job finds every worker with room.
    fn check_rooms(&self) {
        let mut rooms = Rooms::default();
        for (id, worker) in self.workers.iter().filter(|(_, worker)| worker.has_room(&self.config)) {
            rooms.insert(*id, &worker.sets);
        }
        assert!(self.recovering || self.rooms == rooms, "I8: rooms: {:?} instead of {rooms:?}", self.rooms);
    }

    fn check_totals(&self) {
        let mut tenants: BTreeMap<TenantId, Load> = BTreeMap::new();
        let mut waiting: BTreeMap<SetId, u128> = BTreeMap::new();
        for (_, job) in self.jobs.iter() {
            if job.state == State::Queued {
                *waiting.entry(job.spec.group.set).or_default() += u128::from(job.spec.cost);
            }
            let load = tenants.entry(job.spec.group.tenant).or_default();
            load.jobs += 1;
            load.cost += u128::from(job.spec.cost);
        }
        waiting.retain(|_, cost| *cost > 0);
        assert_eq!(self.waiting, waiting, "I8: cost of the waiting jobs");
        assert_eq!(self.tenants, tenants, "load of the tenants");
        assert_eq!(self.total.jobs, self.jobs.len(), "load in all");
        let counters = &self.counters;
        let ended = counters.succeeded + counters.failed + counters.cancelled + counters.deadline_exceeded;
        assert_eq!(counters.submitted + counters.restored, ended + self.jobs.len() as u64, "I8: jobs in and out");
    }
}
