//! Simulated time, its events, the faults, and the verdict at the end.

use std::collections::BTreeMap;

use super::Summary;
use super::bug::Bug;
use super::client::{Answer, Client, Published};
use super::database::Database;
use super::plan::Plan;
use super::server::Server;
use super::visit::{Reply, Visit};
use super::worker::Worker;
use crate::event::End;
use crate::sim::agenda::Agenda;
use crate::sim::plan::TENTH;
use crate::sim::random::Random;
use crate::types::{JobId, Report, Time, WorkerId};

pub(super) struct Cluster {
    pub(super) random: Random,
    pub(super) trace: bool,
    pub(super) bug: Option<Bug>,
    pub(super) plan: Plan,
    pub(super) now: Time,
    agenda: Agenda<Happening>,
    pub(super) database: Database,
    pub(super) servers: Vec<Server>,
    pub(super) workers: BTreeMap<WorkerId, Worker>,
    pub(super) clients: Vec<Client>,
    pub(super) published: Published,
    /// Number of times that a worker began each job.
    pub(super) begun: BTreeMap<JobId, u32>,
    /// Number of processes of servers so far, and of streams of workers.
    pub(super) processes: u64,
    pub(super) streams: u64,
    pub(super) summary: Summary,
}

/// A scheduled event.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    ClientTurn {
        request: usize,
    },
    ToClient {
        request: usize,
        answer: Answer,
    },
    WorkerTurn {
        worker: WorkerId,
    },
    ToWorker {
        worker: WorkerId,
        stream: u64,
        message: ToWorker,
    },
    /// A call arrives at a server. `is_passed_on` means that another server has sent it on.
    ToServer {
        server: usize,
        call: Call,
        is_passed_on: bool,
    },
    ToDatabase {
        server: usize,
        process: u64,
        generation: u64,
        sent: Time,
        visit: Visit,
        is_answered: bool,
    },
    FromDatabase {
        server: usize,
        process: u64,
        sent: Time,
        reply: Reply,
    },
    Starts {
        server: usize,
    },
    Dies {
        server: usize,
    },
    Resumes {
        server: usize,
    },
    /// A timer of a server's process.
    Timer {
        server: usize,
        process: u64,
        timer: Timer,
    },
    Fault,
    /// A standby takes over from the database server.
    FailOver,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    Look,
    Beat,
    Wake,
}

#[derive(Clone, Debug)]
pub(super) enum Call {
    Submit {
        request: usize,
    },
    Watch {
        request: usize,
    },
    Cancel {
        request: usize,
    },
    Attach {
        worker: WorkerId,
        stream: u64,
        report: Report,
    },
    Report {
        worker: WorkerId,
        stream: u64,
        report: Report,
    },
    Commit {
        worker: WorkerId,
        stream: u64,
        job: JobId,
        epoch: u64,
    },
    /// The stream of a worker has ended.
    Broken {
        worker: WorkerId,
        stream: u64,
    },
}

#[derive(Clone, Debug)]
pub(super) enum ToWorker {
    Attached,
    /// The server is not the owner.
    Refused,
    Assign(Vec<(JobId, u64)>),
    Verdict {
        job: JobId,
        epoch: u64,
    },
}

impl Cluster {
    pub(super) fn new(seed: u64, trace: bool, bug: Option<Bug>) -> Self {
        let mut random = Random(seed);
        let plan = Plan::new(&mut random);
        let servers = (0..plan.servers).map(|_| Server::new(&mut random)).collect();
        Self {
            random,
            trace,
            bug,
            now: 0,
            agenda: Agenda::default(),
            database: Database::new(plan.sync_standby, bug),
            servers,
            workers: BTreeMap::new(),
            clients: vec![Client::default(); plan.wishes.len()],
            published: Published::default(),
            begun: BTreeMap::new(),
            processes: 0,
            streams: 0,
            summary: Summary::default(),
            plan,
        }
    }

    pub(super) fn later(&mut self, delay: u64, what: Happening) {
        self.agenda.add(self.now + delay, what);
    }

    /// Whether something goes wrong that has this chance during the faults.
    pub(super) fn fails(&mut self, percent: u64) -> bool {
        self.now < self.plan.quiet_at && self.random.percent(percent)
    }

    pub(super) fn say(&self, what: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{:>10} {}", self.now, what());
        }
    }

    /// Runs everything from the first request to the last end.
    pub(super) fn run(mut self) -> Summary {
        for server in 0..self.plan.servers {
            let delay = self.random.range(0, 10 * TENTH);
            self.later(delay, Happening::Starts { server });
        }
        for _ in 0..self.plan.workers {
            self.new_worker();
        }
        for (request, wish) in self.plan.wishes.clone().into_iter().enumerate() {
            self.later(wish.at, Happening::ClientTurn { request });
            if let Some(at) = wish.cancel_at {
                let server = self.random.range(0, self.plan.servers as u64 - 1) as usize;
                let call = Call::Cancel { request };
                self.later(at, Happening::ToServer { server, call, is_passed_on: false });
            }
        }
        for _ in 0..self.plan.faults {
            let at = self.random.range(20 * TENTH, self.plan.quiet_at);
            self.later(at, Happening::Fault);
        }
        while !self.is_done() {
            let Some((now, what)) = self.agenda.next() else { panic!("no event is left, and jobs remain") };
            self.now = now;
            assert!(now <= self.plan.end, "I7: unfinished at {now}: {:?} {:?}", self.clients, self.database.state);
            self.happen(what);
        }
        self.judge();
        self.summary
    }

    pub(super) fn happen(&mut self, what: Happening) {
        let Some(what) = self.unless_suspended(what) else { return };
        match what {
            Happening::ClientTurn { request } => self.client_turn(request),
            Happening::ToClient { request, answer } => self.client_hears(request, answer),
            Happening::WorkerTurn { worker } => self.worker_turn(worker),
            Happening::ToWorker { worker, stream, message } => self.worker_hears(worker, stream, message),
            Happening::ToServer { server, call, is_passed_on } => self.server_hears(server, call, is_passed_on),
            Happening::ToDatabase { server, process, generation, sent, visit, is_answered } => {
                self.database_hears(server, process, generation, sent, visit, is_answered);
            }
            Happening::FromDatabase { server, process, sent, reply } => {
                self.database_replies(server, process, sent, reply)
            }
            Happening::Starts { server } => self.server_starts(server),
            Happening::Dies { server } => self.server_dies(server),
            Happening::Resumes { server } => self.server_resumes(server),
            Happening::Timer { server, process, timer } => self.server_wakes(server, process, timer),
            Happening::Fault => self.fault(),
            Happening::FailOver => self.fail_over(),
        }
    }

    fn fault(&mut self) {
        let any = self.random.range(0, self.plan.servers as u64 - 1) as usize;
        let owner = self.database.state.owner.and_then(|process| self.index_of(process));
        let server = if self.random.percent(70) { owner.unwrap_or(any) } else { any };
        let fault = self.random.range(0, if self.plan.gentle { 3 } else { 9 });
        self.say(|| format!("fault {fault} on server {server}"));
        match fault {
            0 | 1 => self.server_dies(server),
            2 | 3 => {
                // The owner is deposed after 40 tenths of a second.
                let longest = self.random.pick(&[40, 60, if self.plan.gentle { 90 } else { 150 }]).unwrap_or(40);
                let pause = self.random.range(1, longest) * TENTH;
                self.server_pauses(server, pause);
            }
            4 | 5 => {
                let until = self.now + self.random.range(1, 120) * TENTH;
                self.servers[server].cut(until, &mut self.random);
            }
            6 | 7 => self.fail_over(),
            _ => self.worker_fails(),
        }
    }

    pub(super) fn fail_over(&mut self) {
        let tail = self.database.tail(self.now) as u64;
        let lost = self.random.range(0, tail) as usize;
        let away_until = self.now + self.random.range(0, 10 * TENTH);
        let before = self.database.fail_over(lost, away_until);
        let after = &self.database.state;
        self.say(|| format!("a standby takes over at batch {} of {}, epoch {}", after.seq, before.seq, after.epoch));
        self.summary.fail_overs += 1;
        self.summary.lost_commits += lost as u64;
        if self.plan.sync_standby {
            self.check_published();
        } else {
            // Without a synchronous standby, nothing is promised: callers begin again.
            let kept = &self.database.state.jobs;
            self.published.acknowledged.retain(|_, job| kept.rows.contains_key(job));
            self.published.ends.retain(|request, end| {
                let row = kept.requests.get(request).map(|job| &kept.rows[job]);
                row.is_some_and(|row| row.end.as_ref() == Some(&*end))
            });
            for (request, client) in self.clients.iter_mut().enumerate() {
                if !self.plan.runs[request] {
                    client.acknowledged = self.published.acknowledged.get(&request).copied();
                    client.end = self.published.ends.get(&request).cloned();
                }
            }
            for request in 0..self.clients.len() {
                self.later(TENTH, Happening::ClientTurn { request });
            }
        }
    }

    /// I1 and I2: the database has every acknowledged job, and every end that a caller relies on.
    fn check_published(&self) {
        let jobs = &self.database.state.jobs;
        for (request, job) in &self.published.acknowledged {
            assert!(jobs.rows.contains_key(job), "I1: the acknowledged {job:?} of request {request} is lost");
        }
        for (request, end) in &self.published.ends {
            let row = jobs.requests.get(request).and_then(|job| jobs.rows.get(job));
            assert_eq!(row.and_then(|row| row.end.as_ref()), Some(end), "I2: the end of request {request} changed");
        }
    }

    fn is_done(&self) -> bool {
        self.now >= self.plan.quiet_at
            && self.clients.iter().all(|client| client.end.is_some())
            && self.database.state.jobs.unfinished().next().is_none()
    }

    fn judge(&mut self) {
        self.summary.micros = self.now;
        self.check_published();
        let state = &self.database.state;
        self.summary.jobs = state.jobs.rows.len() as u64;
        self.summary.takeovers = state.epoch;
        self.summary.fenced = self.database.fenced;
        for (id, row) in &state.jobs.rows {
            let Some(end) = &row.end else { panic!("I1: {id:?} has no end") };
            let fits = match end {
                End::Succeeded => true,
                End::Cancelled => row.wish.cancel_at.is_some(),
                End::DeadlineExceeded => row.wish.deadline <= self.now,
                End::Failed(_) => !self.plan.gentle,
            };
            assert!(fits, "{id:?} ended as {end:?}: {row:?}");
            self.summary.succeeded += u64::from(*end == End::Succeeded);
        }
    }
}
