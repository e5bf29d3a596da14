//! Number of events per second that the scheduler processes.
//!
//! Each round submits a job, records an attempt and commits an attempt. Some rounds also deliver a
//! worker's report. There are [`TENANTS`] tenants, and the length of the queue stays constant.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use cloakwork_params::{KeyId, SetId};
use cloakwork_scheduler::{
    Config, Effect, Event, Group, JobId, LeaseReport, NewJob, Outcome, Report, Scheduler, Stage, TenantId, WorkerId,
};

/// Number of tenants that own the jobs.
pub(crate) const TENANTS: u64 = 1000;

const WORKERS: u64 = 4;

/// Measures job events per second on this thread for `time`, with `queued` jobs in the scheduler's
/// queue.
pub(crate) fn events_per_second(queued: usize, time: Duration) -> f64 {
    let mut bench = Bench::new();
    while bench.scheduler.stats().queued < queued {
        bench.submit();
    }
    bench.events = 0;
    let begun = Instant::now();
    let busy = busy_time();
    while begun.elapsed() < time {
        for _ in 0..256 {
            bench.round();
        }
        assert!(bench.scheduler.stats().queued.abs_diff(queued) < queued / 2 + 512, "the queue keeps its length");
    }
    let busy = busy_time().zip(busy).map(|(now, then)| now - then);
    bench.events as f64 / busy.unwrap_or_else(|| begun.elapsed()).as_secs_f64()
}

/// Time that this thread has spent on a core, where the system reports it. Other load on the
/// machine does not count.
fn busy_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(stat.split_whitespace().next()?.parse().ok()?))
}

struct Bench {
    scheduler: Scheduler,
    effects: Vec<Effect>,
    now: u64,
    random: u64,
    events: u64,
    rounds: u64,
    leased: VecDeque<(WorkerId, JobId, u64)>,
}

impl Bench {
    fn new() -> Self {
        let config = Config { jobs_max: 1 << 20, ..Config::default() };
        let mut bench = Self {
            scheduler: Scheduler::new(config),
            effects: Vec::new(),
            now: 0,
            random: 1,
            events: 0,
            rounds: 0,
            leased: VecDeque::new(),
        };
        (0..WORKERS).for_each(|worker| bench.report(WorkerId(u128::from(worker))));
        bench
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 16
    }

    fn feed(&mut self, event: Event) {
        self.events += 1;
        self.now += 1;
        self.scheduler.feed(self.now, event, &mut self.effects);
        for effect in std::mem::take(&mut self.effects) {
            if let Effect::Record(attempt) = effect {
                self.leased.push_back((attempt.worker, attempt.job, attempt.epoch));
                self.feed(Event::Recorded { job: attempt.job, epoch: attempt.epoch });
            }
        }
    }

    fn submit(&mut self) {
        let tenant = TenantId(self.random() % TENANTS);
        let group = Group { tenant, key: KeyId([(self.random() % 4) as u8; 16]), set: SetId(1) };
        let id = JobId(u128::from(self.random()) << 64 | u128::from(self.random()));
        let (cost, priority) = (1 + self.random() % 64, (self.random() % 3) as i8 - 1);
        let deadline = self.now + 3_600_000_000 + self.random() % 1_000_000_000;
        self.feed(Event::Submitted(NewJob { id, group, cost, rows: cost, bytes: 0, priority, deadline }));
    }

    /// Submits a job and ends a job. Every 32 rounds, assignments go out. Every 256 rounds, a
    /// worker reports.
    fn round(&mut self) {
        self.rounds += 1;
        self.submit();
        if let Some((worker, job, epoch)) = self.leased.pop_front() {
            self.feed(Event::Committed { worker, job, epoch, outcome: Outcome::Succeeded });
        }
        if self.rounds.is_multiple_of(32) {
            self.scheduler.flush(&mut self.effects);
            self.effects.clear();
        }
        if self.rounds.is_multiple_of(256) {
            self.report(WorkerId(u128::from(self.rounds / 256 % WORKERS)));
            self.feed(Event::Tick);
        }
    }

    fn report(&mut self, worker: WorkerId) {
        let leases = self.scheduler.assignment(worker).into_iter().map(|(job, epoch)| LeaseReport {
            job,
            epoch,
            stage: Stage::Waiting,
            progress: self.rounds,
            rows_done: 0,
        });
        let report = Report {
            pool: "bench".to_owned(),
            sets: vec![SetId(1)],
            wanted_cost: 4096,
            leases: leases.collect(),
            resident: Vec::new(),
            draining: false,
            class: String::new(),
        };
        self.feed(Event::Reported { worker, report });
    }
}
