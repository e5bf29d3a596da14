//! The state machine itself.

mod admission;
mod attempts;
mod check;
mod fill;
mod stats;
mod suspects;
mod timers;
mod workers;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasherDefault;

pub use admission::{Limit, Refusal};
pub use stats::{Counters, PoolStats, Stats};

use crate::config::{COST_MAX, Config};
use crate::event::{Effect, Event};
use crate::job::{Job, JobHasher, State};
use crate::meter::Meter;
use crate::queue::Queue;
use crate::types::{JobId, NewJob, RestoredJob, TenantId, Time, WorkerId};
use crate::worker::Worker;
use suspects::Suspects;
use timers::Timer;

/// Decides which worker computes which job. See the crate's page for what its owner must do.
#[derive(Clone, Debug)]
pub struct Scheduler {
    config: Config,
    /// Every unfinished job.
    jobs: HashMap<JobId, Job, BuildHasherDefault<JobHasher>>,
    /// Those that wait and are not suspects.
    queue: Queue,
    /// Those that wait and are.
    suspects: Suspects,
    workers: BTreeMap<WorkerId, Worker>,
    /// One entry for each job and each worker.
    timers: BTreeSet<(Time, Timer)>,
    /// Waiting jobs by age.
    ages: BTreeSet<(Time, u64)>,
    tenants: BTreeMap<TenantId, Load>,
    total: Load,
    meter: Meter,
    counters: Counters,
    sequence: u64,
    /// Restored jobs are being fed; nothing is handed out.
    recovering: bool,
    todo: Todo,
}

/// Unfinished jobs and their cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    jobs: usize,
    cost: u128,
}

/// What is left to do at the end of a step. Empty between steps.
#[derive(Clone, Debug, Default)]
struct Todo {
    /// Jobs that came to the queue.
    fresh: Vec<JobId>,
    /// Workers that may take more.
    wake: BTreeSet<WorkerId>,
    wake_all: bool,
    /// Workers whose assignment has changed.
    dirty: BTreeSet<WorkerId>,
}

impl Scheduler {
    /// A scheduler that knows of nothing.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            jobs: HashMap::default(),
            queue: Queue::new(config.quantum, config.patience),
            suspects: Suspects::default(),
            workers: BTreeMap::new(),
            timers: BTreeSet::new(),
            ages: BTreeSet::new(),
            tenants: BTreeMap::new(),
            total: Load::default(),
            meter: Meter::default(),
            counters: Counters::default(),
            sequence: 0,
            recovering: false,
            todo: Todo::default(),
        }
    }

    /// Takes an event and appends what follows from it.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        self.feed(now, event, effects);
        self.flush(effects);
    }

    /// Like [`Scheduler::step`] without the assignments. For a batch of events: feed them all, then
    /// [`Scheduler::flush`], and a worker is sent one assignment instead of one for each of its jobs.
    pub fn feed(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Submitted(job) => self.submitted(now, job),
            Event::Restored(job) => self.restored(now, job),
            Event::Recovered { dead } => self.recovered(now, &dead, effects),
            Event::CancelRequested { job } => self.cancel(now, job, effects),
            Event::Reported { worker, report } => self.reported(now, worker, report, effects),
            Event::WorkerGone { worker, crashed } => self.worker_gone(now, worker, crashed, effects),
            Event::Recorded { job, epoch } => self.recorded(now, job, epoch),
            Event::Committed { worker, job, epoch, outcome } => {
                self.committed(now, worker, job, epoch, outcome, effects);
            }
            Event::Tick => self.tick(now, effects),
        }
        self.settle(now, effects);
    }

    /// Appends the assignments of all workers for whom they have changed.
    pub fn flush(&mut self, effects: &mut Vec<Effect>) {
        for worker in std::mem::take(&mut self.todo.dirty) {
            effects.push(Effect::Assign { worker, leases: self.assignment(worker) });
        }
    }

    fn submitted(&mut self, now: Time, spec: NewJob) {
        self.counters.submitted += u64::from(!self.jobs.contains_key(&spec.id));
        let fresh = RestoredJob {
            job: spec,
            submitted: now,
            attempts: 0,
            epoch: 0,
            suspect: None,
            solo_crashes: 0,
            holder: None,
        };
        self.add(now, fresh);
    }

    fn restored(&mut self, now: Time, job: RestoredJob) {
        self.recovering = true;
        self.counters.restored += u64::from(!self.jobs.contains_key(&job.job.id));
        self.add(now, job);
    }

    fn add(&mut self, now: Time, from: RestoredJob) {
        let spec = NewJob { cost: from.job.cost.min(COST_MAX), ..from.job };
        if self.jobs.contains_key(&spec.id) {
            return;
        }
        if self.jobs.is_empty() {
            self.meter.begin(now);
        }
        self.sequence += 1;
        let mut job = Job {
            spec,
            submitted: from.submitted,
            sequence: self.sequence,
            attempts: from.attempts,
            epoch: from.epoch,
            suspect: from.suspect,
            solo_crashes: from.solo_crashes,
            state: State::Queued,
            timer: spec.deadline,
        };
        self.suspects.used(from.suspect);
        for load in [&mut self.total, self.tenants.entry(spec.group.tenant).or_default()] {
            load.jobs += 1;
            load.cost += u128::from(spec.cost);
        }
        if let Some(worker) = from.holder {
            job.state = self.continued(now, worker, &job);
            job.timer = job.due(&self.config);
        }
        self.timers.insert((job.timer, Timer::Job(spec.id)));
        let queued = job.state == State::Queued;
        self.jobs.insert(spec.id, job);
        if queued {
            self.enqueue(spec.id);
        }
    }
}
