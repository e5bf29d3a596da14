//! The server around the scheduler: it receives requests, commits one transaction for a batch, then
//! carries out the effects.

use std::collections::BTreeMap;

use cloakwork_params::SetId;

use super::plan::{Kind, TENTH};
use super::store::Change;
use super::worker::{FromWorker, ToWorker};
use super::world::{Happening, SimCheck, World};
use crate::event::{Attempt, CheckEnd, Effect, End, Event};
use crate::scheduler::Scheduler;
use crate::types::{Group, JobId, NewCheck, NewJob, RestoredJob, Time, WorkerId};

/// A server process.
pub(super) struct Server {
    pub(super) core: Scheduler,
    /// Simulated time at which the server's clock is zero.
    born: Time,
    pub(super) life: u64,
    batch: Vec<Change>,
    inserts: Vec<(JobId, usize)>,
    acknowledge: Vec<(usize, JobId)>,
    transaction_is_due: bool,
    tick_at: Option<Time>,
    /// The parameter sets and the class that each worker last reported.
    sets: BTreeMap<WorkerId, (Vec<SetId>, String)>,
    attempts: BTreeMap<(JobId, u64), Attempt>,
}

impl World {
    /// Starts the server, which reads its store.
    pub(super) fn server_starts(&mut self) {
        self.life += 1;
        self.load(self.life);
        if self.plan.embedded {
            self.new_worker(0, true);
        }
    }

    /// Builds a new scheduler from the store.
    fn load(&mut self, life: u64) {
        // Checks end with the scheduler that knows them.
        self.checks.values_mut().for_each(|check| check.end = check.end.or(Some(CheckEnd::Expired)));
        self.server = Some(Server {
            core: Scheduler::new(self.plan.config),
            born: self.now,
            life,
            batch: Vec::new(),
            inserts: Vec::new(),
            acknowledge: Vec::new(),
            transaction_is_due: false,
            tick_at: None,
            sets: BTreeMap::new(),
            attempts: BTreeMap::new(),
        });
        let mut jobs: Vec<_> = self.store.unfinished().map(|(id, row)| (row.submitted, *id, row.clone())).collect();
        jobs.sort_by_key(|(submitted, id, _)| (*submitted, *id));
        for (_, id, row) in jobs {
            if let (Some(worker), Some(server)) = (row.holder, &mut self.server) {
                let attempt = Attempt {
                    job: id,
                    group: row.wish.group,
                    epoch: row.epoch,
                    worker,
                    attempts: row.attempts,
                    suspect: row.suspect,
                    solo_crashes: row.solo_crashes,
                };
                server.attempts.insert((id, row.epoch), attempt);
            }
            let restored = RestoredJob {
                job: self.new_job(id, row.request),
                submitted: 0,
                attempts: row.attempts,
                epoch: row.epoch,
                suspect: row.suspect,
                solo_crashes: row.solo_crashes,
                holder: row.holder,
            };
            self.feed(Event::Restored(restored), None);
        }
        let dead = self.dead_embedded.clone();
        self.feed(Event::Recovered { dead }, None);
        let quarantined = self.quarantined.iter().filter(|(of, _)| *of == life).map(|(_, worker)| *worker);
        for worker in quarantined.collect::<Vec<_>>() {
            self.feed(Event::Quarantined { worker }, None);
        }
    }

    fn new_job(&self, id: JobId, request: usize) -> NewJob {
        let wish = self.plan.wishes[request];
        let born = self.server.as_ref().map_or(0, |server| server.born);
        let deadline = wish.deadline.saturating_sub(born);
        let (cost, rows, bytes, priority) = (wish.cost, wish.rows(), wish.bytes, wish.priority);
        NewJob { id, group: wish.group, cost, rows, bytes, priority, deadline }
    }

    pub(super) fn server_dies(&mut self) {
        if self.server.take().is_none() {
            return;
        }
        self.summary.server_deaths += 1;
        let embedded: Vec<WorkerId> =
            self.workers.values().filter(|worker| worker.embedded).map(|worker| worker.id).collect();
        for id in embedded {
            let culprits = self.workers[&id].poison();
            // The next process knows nothing of the checks of this one.
            self.store.crashed(id, &culprits, false);
            self.workers.remove(&id);
            self.dead_embedded.push(id);
        }
        let delay = self.random.range(1, 5) * super::plan::TENTH;
        self.later(delay, Happening::ServerStarts);
    }

    pub(super) fn server_gets_request(&mut self, request: usize) {
        let Some(server) = &mut self.server else { return };
        let stored = self.store.requests.get(&request).copied();
        let coming = || server.inserts.iter().find(|(_, other)| *other == request).map(|(id, _)| *id);
        if let Some(id) = stored.or_else(coming) {
            server.acknowledge.push((request, id));
            return self.transaction_is_due();
        }
        let tenant = self.plan.wishes[request].group.tenant;
        if let Err(refusal) = server.core.admit(tenant, None) {
            assert!(refusal.used >= refusal.max, "refused below the limit: {refusal}");
            return;
        }
        let id = JobId(u128::from(self.random.next()));
        if let Some(server) = &mut self.server {
            server.inserts.push((id, request));
            server.acknowledge.push((request, id));
        }
        let job = self.new_job(id, request);
        self.feed(Event::Submitted(job), None);
        if self.percent(5) {
            self.feed(Event::Submitted(job), None);
        }
    }

    pub(super) fn server_gets_cancel(&mut self, request: usize) {
        if let (Some(_), Some(job)) = (&self.server, self.store.requests.get(&request)) {
            self.feed(Event::CancelRequested { job: *job }, None);
        }
    }

    pub(super) fn server_hears(&mut self, worker: WorkerId, life: u64, message: FromWorker) {
        if self.server.as_ref().is_none_or(|server| server.life != life) {
            return;
        }
        match message {
            FromWorker::Report(report) => {
                if let Some(server) = &mut self.server {
                    server.sets.insert(worker, (report.sets.clone(), report.class.clone()));
                }
                self.feed(Event::Reported { worker, report }, None);
            }
            FromWorker::Commit { job, epoch, outcome } => {
                self.feed(Event::Committed { worker, job, epoch, outcome }, Some(worker));
            }
            FromWorker::Gone { crashed, poison } => {
                if crashed {
                    // A culprit that has just ended takes no blame, although the store does not
                    // know of the end yet.
                    let ended = |(id, _): &(JobId, u64)| {
                        let mut batch = self.server.iter().flat_map(|server| &server.batch);
                        batch.any(|change| matches!(&change.effect, Effect::Finished { job, .. } if job == id))
                    };
                    let poison: Vec<_> = poison.into_iter().filter(|culprit| !ended(culprit)).collect();
                    let may_blame_check = self.server.as_ref().is_some_and(|server| server.core.has_company(worker));
                    self.store.crashed(worker, &poison, may_blame_check);
                    let deadly =
                        |(id, _): &(JobId, u64)| self.checks.get(id).is_some_and(|check| check.kind == Kind::Deadly);
                    self.summary.checks_deadly += u64::from(poison.iter().any(deadly));
                }
                self.feed(Event::WorkerGone { worker, crashed }, None);
            }
        }
    }

    pub(super) fn server_ticks(&mut self, life: u64) {
        if let Some(server) = self.server.as_mut().filter(|server| server.life == life) {
            server.tick_at = None;
            self.feed(Event::Tick, None);
        }
    }

    /// Feeds one event to the scheduler, and runs every check that is possible after it.
    fn feed(&mut self, event: Event, from: Option<WorkerId>) {
        let Some(server) = &mut self.server else { return };
        let now = self.now - server.born;
        if self.trace {
            eprintln!("{:>10} {event:?}", self.now);
        }
        let mut effects = Vec::new();
        if self.batched {
            server.core.feed(now, event, &mut effects);
        } else {
            server.core.step(now, event, &mut effects);
        }
        self.summary.steps += 1;
        assert!(self.summary.steps < 50_000, "I7: the scheduler keeps its server busy without an end");
        server.core.check();
        let stats = server.core.stats();
        assert!(stats.queued + stats.running <= self.plan.config.jobs_max, "I6: {stats:?}");
        self.note(effects, from);
        if self.batched {
            // The step may have changed an assignment, which only the flush will show.
            self.transaction_is_due();
        }
        self.schedule_tick();
    }

    fn note(&mut self, effects: Vec<Effect>, from: Option<WorkerId>) {
        let mut later = Vec::new();
        for effect in effects {
            if self.trace {
                eprintln!("{:>10}     {effect:?}", "");
            }
            let Some(server) = &mut self.server else { return };
            match &effect {
                Effect::Record(attempt) => {
                    let sets = server.sets.get(&attempt.worker);
                    let serves = sets.is_some_and(|(sets, _)| sets.contains(&attempt.group.set));
                    assert!(serves, "I5: {:?} does not serve {:?}", attempt.worker, attempt.group.set);
                    server.attempts.insert((attempt.job, attempt.epoch), *attempt);
                }
                Effect::Assign { worker, leases } => {
                    let is_quarantined = self.quarantined.contains(&(server.life, *worker));
                    assert!(!is_quarantined || leases.is_empty(), "{worker:?} is quarantined, and has {leases:?}");
                    let class = server.sets.get(worker).map(|(_, class)| class);
                    let jobs = check_checks(&self.checks, *worker, class, leases);
                    server.check_assignment(*worker, &jobs, jobs.len() < leases.len(), |attempt| {
                        let begun = *self.begun.entry((attempt.job, attempt.epoch)).or_insert(self.now);
                        self.now - begun < 2 * self.plan.config.lease_micros
                    });
                }
                Effect::Finished { job, end: End::Succeeded } => {
                    later.extend(from.and_then(|worker| self.new_check(*job, worker)).map(Event::CheckSubmitted));
                }
                Effect::CheckEnded { check, end } => {
                    let wrong = self.check_ends(*check, *end, from);
                    later.extend(wrong.into_iter().map(|worker| Event::Quarantined { worker }));
                }
                _ => {}
            }
            let Some(server) = &mut self.server else { return };
            server.batch.push(Change { effect, from });
            self.transaction_is_due();
        }
        for event in later {
            if let Event::Quarantined { worker } = event {
                self.quarantined.insert((self.life, worker));
                self.summary.quarantined += 1;
                let delay = self.random.range(1, 20) * TENTH;
                self.later(delay, Happening::Restart { worker });
            }
            self.feed(event, None);
        }
    }

    /// A check of a job that a worker has computed, by chance.
    fn new_check(&mut self, job: JobId, first: WorkerId) -> Option<NewCheck> {
        if !self.percent(self.plan.checked) {
            return None;
        }
        let server = self.server.as_ref()?;
        let class = server.sets.get(&first)?.1.clone();
        // The scheduler's time, for a check whose job may not be in the store yet.
        let (now, group) = (self.now - server.born, server.group_of(job)?);
        let kind = if self.now < self.plan.quiet_at && self.percent(10) { Kind::Deadly } else { Kind::Good };
        let spec = NewCheck {
            id: JobId(u128::from(self.random.next())),
            group,
            cost: self.random.range(0, 60),
            class,
            excluded: vec![first],
            urgent: self.percent(20),
            until: now + self.random.range(1, 40) * TENTH,
        };
        self.summary.checks += 1;
        self.checks.insert(spec.id, SimCheck { spec: spec.clone(), kind, end: None });
        Some(spec)
    }

    /// Notes the end of a check. Returns the workers whose rows are found wrong, by chance.
    fn check_ends(&mut self, id: JobId, end: CheckEnd, from: Option<WorkerId>) -> Vec<WorkerId> {
        let Some(check) = self.checks.get_mut(&id) else { panic!("{id:?} was never submitted") };
        assert_eq!(check.end, None, "{id:?} ends twice");
        check.end = Some(end);
        let CheckEnd::Computed { worker } = end else { return Vec::new() };
        assert_eq!(from, Some(worker), "{id:?} is computed by someone else");
        assert!(!check.spec.excluded.contains(&worker), "{id:?} is computed where its rows came from");
        let first = check.spec.excluded[0];
        self.summary.checks_computed += 1;
        if self.now >= self.plan.quiet_at || !self.percent(10) {
            return Vec::new();
        }
        let both = [first, worker].into_iter();
        let remote = |id: &WorkerId| self.workers.get(id).is_some_and(|worker| !worker.embedded);
        both.filter(remote).filter(|id| !self.quarantined.contains(&(self.life, *id))).collect()
    }

    fn transaction_is_due(&mut self) {
        let delay = self.random.range(0, 4000);
        let Some(server) = &mut self.server else { return };
        if !std::mem::replace(&mut server.transaction_is_due, true) {
            let life = server.life;
            self.later(delay, Happening::Transaction { life });
        }
    }

    fn schedule_tick(&mut self) {
        let delay = self.random.range(0, 3000);
        let Some(server) = &mut self.server else { return };
        let Some(next) = server.core.next_timer() else { return };
        let at = next.saturating_add(server.born).max(self.now);
        if at < Time::MAX / 4 && server.tick_at.is_none_or(|tick| at < tick) {
            server.tick_at = Some(at);
            let life = server.life;
            self.later(at - self.now + delay, Happening::Tick { life });
        }
    }

    /// Commits the whole batch or none of it, then carries out its effects. The server may die
    /// before or after the commit.
    pub(super) fn transaction(&mut self, life: u64) {
        let Some(server) = self.server.as_mut().filter(|server| server.life == life) else { return };
        if !std::mem::take(&mut server.transaction_is_due) {
            return;
        }
        if self.batched {
            let mut effects = Vec::new();
            server.core.flush(&mut effects);
            server.transaction_is_due = true;
            self.note(effects, None);
        }
        let bad = self.now < self.plan.quiet_at && self.percent(self.plan.bad_transactions);
        let fate = if bad { self.random.range(1, 3) } else { 0 };
        match fate {
            1 => return self.server_dies(),
            2 => return self.load(life),
            _ => {}
        }
        let Some(server) = &mut self.server else { return };
        server.transaction_is_due = false;
        let batch = std::mem::take(&mut server.batch);
        let inserts = std::mem::take(&mut server.inserts);
        let acknowledge = std::mem::take(&mut server.acknowledge);
        for (id, request) in inserts {
            self.store.insert(id, request, self.plan.wishes[request], self.now);
        }
        let mut recorded = Vec::new();
        for change in &batch {
            if let Effect::Record(attempt) = change.effect {
                recorded.push((attempt.job, attempt.epoch));
            }
            // The store never hears of a check. Any other change of a check panics there.
            let of_check = matches!(&change.effect, Effect::Accept { job, .. } if self.checks.contains_key(job));
            if !of_check {
                self.store.apply(change);
            }
        }
        self.check_limits();
        if fate == 3 {
            return self.server_dies();
        }
        for (request, job) in acknowledge {
            let delay = self.random.range(1, 20_000);
            self.later(delay, Happening::Acknowledged { request, job });
        }
        for change in batch {
            self.carry_out(change, life);
        }
        for (job, epoch) in recorded {
            self.feed(Event::Recorded { job, epoch }, None);
        }
    }

    fn carry_out(&mut self, change: Change, life: u64) {
        match (change.effect, change.from) {
            (Effect::Assign { worker, leases }, _) => self.tell_worker(worker, life, ToWorker::Assign(leases)),
            (Effect::Accept { job, epoch } | Effect::Refuse { job, epoch }, Some(worker)) => {
                self.tell_worker(worker, life, ToWorker::Verdict { job, epoch });
            }
            (Effect::Refuse { .. }, _) => panic!("a verdict without a commit"),
            _ => {}
        }
    }

    fn check_limits(&self) {
        let mut tenants: BTreeMap<_, usize> = BTreeMap::new();
        self.store.unfinished().for_each(|(_, row)| *tenants.entry(row.wish.group.tenant).or_default() += 1);
        assert!(tenants.values().sum::<usize>() <= self.plan.config.jobs_max, "I6: {tenants:?}");
        assert!(tenants.values().all(|jobs| *jobs <= self.plan.config.jobs_per_tenant_max), "I6: {tenants:?}");
    }
}

impl Server {
    /// The group of a job that this server has handed out.
    fn group_of(&self, job: JobId) -> Option<Group> {
        self.attempts.range((job, 0)..).next().filter(|((id, _), _)| *id == job).map(|(_, attempt)| attempt.group)
    }

    /// I5: a worker holds one group of suspects or none, and only attempts that were recorded for
    /// it. Suspects that are not fresh may have been acquitted.
    fn check_assignment(
        &self,
        worker: WorkerId,
        leases: &[(JobId, u64)],
        has_checks: bool,
        mut is_fresh: impl FnMut(&Attempt) -> bool,
    ) {
        let attempts: Vec<_> = leases.iter().map(|lease| self.attempts.get(lease)).collect();
        let suspects: std::collections::BTreeSet<_> = attempts
            .iter()
            .map(|attempt| {
                let attempt = attempt.unwrap_or_else(|| panic!("{worker:?} is assigned an attempt without a record"));
                assert_eq!(attempt.worker, worker, "{:?} is assigned to someone else", attempt.job);
                attempt.suspect.filter(|_| is_fresh(attempt))
            })
            .collect();
        let is_trial = suspects.iter().any(Option::is_some);
        assert!(!has_checks || !is_trial, "I5: a check beside suspects: {leases:?}");
        assert!(suspects.len() <= 1 || !suspects.iter().any(Option::is_some), "I5: suspects beside others: {leases:?}");
    }
}

/// The leases on jobs, without the checks. Panics where a check may not be on this worker.
fn check_checks(
    checks: &BTreeMap<JobId, SimCheck>,
    worker: WorkerId,
    class: Option<&String>,
    leases: &[(JobId, u64)],
) -> Vec<(JobId, u64)> {
    let mut jobs = leases.to_vec();
    jobs.retain(|(id, _)| {
        let Some(check) = checks.get(id) else { return true };
        assert_eq!(check.end, None, "{id:?} is assigned after its end");
        assert!(!check.spec.excluded.contains(&worker), "{id:?} runs where its rows came from");
        assert_eq!(class, Some(&check.spec.class), "{id:?} runs on another class");
        false
    });
    jobs
}
