//! Isolation of the job that kills its worker (the poison job).
//!
//! All jobs that a crashed worker held become suspects. The suspects are retried in halves, and
//! each half runs alone on a worker. Any end of an attempt other than a crash clears its job. The
//! suspects therefore halve with each crash until the culprit stands alone. The state of the search
//! is stored with the jobs, so it continues after the server died with the worker.
//!
//! A suspect that computes for long enough without a crash is acquitted. The job may run for hours,
//! and other jobs need not wait for that.

use std::collections::{BTreeMap, BTreeSet};

use cloakwork_params::SetId;

use super::Scheduler;
use crate::event::{Effect, End, Reason, Why, reasons};
use crate::job::{Job, Shown};
use crate::seat::Seat;
use crate::types::{JobId, SuspectId, Time, WorkerId};
use crate::worker::{Hold, Mode, Turn, Worker};

/// The suspects that wait for a trial.
#[derive(Clone, Debug, Default)]
pub(super) struct Suspects {
    last: u64,
    len: usize,
    groups: BTreeMap<SuspectId, BTreeSet<JobId>>,
    by_set: BTreeMap<SetId, BTreeSet<(SuspectId, JobId)>>,
}

impl Suspects {
    /// Creates a group with a new ID.
    pub(super) fn create(&mut self) -> SuspectId {
        self.last += 1;
        SuspectId(self.last)
    }

    /// Reserves the ID of a group that an earlier process created.
    pub(super) fn used(&mut self, suspect: Option<SuspectId>) {
        self.last = self.last.max(suspect.map_or(0, |suspect| suspect.0));
    }

    pub(super) fn insert(&mut self, suspect: SuspectId, set: SetId, job: JobId) {
        self.len += usize::from(self.groups.entry(suspect).or_default().insert(job));
        self.by_set.entry(set).or_default().insert((suspect, job));
    }

    pub(super) fn remove(&mut self, suspect: SuspectId, set: SetId, job: JobId) {
        if let Some(group) = self.groups.get_mut(&suspect) {
            self.len -= usize::from(group.remove(&job));
            if group.is_empty() {
                self.groups.remove(&suspect);
            }
        }
        if let Some(jobs) = self.by_set.get_mut(&set) {
            jobs.remove(&(suspect, job));
            if jobs.is_empty() {
                self.by_set.remove(&set);
            }
        }
    }

    /// The oldest group that has a job for one of these sets.
    pub(super) fn first_for(&self, sets: &BTreeSet<SetId>) -> Option<SuspectId> {
        if self.groups.is_empty() {
            return None;
        }
        sets.iter().filter_map(|set| Some(self.by_set.get(set)?.first()?.0)).min()
    }

    fn members(&self, suspect: SuspectId) -> Vec<JobId> {
        self.groups.get(&suspect).map_or_else(Vec::new, |jobs| jobs.iter().copied().collect())
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Panics where the indexes disagree. `queued` yields every job that should be here, once.
    pub(super) fn check(&self, queued: impl Iterator<Item = (SuspectId, SetId, JobId)>) {
        let mut count = 0;
        for (suspect, set, job) in queued {
            count += 1;
            assert!(self.groups.get(&suspect).is_some_and(|jobs| jobs.contains(&job)), "{job:?} is not in its group");
            assert!(self.by_set.get(&set).is_some_and(|jobs| jobs.contains(&(suspect, job))), "{job:?} is not by set");
            assert!(suspect.0 <= self.last, "{suspect:?} would be given away again");
        }
        assert_eq!(count, self.len, "suspects");
        assert_eq!(count, self.groups.values().map(BTreeSet::len).sum::<usize>(), "suspects in groups");
        assert_eq!(count, self.by_set.values().map(BTreeSet::len).sum::<usize>(), "suspects by set");
    }
}

impl Scheduler {
    /// Blames the jobs that a crashed worker was computing. The worker is already removed. A job
    /// that was not `alone` there is only suspected: a check may have crashed the worker.
    pub(super) fn blame(&mut self, now: Time, mut held: Vec<Seat>, alone: bool, effects: &mut Vec<Effect>) {
        self.counters.crashes += 1;
        if let ([seat], true) = (&held[..], alone) {
            let seat = *seat;
            return self.blame_one(now, seat, effects);
        }
        // Sorting keeps jobs of one group together, so that each half fills its waves.
        held.sort_by_key(|seat| self.jobs.get(*seat).map(|job| (job.spec.group, job.spec.id)));
        let (first, second) = held.split_at(held.len().div_ceil(2));
        for half in [first, second].into_iter().filter(|half| !half.is_empty()) {
            let suspect = self.suspects.create();
            for &seat in half {
                if let Some(job) = self.jobs.get_mut(seat) {
                    job.suspect = Some(suspect);
                }
                self.requeue(seat, Why::WorkerCrashed, effects);
            }
        }
    }

    fn blame_one(&mut self, now: Time, seat: Seat, effects: &mut Vec<Effect>) {
        let suspect = self.suspects.create();
        let Some(job) = self.jobs.get_mut(seat) else { return };
        job.suspect = Some(suspect);
        job.solo_crashes += 1;
        if job.solo_crashes >= self.config.solo_crashes_max {
            self.finish(now, seat, End::Failed(Reason::Borrowed(reasons::POISON)), effects);
        } else {
            self.requeue(seat, Why::WorkerCrashed, effects);
        }
    }

    /// Gives suspects their turn on a worker. Returns true if the worker gets suspects or is
    /// reserved for them.
    pub(super) fn try_suspects(&mut self, id: WorkerId, effects: &mut Vec<Effect>) -> bool {
        let Some(worker) = self.workers.get(&id) else { return false };
        let pending = if worker.turn == Turn::Suspects { self.suspects.first_for(&worker.sets) } else { None };
        let Some(suspect) = pending else { return self.set_mode(id, Mode::Shared) };
        // A trial needs a worker without anything else.
        self.withdraw_checks(id);
        let Some(worker) = self.workers.get(&id) else { return false };
        let others = |count: &dyn Fn(&Worker) -> bool| {
            self.workers.iter().filter(|(other, worker)| **other != id && count(worker)).count()
        };
        // At most half of the workers are kept from other work.
        let limit = (others(&Worker::takes_work) + 1).div_ceil(2);
        if worker.holds.is_empty() && worker.idle && others(&|worker| worker.mode == Mode::Exclusive) < limit {
            self.begin_trial(id, suspect, effects);
            return true;
        }
        // A worker with long jobs may take hours to become empty, so it is not reserved. The worker
        // only gets no more long jobs.
        if !worker.is_taken_up() && others(&|worker| worker.mode != Mode::Shared) < limit {
            self.set_mode(id, Mode::Reserved);
            return true;
        }
        self.set_mode(id, Mode::Shared)
    }

    /// Hands a group of suspects to an empty worker. Jobs that the worker cannot take become a
    /// separate group.
    fn begin_trial(&mut self, id: WorkerId, suspect: SuspectId, effects: &mut Vec<Effect>) {
        self.set_mode(id, Mode::Exclusive);
        let mut rest = None;
        for job_id in self.suspects.members(suspect) {
            let Some(seat) = self.jobs.seat(&job_id) else { continue };
            let (Some(worker), Some(job)) = (self.workers.get(&id), self.jobs.get_mut(seat)) else { continue };
            let set = job.spec.group.set;
            let full = worker.held_cost >= worker.wanted || !worker.has_place(&self.config);
            if worker.sets.contains(&set) && !full {
                self.begin_attempt(id, seat, effects);
            } else {
                let rest = *rest.get_or_insert_with(|| self.suspects.create());
                self.suspects.remove(suspect, set, job_id);
                self.suspects.insert(rest, set, job_id);
                job.suspect = Some(rest);
            }
        }
        if self.workers.values().any(|worker| worker.mode == Mode::Reserved) {
            self.todo.wake_all = true;
        }
    }

    /// Ends a trial when none of its jobs is left. The other jobs have the next turn on this
    /// worker.
    pub(super) fn after_release(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if worker.mode == Mode::Exclusive && worker.holds.is_empty() {
            worker.mode = Mode::Shared;
            worker.turn = Turn::Others;
            self.todo.wake_all |= !self.suspects.is_empty();
        }
    }

    /// Ends the trial on a worker once all jobs that compute have computed for long enough. Jobs
    /// that have not begun, because they wait for resources of the others, are tried another time.
    pub(super) fn judge_trial(&mut self, id: WorkerId, effects: &mut Vec<Effect>) {
        let Some(worker) = self.workers.get(&id) else { return };
        if worker.mode != Mode::Exclusive {
            return;
        }
        let jobs = || worker.holds.values().filter_map(|hold| Some((hold.seat, self.jobs.get(hold.seat)?)));
        let stands = |job: &Job, shown: Shown| shown.last - shown.first >= job.trial(&self.config);
        let shown = || jobs().filter_map(|(_, job)| Some((job, job.shown()?)));
        if shown().next().is_none() || !shown().all(|(job, shown)| stands(job, shown)) {
            return;
        }
        let (acquitted, untried): (Vec<_>, Vec<_>) = jobs().partition(|(_, job)| job.shown().is_some());
        let seats = |jobs: Vec<(Seat, &Job)>| -> Vec<Seat> { jobs.into_iter().map(|(seat, _)| seat).collect() };
        let (acquitted, untried) = (seats(acquitted), seats(untried));
        untried.into_iter().for_each(|seat| self.requeue(seat, Why::NotStarted, effects));
        self.acquit(id, &acquitted);
    }

    /// Acquits these jobs of a worker. Other jobs may now join them, and have the next turn. The
    /// jobs' solo crashes stay counted.
    fn acquit(&mut self, id: WorkerId, jobs: &[Seat]) {
        for &seat in jobs {
            if let Some(job) = self.jobs.get_mut(seat) {
                self.counters.acquitted += u64::from(job.suspect.take().is_some());
            }
        }
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.mode = Mode::Shared;
            worker.turn = Turn::Others;
        }
        self.todo.wake.insert(id);
        self.todo.wake_all |= !self.suspects.is_empty();
    }

    /// Renews acquittals after a restart, because an acquittal is stored only with the next
    /// attempt. If the earlier process let other jobs join suspects, the suspects were acquitted.
    /// Suspects that are alone are tried again.
    pub(super) fn renew_acquittals(&mut self) {
        let is_suspect = |hold: &Hold| self.jobs.get(hold.seat).is_some_and(|job| job.suspect.is_some());
        let mixed = |worker: &Worker| worker.mode == Mode::Exclusive && !worker.holds.values().all(is_suspect);
        let workers = self.workers.iter().filter(|(_, worker)| mixed(worker));
        let held: Vec<(WorkerId, Vec<Seat>)> =
            workers.map(|(id, worker)| (*id, worker.holds.values().map(|hold| hold.seat).collect())).collect();
        held.iter().for_each(|(id, jobs)| self.acquit(*id, jobs));
    }

    /// Sets a worker's mode. Always returns false, as the result of callers that did not hand out
    /// suspects.
    fn set_mode(&mut self, id: WorkerId, mode: Mode) -> bool {
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.mode = mode;
        }
        false
    }
}
