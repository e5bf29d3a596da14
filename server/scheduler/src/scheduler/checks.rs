//! Second computations of rows (checks), and workers whose results were found wrong.
//!
//! A check never delays a tenant's job. Room for jobs is counted without checks, so a check takes
//! no job's place. A check begins on a worker that lacks work and for which no job waits. A service
//! under full load would then check nothing. A check that has waited for a lease's time may
//! therefore begin beside jobs, one on each worker.
//!
//! A check whose worker is lost ends. Its rows may have crashed the worker, and no tenant waits for
//! it. A check of a worker that leaves in order, or is quarantined, goes to another worker.

use std::collections::{BTreeMap, BTreeSet};

use cloakwork_params::SetId;

use super::Scheduler;
use crate::config::COST_MAX;
use crate::event::{CheckEnd, Effect, Outcome, Why};
use crate::seat::Seat;
use crate::types::{JobId, LeaseReport, NewCheck, Time, WorkerId};
use crate::worker::{Mode, Worker};

/// An odd number without a pattern: the golden ratio, in units of 2^-128. Products with it have
/// their first bits from all bits of the other factor.
const MIX: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// The checks that wait or run.
#[derive(Clone, Debug, Default)]
pub(super) struct Checks {
    all: BTreeMap<JobId, Check>,
    /// When each check expires.
    ends: BTreeSet<(Time, JobId)>,
    /// Number of checks that wait.
    waiting: usize,
}

/// A check and its state.
#[derive(Clone, Debug)]
struct Check {
    spec: NewCheck,
    submitted: Time,
    /// Number of times that the check was handed out.
    epoch: u64,
    worker: Option<WorkerId>,
}

impl Checks {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn contains(&self, id: JobId) -> bool {
        self.all.contains_key(&id)
    }

    /// Whether any check waits for a worker.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// When the next check expires.
    pub(super) fn next_end(&self) -> Option<Time> {
        self.ends.first().map(|(time, _)| *time)
    }

    fn insert(&mut self, check: Check) {
        self.waiting += 1;
        self.ends.insert((check.spec.until, check.spec.id));
        self.all.insert(check.spec.id, check);
    }

    fn remove(&mut self, id: JobId) -> Option<Check> {
        let check = self.all.remove(&id)?;
        self.ends.remove(&(check.spec.until, id));
        self.waiting -= usize::from(check.worker.is_none());
        Some(check)
    }
}

impl Check {
    /// Whether this worker's rows would compare with those of the first worker.
    fn fits(&self, id: WorkerId, worker: &Worker) -> bool {
        worker.class == self.spec.class && worker.serves(self.spec.group.set) && !self.spec.excluded.contains(&id)
    }
}

impl Scheduler {
    /// Whether some attached worker of the class computes rows of the set, apart from the excluded
    /// workers. The worker may want no work at present: a check waits for it.
    pub fn can_check(&self, class: &str, set: SetId, excluded: &[WorkerId]) -> bool {
        let fits =
            |(id, worker): (&WorkerId, &Worker)| worker.class == class && worker.serves(set) && !excluded.contains(id);
        !class.is_empty() && self.workers.iter().any(fits)
    }

    pub(super) fn check_submitted(&mut self, now: Time, spec: NewCheck, effects: &mut Vec<Effect>) {
        let id = spec.id;
        if self.checks.contains(id) || self.jobs.seat(&id).is_some() {
            return;
        }
        if self.checks.len() >= self.config.checks_max {
            return effects.push(Effect::CheckEnded { check: id, end: CheckEnd::Crowded });
        }
        if !self.can_check(&spec.class, spec.group.set, &spec.excluded) {
            return effects.push(Effect::CheckEnded { check: id, end: CheckEnd::NoWorker });
        }
        let spec = NewCheck { cost: spec.cost.min(COST_MAX), ..spec };
        let check = Check { spec, submitted: now, epoch: 0, worker: None };
        let fits = |(id, worker): &(&WorkerId, &Worker)| check.fits(**id, worker);
        // Each of them is asked, and first those that have the key. Otherwise the order changes
        // with each check: a worker could choose an id that is always the first.
        let order = |id: WorkerId, worker: &Worker| {
            (!worker.is_near(&check.spec.group), (id.0 ^ check.spec.id.0).wrapping_mul(MIX), id)
        };
        let mut fitting: Vec<(bool, u128, WorkerId)> =
            self.workers.iter().filter(fits).map(|(id, worker)| order(*id, worker)).collect();
        fitting.sort_unstable();
        self.checks.insert(check);
        for (.., worker) in fitting {
            if self.checks.is_waiting() && !self.recovering {
                self.give_checks(now, worker);
            }
        }
    }

    /// Hands waiting checks to a worker, as far as it has room for them. Called once all jobs have
    /// found their places.
    pub(super) fn give_checks(&mut self, now: Time, id: WorkerId) {
        while self.checks.is_waiting() {
            let Some(worker) = self.workers.get(&id) else { return };
            let config = &self.config;
            let is_open = worker.mode == Mode::Shared
                && worker.is_willing(now, config)
                && worker.checks.len() < config.checks_per_worker_max
                && self.suspects.first_for(&worker.sets).is_none();
            if !is_open {
                return;
            }
            // Work for the worker is looked for only if the answer matters: beside a check, the
            // worker gets another one only if it lacks work.
            let has_room = worker.held_cost.saturating_add(worker.checks_cost) < worker.wanted;
            let lacks_work = has_room && self.next_for(now, id, worker).is_none();
            if !lacks_work && !worker.checks.is_empty() {
                return;
            }
            let is_due = |check: &Check| {
                lacks_work || check.spec.urgent || now.saturating_sub(check.submitted) >= config.lease_micros
            };
            let waiting = self.checks.all.values().filter(|check| check.worker.is_none());
            let fitting = waiting.filter(|check| check.fits(id, worker) && is_due(check));
            let order = |check: &&Check| {
                (!check.spec.urgent, !worker.is_near(&check.spec.group), check.submitted, check.spec.id)
            };
            let Some(next) = fitting.min_by_key(order).map(|check| check.spec.id) else { return };
            self.begin_check(id, next);
        }
    }

    fn begin_check(&mut self, id: WorkerId, check: JobId) {
        let (Some(worker), Some(check)) = (self.workers.get_mut(&id), self.checks.all.get_mut(&check)) else { return };
        self.checks.waiting -= 1;
        check.epoch += 1;
        check.worker = Some(id);
        worker.checks.insert(check.spec.id, check.epoch);
        worker.checks_cost += check.spec.cost;
        (worker.has_company, worker.idle) = (true, false);
        self.todo.dirty.insert(id);
        self.counters.checks_begun += 1;
    }

    /// Whether the worker holds the check of this lease.
    pub(super) fn holds_check(&self, worker: WorkerId, lease: &LeaseReport) -> bool {
        self.workers.get(&worker).is_some_and(|worker| worker.checks.get(&lease.job) == Some(&lease.epoch))
    }

    /// Accepts or refuses the outcome of a check.
    pub(super) fn check_committed(
        &mut self,
        worker: WorkerId,
        id: JobId,
        epoch: u64,
        outcome: &Outcome,
        effects: &mut Vec<Effect>,
    ) {
        let current =
            self.checks.all.get(&id).is_some_and(|check| (check.worker, check.epoch) == (Some(worker), epoch));
        if !current {
            return self.refuse(worker, id, epoch, effects);
        }
        effects.push(Effect::Accept { job: id, epoch });
        let end = match outcome {
            Outcome::Succeeded => CheckEnd::Computed { worker },
            Outcome::Failed { .. } => CheckEnd::Failed { worker },
        };
        self.end_check(id, end, effects);
    }

    /// Ends checks whose time is over.
    pub(super) fn end_late_checks(&mut self, now: Time, effects: &mut Vec<Effect>) {
        while let Some(&(time, id)) = self.checks.ends.first() {
            if time > now {
                return;
            }
            self.end_check(id, CheckEnd::Expired, effects);
        }
    }

    /// Ends the checks of a worker that was removed.
    pub(super) fn lose_checks(&mut self, worker: WorkerId, removed: &Worker, effects: &mut Vec<Effect>) {
        for &check in removed.checks.keys() {
            self.end_check(check, CheckEnd::WorkerLost { worker }, effects);
        }
    }

    /// Takes all checks off a worker. These checks wait for another worker, or for another time.
    pub(super) fn withdraw_checks(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.checks_cost = 0;
        for check in std::mem::take(&mut worker.checks).into_keys() {
            self.todo.dirty.insert(id);
            self.todo.wake_all = true;
            if let Some(check) = self.checks.all.get_mut(&check) {
                self.checks.waiting += usize::from(check.worker.take().is_some());
            }
        }
    }

    fn end_check(&mut self, id: JobId, end: CheckEnd, effects: &mut Vec<Effect>) {
        let Some(check) = self.checks.remove(id) else { return };
        if let Some((holder, worker)) = check.worker.and_then(|id| Some((id, self.workers.get_mut(&id)?)))
            && worker.checks.remove(&id).is_some()
        {
            worker.checks_cost -= check.spec.cost;
            self.todo.dirty.insert(holder);
            self.todo.spare.insert(holder);
        }
        self.counters.checks_computed += u64::from(matches!(end, CheckEnd::Computed { .. }));
        effects.push(Effect::CheckEnded { check: id, end });
    }

    /// Takes all work off a worker whose results were found wrong, and gives it no more. Its jobs
    /// lose no attempt.
    pub(super) fn quarantine(&mut self, id: WorkerId, effects: &mut Vec<Effect>) {
        if self.quarantined.contains(&id) {
            return;
        }
        if self.quarantined.len() >= self.config.quarantined_max && !self.quarantined.is_empty() {
            self.quarantined.remove(0);
        }
        self.quarantined.push(id);
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.quarantined = true;
        let held: Vec<Seat> = worker.holds.values().map(|hold| hold.seat).collect();
        if worker.mode == Mode::Reserved {
            worker.mode = Mode::Shared;
            self.todo.wake_all = true;
        }
        self.todo.fewer = true;
        self.todo.wake.insert(id);
        // One more worker may now try suspects.
        self.todo.wake_all |= !self.suspects.is_empty();
        self.withdraw_checks(id);
        held.into_iter().for_each(|seat| self.requeue(seat, Why::Quarantined, effects));
    }

    /// Whether a crash of the worker may have another cause than the jobs that it holds.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn has_company(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(|worker| worker.has_company && worker.mode != Mode::Exclusive)
    }

    /// Panics where a rule about checks is broken.
    pub(super) fn check_checks(&self) {
        let checks = &self.checks;
        assert!(checks.len() <= self.config.checks_max, "I6: {} checks", checks.len());
        assert_eq!(
            checks.waiting,
            checks.all.values().filter(|check| check.worker.is_none()).count(),
            "waiting checks"
        );
        let ends: BTreeSet<_> = checks.all.values().map(|check| (check.spec.until, check.spec.id)).collect();
        assert_eq!(checks.ends, ends, "ends of checks");
        for (id, check) in &checks.all {
            assert!(self.jobs.seat(id).is_none(), "{id:?} is a job and a check");
            let Some(holder) = check.worker else { continue };
            let worker = self.workers.get(&holder);
            assert_eq!(worker.and_then(|worker| worker.checks.get(id)), Some(&check.epoch), "holder of {id:?}");
            assert!(!check.spec.excluded.contains(&holder), "{id:?} runs where its rows came from");
            assert_eq!(worker.map(|worker| &worker.class), Some(&check.spec.class), "class of {id:?}");
        }
        for (id, worker) in &self.workers {
            let held: Vec<&Check> = worker.checks.keys().filter_map(|check| checks.all.get(check)).collect();
            assert!(held.iter().all(|check| check.worker == Some(*id)), "{id:?} holds checks of another worker");
            assert_eq!(held.len(), worker.checks.len(), "{id:?} holds checks that have ended");
            assert!(held.len() <= self.config.checks_per_worker_max, "I6: checks on {id:?}");
            assert_eq!(worker.checks_cost, held.iter().map(|check| check.spec.cost).sum::<u64>(), "checks on {id:?}");
            assert!(worker.mode != Mode::Exclusive || held.is_empty(), "I5: a check beside suspects on {id:?}");
            assert!(held.is_empty() || worker.has_company, "{id:?} looks as if it ran no check");
            assert!(worker.quarantined || !self.quarantined.contains(id), "{id:?} is not quarantined");
            let is_free = worker.holds.is_empty() && worker.checks.is_empty();
            assert!(!worker.quarantined || is_free, "{id:?} is quarantined and has work");
        }
    }
}
