//! The server around the scheduler: it receives requests, commits one transaction for a batch, then
//! carries out the effects.

use std::collections::BTreeMap;

use cloakwork_params::SetId;

use super::store::Change;
use super::worker::{FromWorker, ToWorker};
use super::world::{Happening, World};
use crate::event::{Attempt, Effect, Event};
use crate::scheduler::Scheduler;
use crate::types::{JobId, NewJob, RestoredJob, Time, WorkerId};

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
    /// The parameter sets that each worker last reported.
    sets: BTreeMap<WorkerId, Vec<SetId>>,
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
    }

    fn new_job(&self, id: JobId, request: usize) -> NewJob {
        let wish = self.plan.wishes[request];
        let born = self.server.as_ref().map_or(0, |server| server.born);
        let deadline = wish.deadline.saturating_sub(born);
        NewJob { id, group: wish.group, cost: wish.cost, rows: wish.rows(), priority: wish.priority, deadline }
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
            self.store.crashed(id, &culprits);
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
        if let Err(refusal) = server.core.admit(tenant) {
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
                    server.sets.insert(worker, report.sets.clone());
                }
                self.feed(Event::Reported { worker, report }, None);
            }
            FromWorker::Commit { job, epoch, outcome } => {
                self.feed(Event::Committed { worker, job, epoch, outcome }, Some(worker));
            }
            FromWorker::Gone { crashed, poison } => {
                if crashed {
                    self.store.crashed(worker, &poison);
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
        for effect in effects {
            if self.trace {
                eprintln!("{:>10}     {effect:?}", "");
            }
            let Some(server) = &mut self.server else { return };
            match &effect {
                Effect::Record(attempt) => {
                    let sets = server.sets.get(&attempt.worker);
                    let serves = sets.is_some_and(|sets| sets.contains(&attempt.group.set));
                    assert!(serves, "I5: {:?} does not serve {:?}", attempt.worker, attempt.group.set);
                    server.attempts.insert((attempt.job, attempt.epoch), *attempt);
                }
                Effect::Assign { worker, leases } => {
                    server.check_assignment(*worker, leases, |attempt| {
                        let begun = *self.begun.entry((attempt.job, attempt.epoch)).or_insert(self.now);
                        self.now - begun < 2 * self.plan.config.lease_micros
                    });
                }
                _ => {}
            }
            server.batch.push(Change { effect, from });
            self.transaction_is_due();
        }
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
            self.store.apply(change);
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
    /// I5: a worker holds one group of suspects or none, and only attempts that were recorded for
    /// it. Suspects that are not fresh may have been acquitted.
    fn check_assignment(&self, worker: WorkerId, leases: &[(JobId, u64)], mut is_fresh: impl FnMut(&Attempt) -> bool) {
        let attempts: Vec<_> = leases.iter().map(|lease| self.attempts.get(lease)).collect();
        let suspects: std::collections::BTreeSet<_> = attempts
            .iter()
            .map(|attempt| {
                let attempt = attempt.unwrap_or_else(|| panic!("{worker:?} is assigned an attempt without a record"));
                assert_eq!(attempt.worker, worker, "{:?} is assigned to someone else", attempt.job);
                attempt.suspect.filter(|_| is_fresh(attempt))
            })
            .collect();
        assert!(suspects.len() <= 1 || !suspects.iter().any(Option::is_some), "I5: suspects beside others: {leases:?}");
    }
}
