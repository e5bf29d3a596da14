//! A scheduler with a store that never fails.

use cloakwork_params::{KeyId, SetId};
use cloakwork_scheduler::{
    Attempt, Config, Effect, Event, Group, JobId, LeaseReport, NewJob, Outcome, Report, Scheduler, Stage, TenantId,
    Time, WorkerId,
};

pub(crate) const SECOND: Time = 1_000_000;

pub(crate) struct Bed {
    pub(crate) core: Scheduler,
    pub(crate) now: Time,
}

impl Bed {
    pub(crate) fn new(config: Config) -> Self {
        Self { core: Scheduler::new(config), now: 0 }
    }

    pub(crate) fn step(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.core.step(self.now, event, &mut effects);
        self.core.check();
        effects
    }

    /// Runs a step, and records every attempt that the step asks for.
    pub(crate) fn run(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = self.step(event);
        let attempts: Vec<Attempt> = attempts(&effects);
        for attempt in attempts {
            effects.extend(self.step(Event::Recorded { job: attempt.job, epoch: attempt.epoch }));
        }
        effects
    }

    pub(crate) fn submit(&mut self, job: NewJob) -> Vec<Effect> {
        self.run(Event::Submitted(job))
    }

    pub(crate) fn worker(&mut self, id: u128, wanted_cost: u64) -> Vec<Effect> {
        self.report(id, |report| report.wanted_cost = wanted_cost)
    }

    pub(crate) fn report_leases(&mut self, id: u128, held: &[(u128, u64, Stage, u64)]) -> Vec<Effect> {
        self.report(id, |report| report.leases = leases(held))
    }

    pub(crate) fn report(&mut self, id: u128, change: impl Fn(&mut Report)) -> Vec<Effect> {
        let mut report = Report { pool: "cpu".to_owned(), sets: vec![SetId(1)], wanted_cost: 100, ..Report::default() };
        change(&mut report);
        self.run(Event::Reported { worker: WorkerId(id), report })
    }

    pub(crate) fn commit(&mut self, worker: u128, job: u128, epoch: u64) -> Vec<Effect> {
        self.outcome(worker, job, epoch, Outcome::Succeeded)
    }

    pub(crate) fn outcome(&mut self, worker: u128, job: u128, epoch: u64, outcome: Outcome) -> Vec<Effect> {
        self.run(Event::Committed { worker: WorkerId(worker), job: JobId(job), epoch, outcome })
    }
}

pub(crate) fn leases(held: &[(u128, u64, Stage, u64)]) -> Vec<LeaseReport> {
    let lease = |&(job, epoch, stage, progress): &(u128, u64, Stage, u64)| LeaseReport {
        job: JobId(job),
        epoch,
        stage,
        progress,
        rows_done: 0,
    };
    held.iter().map(lease).collect()
}

pub(crate) fn of(id: u128) -> JobId {
    JobId(id)
}

pub(crate) fn attempts(effects: &[Effect]) -> Vec<Attempt> {
    let attempt = |effect: &Effect| if let Effect::Record(attempt) = effect { Some(*attempt) } else { None };
    effects.iter().filter_map(attempt).collect()
}

pub(crate) fn attempt_of(effects: &[Effect], id: u128) -> Option<Attempt> {
    attempts(effects).into_iter().find(|attempt| attempt.job == JobId(id))
}

pub(crate) fn job(id: u128) -> NewJob {
    let group = Group { tenant: TenantId(1), key: KeyId([1; 16]), set: SetId(1) };
    NewJob { id: JobId(id), group, cost: 1, rows: 1, bytes: 0, priority: 0, deadline: 3600 * SECOND }
}

/// Changes to a job.
pub(crate) trait With: Sized {
    fn cost(self, cost: u64) -> Self;
    fn bytes(self, bytes: u64) -> Self;
    fn tenant(self, tenant: u64) -> Self;
    fn key(self, key: u8) -> Self;
    fn set(self, set: u16) -> Self;
    fn priority(self, priority: i8) -> Self;
    fn deadline(self, deadline: Time) -> Self;
}

impl With for NewJob {
    /// One row for each unit of work.
    fn cost(mut self, cost: u64) -> Self {
        (self.cost, self.rows) = (cost, cost.max(1));
        self
    }

    fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    fn tenant(mut self, tenant: u64) -> Self {
        self.group.tenant = TenantId(tenant);
        self
    }

    fn key(mut self, key: u8) -> Self {
        self.group.key = KeyId([key; 16]);
        self
    }

    fn set(mut self, set: u16) -> Self {
        self.group.set = SetId(set);
        self
    }

    fn priority(mut self, priority: i8) -> Self {
        self.priority = priority;
        self
    }

    fn deadline(mut self, deadline: Time) -> Self {
        self.deadline = deadline;
        self
    }
}
