//! Workers. Each keeps its jobs while it looks for the owner, and repeats a result until it gets a
//! verdict.

use std::collections::BTreeMap;

use cloakwork_params::SetId;

use super::world::{Call, Cluster, Happening, ToWorker};
use crate::sim::plan::{RATE_MIN, TENTH};
use crate::types::{JobId, LeaseReport, Report, Stage, Time, WorkerId};

/// Time between two turns of a worker.
const TURN: Time = 2 * TENTH;
/// Number of turns after which a worker reports although nothing has changed.
const REPORT_TURNS: u64 = 5;
/// Number of turns after which a worker gives up a server that does not answer.
const PATIENCE_TURNS: u64 = 8;

#[derive(Clone, Debug)]
pub(super) struct Worker {
    stream: Stream,
    wanted: u64,
    /// Work in a turn.
    rate: u64,
    stalled_until: Time,
    work: BTreeMap<JobId, Work>,
    turns: u64,
    /// Whether something has changed since the last report.
    is_news: bool,
}

/// A worker's stream to a server.
#[derive(Clone, Copy, Debug)]
struct Stream {
    server: usize,
    /// The process that the stream leads to.
    process: u64,
    number: u64,
    is_attached: bool,
    /// Number of turns without a sign of the server.
    silent_turns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Work {
    epoch: u64,
    left: u64,
    done: u64,
    progress: u64,
    /// Number of turns since the result was handed in.
    committing: Option<u64>,
}

impl Cluster {
    pub(super) fn new_worker(&mut self) {
        let id = WorkerId(u128::from(self.random.next()));
        let worker = Worker {
            stream: Stream { server: 0, process: 0, number: 0, is_attached: false, silent_turns: PATIENCE_TURNS },
            wanted: self.random.range(1, 150),
            rate: 2 * RATE_MIN * self.random.range(1, 4),
            stalled_until: 0,
            work: BTreeMap::new(),
            turns: 0,
            is_news: true,
        };
        self.workers.insert(id, worker);
        let delay = self.random.range(1, TURN);
        self.later(delay, Happening::WorkerTurn { worker: id });
    }

    pub(super) fn worker_turn(&mut self, id: WorkerId) {
        let Some(mut worker) = self.workers.remove(&id) else { return };
        self.later(TURN, Happening::WorkerTurn { worker: id });
        if self.now >= worker.stalled_until || self.now >= self.plan.quiet_at {
            let commits = worker.compute();
            self.keep_stream(id, &mut worker);
            worker.turns += 1;
            let Stream { server, number: stream, is_attached, .. } = worker.stream;
            if is_attached {
                for (job, epoch) in commits {
                    self.call(server, Call::Commit { worker: id, stream, job, epoch }, false);
                }
                if std::mem::take(&mut worker.is_news) || worker.turns.is_multiple_of(REPORT_TURNS) {
                    self.tell_server(server, Call::Report { worker: id, stream, report: worker.report() });
                }
            }
        }
        self.workers.insert(id, worker);
    }

    /// Gives up a stream to a server that died or is suspended, and opens another.
    fn keep_stream(&mut self, id: WorkerId, worker: &mut Worker) {
        let Stream { server, process, number: stream, is_attached, silent_turns } = worker.stream;
        let is_same = self.servers[server].process == process;
        if is_same && is_attached && !self.servers[server].is_suspended() {
            worker.stream.silent_turns = 0;
            return;
        }
        worker.stream.silent_turns += 1;
        if is_same && silent_turns < PATIENCE_TURNS {
            return;
        }
        if is_same && is_attached {
            self.tell_server(server, Call::Broken { worker: id, stream });
        }
        let server = self.random.range(0, self.plan.servers as u64 - 1) as usize;
        self.streams += 1;
        let (number, process) = (self.streams, self.servers[server].process);
        // A server that does not answer is given up sooner while the stream is new.
        let silent_turns = PATIENCE_TURNS / 2;
        worker.stream = Stream { server, process, number, is_attached: false, silent_turns };
        self.tell_server(server, Call::Attach { worker: id, stream: number, report: worker.report() });
    }

    /// Messages of one stream keep their order, and stay with their process.
    fn tell_server(&mut self, server: usize, call: Call) {
        self.later(1000, Happening::ToServer { server, call, is_passed_on: false });
    }

    pub(super) fn tell_worker(&mut self, worker: WorkerId, stream: u64, message: ToWorker) {
        self.later(1000, Happening::ToWorker { worker, stream, message });
    }

    pub(super) fn refuse_worker(&mut self, worker: WorkerId, stream: u64) {
        self.tell_worker(worker, stream, ToWorker::Refused);
    }

    pub(super) fn worker_hears(&mut self, id: WorkerId, stream: u64, message: ToWorker) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if let ToWorker::Verdict { job, epoch } = message {
            if worker.work.get(&job).is_some_and(|work| work.epoch == epoch) {
                worker.work.remove(&job);
                worker.is_news = true;
            }
            return;
        }
        if worker.stream.number != stream {
            return;
        }
        match message {
            ToWorker::Attached => worker.stream.is_attached = true,
            // The next turn tries another server.
            ToWorker::Refused => worker.stream.silent_turns = PATIENCE_TURNS,
            ToWorker::Assign(leases) => self.worker_takes(id, &leases),
            ToWorker::Verdict { .. } => {}
        }
    }

    fn worker_takes(&mut self, id: WorkerId, leases: &[(JobId, u64)]) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let before = worker.work.len();
        worker.work.retain(|job, work| leases.contains(&(*job, work.epoch)));
        worker.is_news |= before != worker.work.len();
        let mut fresh = Vec::new();
        for (job, epoch) in leases {
            if worker.work.contains_key(job) {
                continue;
            }
            fresh.push((*job, *epoch));
        }
        for (job, epoch) in fresh {
            // An attempt that began early belongs to a job that is not stored yet.
            let Some(left) = self.cost_of(job) else { continue };
            let Some(worker) = self.workers.get_mut(&id) else { return };
            worker.work.insert(job, Work { epoch, left, done: 0, progress: 0, committing: None });
            worker.is_news = true;
            let begun = self.begun.entry(job).or_default();
            *begun += 1;
            assert!(*begun == 1 || !self.plan.gentle, "{job:?} is computed again, and only servers failed");
        }
    }

    fn cost_of(&self, job: JobId) -> Option<u64> {
        let stored = self.database.state.jobs.rows.get(&job).map(|row| row.request);
        let live = || self.servers.iter().find_map(|server| server.owner.as_ref()?.jobs.get(&job));
        let request = stored.or_else(|| live().map(|live| live.request))?;
        Some(self.plan.wishes[request].cost)
    }

    /// A worker dies, falls silent for a while, or loses its stream.
    pub(super) fn worker_fails(&mut self) {
        let ids: Vec<WorkerId> = self.workers.keys().copied().collect();
        let Some(id) = self.random.pick(&ids) else { return };
        self.summary.worker_faults += 1;
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let Stream { server, number: stream, is_attached, .. } = worker.stream;
        match self.random.range(0, 2) {
            0 => {
                self.workers.remove(&id);
                self.new_worker();
            }
            1 => {
                worker.stalled_until = self.now + self.random.range(1, 150) * TENTH;
                return;
            }
            _ => worker.stream.process = 0,
        }
        if is_attached {
            self.tell_server(server, Call::Broken { worker: id, stream });
        }
    }
}

impl Worker {
    /// Works for a turn. Returns the results to hand in.
    fn compute(&mut self) -> Vec<(JobId, u64)> {
        let mut power = self.rate;
        let mut commits = Vec::new();
        for (job, work) in &mut self.work {
            match &mut work.committing {
                Some(turns) => {
                    *turns += 1;
                    if turns.is_multiple_of(4) {
                        commits.push((*job, work.epoch));
                    }
                }
                None if power > 0 => {
                    let done = work.left.min(power);
                    (work.left, work.done, power) = (work.left - done, work.done + done, power - done);
                    work.progress += 1;
                    if work.left == 0 {
                        work.committing = Some(0);
                        commits.push((*job, work.epoch));
                        self.is_news = true;
                    }
                }
                None => {}
            }
        }
        commits
    }

    fn report(&self) -> Report {
        let leases = self.work.iter().map(|(job, work)| LeaseReport {
            job: *job,
            epoch: work.epoch,
            stage: match work {
                Work { committing: Some(_), .. } => Stage::Committing,
                Work { progress: 0, .. } => Stage::Waiting,
                _ => Stage::Computing,
            },
            progress: work.progress,
            rows_done: work.done,
        });
        Report {
            pool: "sim".to_owned(),
            sets: vec![SetId(1), SetId(2)],
            wanted_cost: self.wanted,
            leases: leases.collect(),
            resident: Vec::new(),
            draining: false,
            class: "one".to_owned(),
        }
    }
}
