//! Virtual time, and everything that happens in it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Size;
use super::cpu::Cpu;
use super::demand::{Demand, KEYS, group};
use super::fleet_worker::{JOB_COST, Worker};
use super::report::{Burst, Report, jain};
use super::shard::Shard;
use crate::event::{Effect, End, Event, Outcome};
use crate::placement::{Load, gifts};
use crate::sim::random::Random;
use crate::types::{Group, JobId, NewJob, Time, WorkerId};

const MILLI: Time = 1000;
const SECOND: Time = 1_000_000;
/// Time between two rounds of a server, in milliseconds.
const ROUND_MILLIS: u64 = 4;
/// Time between two reports of a worker, and between two tables of loads, in milliseconds.
const REPORT_MILLIS: u64 = 1000;
/// Work for each worker that counts as no backlog, in seconds.
const ENOUGH_SECONDS: f64 = 0.25;
/// Jobs of a tenant that must be known before its share counts.
const JOBS_MIN: u32 = 20;

pub(super) struct Fleet {
    size: Size,
    random: Random,
    demand: Demand,
    /// The shard of each tenant.
    home: Vec<usize>,
    millis: u64,
    shards: Vec<Shard>,
    workers: Vec<Worker>,
    /// When workers end their jobs.
    ends: BinaryHeap<Reverse<(Time, usize)>>,
    jobs: Vec<(Group, Time)>,
    cpu: Cpu,
    count: Count,
    /// The shard whose tenants offer ten times as much at present.
    burst_on: Option<usize>,
    moved: u64,
}

/// Counts since the warm-up.
#[derive(Default)]
struct Count {
    nanos: u64,
    offered: Vec<u32>,
    done: Vec<u32>,
    /// Time from submission to end of each job, in microseconds.
    latencies: Vec<u32>,
}

impl Fleet {
    pub(super) fn new(size: Size) -> Self {
        let Size { shards, workers, jobs, tenants } = size;
        let demand = Demand::new(tenants);
        let new_shard = |_| Shard::new(workers, jobs as usize * 60);
        let mut fleet = Self {
            size,
            random: Random(1),
            home: homes(&demand, size),
            demand,
            millis: 0,
            shards: (0..shards).map(new_shard).collect(),
            workers: (0..workers).map(|worker| Worker::of(worker % shards)).collect(),
            ends: BinaryHeap::new(),
            jobs: Vec::new(),
            cpu: Cpu::new(),
            count: Count::default(),
            burst_on: None,
            moved: 0,
        };
        fleet.preload();
        for worker in 0..workers {
            fleet.attach(worker);
        }
        fleet.reset();
        fleet
    }

    /// Gives each key to workers of its shard, in proportion to its jobs.
    fn preload(&mut self) {
        let shards = self.size.shards;
        let mut next: Vec<usize> = (0..shards).collect();
        for tenant in 0..self.size.tenants {
            for key in 0..KEYS {
                let shard = self.shard_of(tenant as u64);
                let places = (self.demand.part(tenant, key) * self.size.workers as f64).ceil() as usize;
                for _ in 0..places.min(self.size.workers / shards) {
                    self.workers[next[shard]].preload(group(tenant, key).key);
                    next[shard] += shards;
                    if next[shard] >= self.size.workers {
                        next[shard] = shard;
                    }
                }
            }
        }
    }

    fn shard_of(&self, tenant: u64) -> usize {
        self.home[tenant as usize]
    }

    fn attach(&mut self, worker: usize) {
        let shard = self.workers[worker].shard;
        self.shards[shard].workers += 1;
        self.tell_report(worker);
    }

    fn tell_report(&mut self, worker: usize) {
        let (shard, report) = (self.workers[worker].shard, self.workers[worker].report());
        self.shards[shard].inbox.push(Event::Reported { worker: WorkerId(worker as u128), report });
    }

    fn reset(&mut self) {
        let tenants = self.size.tenants;
        self.count = Count { offered: vec![0; tenants], done: vec![0; tenants], ..Count::default() };
        self.workers.iter_mut().for_each(|worker| (worker.hits, worker.misses) = (0, 0));
        self.shards.iter_mut().for_each(|shard| shard.events = 0);
        self.moved = 0;
    }

    pub(super) fn steady(mut self, warm_up_seconds: u64, seconds: u64) -> Report {
        self.run(warm_up_seconds * REPORT_MILLIS);
        self.reset();
        self.run(seconds * REPORT_MILLIS);
        let seconds = seconds as f64;
        let sum = |counts: &[u32]| counts.iter().map(|count| f64::from(*count)).sum::<f64>();
        let Count { nanos, offered, done, mut latencies } = self.count;
        let known = offered.iter().zip(&done).filter(|(offered, _)| **offered >= JOBS_MIN);
        let parts: Vec<f64> = known.map(|(offered, done)| f64::from(*done) / f64::from(*offered)).collect();
        let hits: u64 = self.workers.iter().map(|worker| worker.hits).sum();
        let misses: u64 = self.workers.iter().map(|worker| worker.misses).sum();
        latencies.sort_unstable();
        let count = latencies.len().max(1);
        let p99 = latencies.get(count * 99 / 100).copied().unwrap_or_default();
        Report {
            offered: sum(&offered) / seconds,
            done: sum(&done) / seconds,
            cores: nanos as f64 / 1e9 / seconds,
            events: self.shards.iter().map(|shard| shard.events as f64).sum::<f64>() / seconds,
            hits: hits as f64 / (hits + misses).max(1) as f64,
            fairness: jain(&parts),
            mean_millis: latencies.iter().map(|micros| f64::from(*micros)).sum::<f64>() / count as f64 / 1000.0,
            p99_millis: f64::from(p99) / 1000.0,
            moved: self.moved as f64 / seconds,
        }
    }

    pub(super) fn burst(mut self, warm_up_seconds: u64, seconds_max: u64) -> Burst {
        self.run(warm_up_seconds * REPORT_MILLIS);
        self.reset();
        // The shard with the median number of workers is not that of the greatest tenant.
        let mut order: Vec<usize> = (0..self.shards.len()).collect();
        order.sort_by_key(|shard| self.shards[*shard].workers);
        let shard = order[order.len() / 2];
        self.burst_on = Some(shard);
        self.run(REPORT_MILLIS);
        self.burst_on = None;
        let mut burst = Burst::default();
        for step in 0..seconds_max * 10 {
            let loads: Vec<Load> = self.shards.iter().map(Shard::load).collect();
            let each = |load: &Load| load.backlog_millis as f64 / 1000.0 / f64::from(load.workers.max(1));
            burst.backlog_max = burst.backlog_max.max(each(&loads[shard]));
            burst.workers_max = burst.workers_max.max(loads[shard].workers);
            let backlog: f64 = loads.iter().map(|load| load.backlog_millis as f64 / 1000.0).sum();
            let bound = (2.0 * backlog / self.size.workers as f64).max(ENOUGH_SECONDS);
            let most = loads.iter().map(each).fold(0.0, f64::max);
            if most > bound {
                burst.even_seconds = (step + 1) as f64 / 10.0;
            }
            if most <= ENOUGH_SECONDS {
                burst.gone_seconds = Some(step as f64 / 10.0);
                break;
            }
            self.run(REPORT_MILLIS / 10);
        }
        burst.moved = self.moved;
        burst
    }

    fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.millis += 1;
            self.offer();
            self.work();
            let first = (self.millis % REPORT_MILLIS) as usize;
            for worker in (first..self.workers.len()).step_by(REPORT_MILLIS as usize) {
                self.tell_report(worker);
            }
            for shard in 0..self.shards.len() {
                if (self.millis + shard as u64).is_multiple_of(ROUND_MILLIS) {
                    self.decide(shard);
                }
            }
            if self.millis.is_multiple_of(REPORT_MILLIS) && self.shards.len() > 1 {
                self.balance();
            }
        }
    }

    fn offer(&mut self) {
        let now = self.millis * MILLI;
        for _ in 0..self.size.jobs / 1000 {
            let group = self.demand.group(&mut self.random);
            let shard = self.shard_of(group.tenant.0);
            let times = if self.burst_on == Some(shard) { 10 } else { 1 };
            for _ in 0..times {
                let id = JobId(self.jobs.len() as u128);
                self.jobs.push((group, now));
                self.count.offered[group.tenant.0 as usize] += 1;
                let job = NewJob { id, group, cost: JOB_COST, rows: 1, bytes: 0, priority: 0, deadline: 3600 * SECOND };
                self.shards[shard].inbox.push(Event::Submitted(job));
            }
        }
    }

    /// Ends the jobs whose time has come.
    fn work(&mut self) {
        let now = self.millis * MILLI;
        while let Some(Reverse((at, worker))) = self.ends.peek().copied().filter(|Reverse((at, _))| *at <= now) {
            self.ends.pop();
            let Some((job, epoch)) = self.workers[worker].end() else { continue };
            let shard = self.workers[worker].shard;
            let id = WorkerId(worker as u128);
            let event = Event::Committed { worker: id, job, epoch, outcome: Outcome::Succeeded };
            self.shards[shard].inbox.push(event);
            self.begin(worker, at);
        }
    }

    fn begin(&mut self, worker: usize, at: Time) {
        if let Some(micros) = self.workers[worker].begin() {
            self.ends.push(Reverse((at + micros, worker)));
        }
    }

    fn decide(&mut self, shard: usize) {
        let now = self.millis * MILLI;
        let (effects, nanos) = self.shards[shard].round(now, &mut self.cpu);
        self.count.nanos += nanos;
        let mut assigned = Vec::new();
        for effect in effects {
            match effect {
                Effect::Assign { worker, leases } => {
                    let index = worker.0 as usize;
                    let worker = &mut self.workers[index];
                    if worker.shard == shard {
                        worker.take(&leases, |job| self.jobs[job.0 as usize].0);
                        assigned.push(index);
                    }
                }
                Effect::Finished { job, end } => {
                    assert_eq!(end, End::Succeeded, "{job:?}");
                    let (group, submitted) = self.jobs[job.0 as usize];
                    self.count.done[group.tenant.0 as usize] += 1;
                    self.count.latencies.push((now - submitted).min(u64::from(u32::MAX)) as u32);
                }
                Effect::Refuse { job, .. } => panic!("the result of {job:?} is refused"),
                _ => {}
            }
        }
        for worker in assigned {
            self.begin(worker, now);
        }
        // A worker that moves leaves once the scheduler and itself agree that it holds nothing.
        for worker in 0..self.workers.len() {
            let of = &self.workers[worker];
            let Some(next) = of.next_shard.filter(|_| of.shard == shard && of.is_empty()) else { continue };
            let id = WorkerId(worker as u128);
            if !self.shards[shard].holds(id) {
                self.shards[shard].inbox.push(Event::WorkerGone { worker: id, crashed: false });
                (self.workers[worker].shard, self.workers[worker].next_shard) = (next, None);
                self.tell_report(worker);
            }
        }
    }

    /// Each owner gives workers to other shards. A worker on its way counts there already.
    fn balance(&mut self) {
        let before = self.cpu.nanos();
        let loads: Vec<Load> = self.shards.iter().map(Shard::load).collect();
        let given: Vec<Vec<usize>> = (0..loads.len()).map(|shard| gifts(&loads, shard)).collect();
        self.count.nanos += self.cpu.nanos() - before;
        for (from, gifts) in given.into_iter().enumerate() {
            let mut own: Vec<usize> = (0..self.workers.len()).filter(|worker| self.is_settled(*worker, from)).collect();
            own.sort_by_key(|worker| self.workers[*worker].jobs());
            for (to, worker) in gifts.into_iter().zip(own) {
                self.workers[worker].next_shard = Some(to);
                self.shards[from].workers -= 1;
                self.shards[to].workers += 1;
                self.moved += 1;
                self.tell_report(worker);
            }
        }
    }

    fn is_settled(&self, worker: usize, shard: usize) -> bool {
        self.workers[worker].shard == shard && self.workers[worker].next_shard.is_none()
    }
}

/// Places the tenants, the greatest first, each on the shard with the least demand.
fn homes(demand: &Demand, size: Size) -> Vec<usize> {
    let mut parts = vec![0.0_f64; size.shards];
    (0..size.tenants)
        .map(|tenant| {
            let least = (0..size.shards).min_by(|a, b| parts[*a].total_cmp(&parts[*b])).unwrap_or(0);
            parts[least] += (0..KEYS).map(|key| demand.part(tenant, key)).sum::<f64>();
            least
        })
        .collect()
}
