//! The scheduler's state machine.

mod admission;
mod ages;
mod alarms;
mod attempts;
mod check;
mod checks;
mod fill;
mod refusals;
mod rooms;
mod stats;
mod suspects;
mod timers;
mod workers;

use std::collections::{BTreeMap, BTreeSet};

use cloakwork_params::SetId;

pub use admission::{Limit, Refusal};
pub use stats::{Counters, PoolStats, Stats};

use crate::config::{COST_MAX, Config};
use crate::event::{Effect, Event};
use crate::job::{Job, State};
use crate::jobs::Jobs;
use crate::meter::Meter;
use crate::queue::Queue;
use crate::seat::Seat;
use crate::types::{NewJob, RestoredJob, TenantId, Time, WorkerId};
use crate::worker::Worker;
use ages::Ages;
use alarms::Alarms;
use checks::Checks;
use rooms::Rooms;
use suspects::Suspects;

/// Decides which worker computes which job. The crate's documentation lists the duties of its
/// owner.
#[derive(Clone, Debug)]
pub struct Scheduler {
    config: Config,
    jobs: Jobs,
    /// Queued jobs that are not suspects.
    queue: Queue,
    /// Queued jobs that are suspects.
    suspects: Suspects,
    checks: Checks,
    /// Quarantined workers, the latest last.
    quarantined: Vec<WorkerId>,
    workers: BTreeMap<WorkerId, Worker>,
    /// The workers that have room. Up to date except during recovery, when nothing is handed out.
    rooms: Rooms,
    /// When the scheduler must act on a job. One entry for each job.
    timers: Alarms,
    /// When a silent worker may have to be removed. One entry for each worker.
    silences: BTreeSet<(Time, WorkerId)>,
    /// Submission times of the queued jobs.
    ages: Ages,
    /// Cost of the queued jobs of each set, suspects included.
    waiting: BTreeMap<SetId, u128>,
    tenants: BTreeMap<TenantId, Load>,
    total: Load,
    meter: Meter,
    counters: Counters,
    sequence: u64,
    /// Whether restored jobs are being fed. Meanwhile the scheduler hands out nothing.
    recovering: bool,
    todo: Todo,
}

/// Unfinished jobs and their cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    jobs: usize,
    cost: u128,
}

/// Work left for the end of a step. Empty between steps, apart from `dirty`, which waits for the
/// flush.
#[derive(Clone, Debug, Default)]
struct Todo {
    /// Jobs that joined the queue.
    fresh: Vec<Seat>,
    /// Workers that may have room for more jobs.
    wake: BTreeSet<WorkerId>,
    wake_all: bool,
    /// Workers that may have room for more checks.
    spare: BTreeSet<WorkerId>,
    /// Whether some set has lost a worker that could take its jobs.
    fewer: bool,
    /// Workers whose assignment has changed.
    dirty: BTreeSet<WorkerId>,
}

impl Scheduler {
    /// An empty scheduler.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            jobs: Jobs::default(),
            queue: Queue::new(config.quantum_cost, config.overtaking_cost_max),
            suspects: Suspects::default(),
            checks: Checks::default(),
            quarantined: Vec::new(),
            workers: BTreeMap::new(),
            rooms: Rooms::default(),
            timers: Alarms::default(),
            silences: BTreeSet::new(),
            ages: Ages::default(),
            waiting: BTreeMap::new(),
            tenants: BTreeMap::new(),
            total: Load::default(),
            meter: Meter::default(),
            counters: Counters::default(),
            sequence: 0,
            recovering: false,
            todo: Todo::default(),
        }
    }

    /// Takes an event and appends its effects.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        self.feed(now, event, effects);
        self.flush(effects);
    }

    /// Like [`Scheduler::step`], without the assignments. To process a batch, feed all its events,
    /// then call [`Scheduler::flush`]. Each worker then gets one assignment instead of one for each
    /// of its jobs.
    pub fn feed(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Submitted(job) => self.submitted(now, job),
            Event::Restored(job) => self.restored(now, job),
            Event::Recovered { dead } => self.recovered(now, &dead, effects),
            Event::CancelRequested { job } => self.cancel(now, job, effects),
            Event::Reported { worker, report } => self.reported(now, worker, report, effects),
            Event::WorkerGone { worker, crashed } => self.worker_gone(now, worker, crashed, effects),
            Event::CheckSubmitted(check) => self.check_submitted(now, check, effects),
            Event::Quarantined { worker } => self.quarantine(worker, effects),
            Event::Recorded { job, epoch } => self.recorded(now, job, epoch),
            Event::Committed { worker, job, epoch, outcome } => {
                self.committed(now, worker, job, epoch, outcome, effects);
            }
            Event::Tick => self.tick(now, effects),
        }
        self.settle(now, effects);
    }

    /// Appends the assignments of all workers whose assignments have changed.
    pub fn flush(&mut self, effects: &mut Vec<Effect>) {
        for worker in std::mem::take(&mut self.todo.dirty) {
            effects.push(Effect::Assign { worker, leases: self.assignment(worker) });
        }
    }

    fn submitted(&mut self, now: Time, spec: NewJob) {
        self.counters.submitted += u64::from(self.jobs.seat(&spec.id).is_none());
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
        self.counters.restored += u64::from(self.jobs.seat(&job.job.id).is_none());
        self.add(now, job);
    }

    fn add(&mut self, now: Time, from: RestoredJob) {
        let spec = NewJob { cost: from.job.cost.min(COST_MAX), ..from.job };
        if self.jobs.seat(&spec.id).is_some() {
            return;
        }
        if self.jobs.is_empty() {
            self.meter.begin(now);
        }
        self.sequence += 1;
        let job = Job {
            spec,
            submitted: from.submitted,
            sequence: self.sequence,
            attempts: from.attempts,
            epoch: from.epoch,
            suspect: from.suspect,
            solo_crashes: from.solo_crashes,
            refused_by: Box::default(),
            rests_until: None,
            state: State::Queued,
            timer: spec.deadline,
        };
        self.suspects.used(from.suspect);
        for load in [&mut self.total, self.tenants.entry(spec.group.tenant).or_default()] {
            load.jobs += 1;
            load.cost += u128::from(spec.cost);
        }
        let seat = self.jobs.insert(job);
        self.timers.insert(spec.deadline, seat, &mut self.jobs);
        match from.holder {
            Some(worker) => self.continued(now, worker, seat),
            None => self.enqueue(seat),
        }
    }
}
