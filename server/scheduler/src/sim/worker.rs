//! Simulated workers, both correct and faulty.

use std::collections::{BTreeMap, BTreeSet};

use cloakwork_params::SetId;

use super::plan::{Kind, RATE_MIN, TENTH};
use super::world::{Happening, World};
use crate::event::{Outcome, Reason, Retry};
use crate::types::{JobId, LeaseReport, Report, Stage, Time, WorkerId};

/// Classes of workers, by slot. The last one's results are not reproducible.
const CLASSES: [&str; 5] = ["one", "one", "two", "one", ""];

/// A worker process.
#[derive(Clone, Debug)]
pub(super) struct SimWorker {
    pub(super) id: WorkerId,
    pub(super) embedded: bool,
    /// Position in the fleet. A successor at this position serves the same sets.
    slot: u64,
    sets: Vec<SetId>,
    class: &'static str,
    wanted: u64,
    rate: u64,
    /// Whether the worker lacks memory for large jobs.
    small: bool,
    /// Number of the server process that the worker is connected to; 0 for none.
    pub(super) life: u64,
    pub(super) stalled_until: Time,
    pub(super) draining: bool,
    lies: bool,
    work: BTreeMap<JobId, Work>,
    /// Attempts that the worker has held, as material for lies.
    past: Vec<(JobId, u64)>,
    /// Attempts that the worker was assigned and did not take: it was full, or believed that they
    /// had ended.
    declined: BTreeSet<(JobId, u64)>,
    /// When the latest message arrives, each way: streams keep their order.
    arrives: [Time; 2],
}

/// An attempt on a worker.
#[derive(Clone, Copy, Debug)]
struct Work {
    epoch: u64,
    kind: Kind,
    left: u64,
    done: u64,
    progress: u64,
    started: bool,
    /// Whether the attempt advanced in the latest turn.
    advanced: bool,
    /// Number of turns since the outcome was handed in.
    committing: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) enum FromWorker {
    Report(Report),
    Commit { job: JobId, epoch: u64, outcome: Outcome },
    Gone { crashed: bool, poison: Vec<(JobId, u64)> },
}

#[derive(Clone, Debug)]
pub(super) enum ToWorker {
    Assign(Vec<(JobId, u64)>),
    Verdict { job: JobId, epoch: u64 },
}

impl World {
    pub(super) fn new_worker(&mut self, slot: u64, embedded: bool) {
        let id = WorkerId(u128::from(self.random.next()));
        let sets = if slot == 0 || !slot.is_multiple_of(3) { vec![SetId(1), SetId(2)] } else { vec![SetId(1)] };
        let lies = !embedded && slot < self.plan.liars;
        let worker = SimWorker {
            id,
            embedded,
            slot,
            sets,
            class: CLASSES[slot as usize % CLASSES.len()],
            wanted: self.random.range(1, 150),
            rate: RATE_MIN * self.random.range(1, 4),
            small: slot % 2 == 1,
            life: if embedded { self.life } else { 0 },
            stalled_until: 0,
            draining: false,
            lies,
            work: BTreeMap::new(),
            past: Vec::new(),
            declined: BTreeSet::new(),
            arrives: [0; 2],
        };
        self.workers.insert(id, worker);
        let delay = self.random.range(1, TENTH);
        self.later(delay, Happening::WorkerTurn { worker: id });
    }

    /// A tenth of a second of a worker's life.
    pub(super) fn worker_turn(&mut self, id: WorkerId) {
        let Some(mut worker) = self.workers.remove(&id) else { return };
        self.later(TENTH, Happening::WorkerTurn { worker: id });
        if self.now < worker.stalled_until && self.now < self.plan.quiet_at {
            self.workers.insert(id, worker);
            return;
        }
        let life = self.server.as_ref().map_or(0, |server| server.life);
        if worker.life != life && self.percent(50) {
            worker.life = life;
        }
        let outcome = worker.compute();
        let leaves = worker.draining && worker.work.is_empty();
        let connected = worker.life == life && life != 0;
        let report = worker.report();
        let lie = if worker.lies && self.now < self.plan.quiet_at { self.lie(&worker) } else { None };
        let poison = worker.poison();
        let life = worker.life;
        let slot = worker.slot;
        self.workers.insert(id, worker);
        match outcome {
            None => return self.worker_dies(id),
            Some(commits) if connected => {
                for (job, epoch, outcome) in commits {
                    self.tell_server(id, life, FromWorker::Commit { job, epoch, outcome });
                }
            }
            Some(_) => {}
        }
        if !connected {
            return;
        }
        match lie {
            Some(FromWorker::Report(report)) => self.tell_server(id, life, FromWorker::Report(report)),
            lie => {
                self.tell_server(id, life, FromWorker::Report(report));
                lie.into_iter().for_each(|lie| self.tell_server(id, life, lie));
            }
        }
        if leaves {
            self.tell_server(id, life, FromWorker::Gone { crashed: false, poison });
            self.workers.remove(&id);
            self.later(TENTH * 3, Happening::NewWorker { slot });
        }
    }

    /// A false message: a commit of another attempt or of another worker's job, a repeated commit,
    /// or a lease that was never given.
    fn lie(&mut self, worker: &SimWorker) -> Option<FromWorker> {
        let jobs: Vec<(JobId, u64)> = self.store.rows.iter().map(|(id, row)| (*id, row.epoch)).collect();
        let current = self.random.pick(&jobs);
        let past = self.random.pick(&worker.past);
        let (job, epoch) = match self.random.range(0, 5) {
            0 => current?,
            1 => current.map(|(job, epoch)| (job, epoch + 1))?,
            2 => past?,
            3 => past.map(|(job, epoch)| (job, epoch.wrapping_sub(1)))?,
            _ => {
                let mut report = worker.report();
                let (job, epoch) = current?;
                let rows_done = self.random.range(0, 100);
                let lease = LeaseReport { job, epoch, stage: Stage::Waiting, progress: 0, rows_done };
                report.leases.push(lease);
                report.wanted_cost = self.random.next();
                return self.percent(30).then_some(FromWorker::Report(report));
            }
        };
        // By chance the lease may be on its way to the liar. The outcome must therefore be true.
        Some(FromWorker::Commit { job, epoch, outcome: outcome(self.store.rows.get(&job)?.wish.kind, worker.small) })
    }

    pub(super) fn worker_dies(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get(&id) else { return };
        self.summary.worker_deaths += 1;
        if worker.embedded {
            return self.server_dies();
        }
        let (slot, life, poison) = (worker.slot, worker.life, worker.poison());
        self.tell_server(id, life, FromWorker::Gone { crashed: true, poison });
        self.workers.remove(&id);
        let delay = self.random.range(1, 8) * TENTH;
        self.later(delay, Happening::NewWorker { slot });
    }

    /// The operator restarts a worker that was quarantined.
    pub(super) fn worker_restarts(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.remove(&id) else { return };
        let (slot, life) = (worker.slot, worker.life);
        self.tell_server(id, life, FromWorker::Gone { crashed: false, poison: Vec::new() });
        self.later(TENTH, Happening::NewWorker { slot });
    }

    pub(super) fn worker_hears(&mut self, id: WorkerId, life: u64, message: ToWorker) {
        let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.life == life) else { return };
        match message {
            ToWorker::Verdict { job, epoch } => {
                if worker.work.get(&job).is_some_and(|work| work.epoch == epoch) {
                    worker.work.remove(&job);
                }
            }
            ToWorker::Assign(leases) => {
                worker.work.retain(|job, work| leases.contains(&(*job, work.epoch)));
                let faulty = self.plan.faults > 0 && self.now < self.plan.quiet_at;
                for (job, epoch) in leases {
                    let known = worker.work.contains_key(&job);
                    if worker.declined.contains(&(job, epoch)) || (faulty && !known && self.random.percent(3)) {
                        worker.declined.insert((job, epoch));
                        continue;
                    }
                    let (kind, left) = match self.checks.get(&job) {
                        Some(check) => (check.kind, check.spec.cost),
                        None => (self.store.rows[&job].wish.kind, self.store.rows[&job].wish.cost),
                    };
                    let new = Work {
                        epoch,
                        kind,
                        left,
                        done: 0,
                        progress: 0,
                        started: false,
                        advanced: false,
                        committing: None,
                    };
                    worker.work.entry(job).or_insert(new);
                    worker.past.push((job, epoch));
                }
            }
        }
    }

    fn delay(&mut self) -> u64 {
        let most = if self.now < self.plan.quiet_at { self.plan.delay_max } else { TENTH / 5 };
        self.random.range(10, most)
    }

    fn tell_server(&mut self, id: WorkerId, life: u64, message: FromWorker) {
        let mut at = self.now + self.delay();
        if let (FromWorker::Report(_) | FromWorker::Gone { .. }, Some(worker)) = (&message, self.workers.get_mut(&id)) {
            at = at.max(worker.arrives[0] + 1);
            worker.arrives[0] = at;
        }
        self.later(at - self.now, Happening::ToServer { worker: id, life, message });
    }

    pub(super) fn tell_worker(&mut self, id: WorkerId, life: u64, message: ToWorker) {
        let mut at = self.now + self.delay();
        if let (ToWorker::Assign(_), Some(worker)) = (&message, self.workers.get_mut(&id)) {
            at = at.max(worker.arrives[1] + 1);
            worker.arrives[1] = at;
        }
        self.later(at - self.now, Happening::ToWorker { worker: id, life, message });
    }

    /// Breaks the worker's stream while the worker goes on. The server takes the break for a crash
    /// or for a mere break.
    pub(super) fn stream_breaks(&mut self, id: WorkerId, crashed: bool) {
        let Some(worker) = self.workers.get_mut(&id).filter(|worker| !worker.embedded) else { return };
        let life = std::mem::replace(&mut worker.life, 0);
        // Messages on their way may still arrive, before or after this one.
        worker.arrives = [0; 2];
        self.tell_server(id, life, FromWorker::Gone { crashed, poison: Vec::new() });
    }
}

impl SimWorker {
    /// Works for a turn. Returns none if the worker has died of a job.
    fn compute(&mut self) -> Option<Vec<(JobId, u64, Outcome)>> {
        let mut power = self.rate;
        let small = self.small;
        let mut commits = Vec::new();
        for (job, work) in &mut self.work {
            work.advanced = false;
            if let Some(turns) = &mut work.committing {
                *turns += 1;
                if *turns % 4 == 0 {
                    commits.push((*job, work.epoch, outcome(work.kind, small)));
                }
                continue;
            }
            if work.kind == Kind::Large && small {
                work.committing = Some(0);
                commits.push((*job, work.epoch, outcome(work.kind, small)));
                continue;
            }
            if work.kind == Kind::Sticky && work.epoch == 1 {
                work.started = true;
                continue;
            }
            if power == 0 {
                continue;
            }
            if matches!(work.kind, Kind::Poison | Kind::Deadly) && work.started {
                return None;
            }
            work.started = true;
            let done = work.left.min(power);
            (work.left, power, work.progress) = (work.left - done, power - done, work.progress + 1);
            work.done += done;
            work.advanced = true;
            if work.left == 0 && !matches!(work.kind, Kind::Poison | Kind::Deadly) {
                work.committing = Some(0);
                commits.push((*job, work.epoch, outcome(work.kind, small)));
            }
        }
        Some(commits)
    }

    fn report(&self) -> Report {
        let leases = self.work.iter().map(|(job, work)| LeaseReport {
            job: *job,
            epoch: work.epoch,
            stage: match work {
                Work { committing: Some(_), .. } => Stage::Committing,
                Work { started: true, .. } if work.advanced || work.progress == 0 => Stage::Computing,
                _ => Stage::Waiting,
            },
            progress: work.progress,
            rows_done: work.done,
        });
        Report {
            pool: "sim".to_owned(),
            sets: self.sets.clone(),
            wanted_cost: self.wanted,
            leases: leases.collect(),
            resident: Vec::new(),
            draining: self.draining,
            class: self.class.to_owned(),
        }
    }

    /// Poison jobs and deadly checks that the worker runs.
    pub(super) fn poison(&self) -> Vec<(JobId, u64)> {
        let poison = self.work.iter().filter(|(_, work)| matches!(work.kind, Kind::Poison | Kind::Deadly));
        poison.map(|(job, work)| (*job, work.epoch)).collect()
    }
}

fn outcome(kind: Kind, small: bool) -> Outcome {
    let failed = |retry, reason| Outcome::Failed { retry, reason: Reason::Borrowed(reason) };
    match kind {
        Kind::Flaky | Kind::Poison | Kind::Deadly => failed(Retry::Anywhere, "FLAKY"),
        Kind::Broken => failed(Retry::Never, "BROKEN"),
        Kind::Large if small => failed(Retry::Elsewhere, "TOO_LARGE"),
        _ => Outcome::Succeeded,
    }
}
