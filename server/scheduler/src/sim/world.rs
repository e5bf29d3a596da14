//! Simulated time, its events, and the verdict at the end.

use std::collections::{BTreeMap, BTreeSet};

use super::Summary;
use super::agenda::Agenda;
use super::client::Client;
use super::plan::{Kind, Plan, TENTH};
use super::random::Random;
use super::server::Server;
use super::store::{Row, Store};
use super::worker::{FromWorker, SimWorker, ToWorker};
use crate::event::{CheckEnd, End, reasons};
use crate::types::{JobId, NewCheck, Time, WorkerId};

pub(super) struct World {
    pub(super) random: Random,
    pub(super) trace: bool,
    pub(super) plan: Plan,
    pub(super) now: Time,
    agenda: Agenda<Happening>,
    pub(super) store: Store,
    pub(super) server: Option<Server>,
    /// Number of the latest server process.
    pub(super) life: u64,
    pub(super) dead_embedded: Vec<WorkerId>,
    pub(super) workers: BTreeMap<WorkerId, SimWorker>,
    /// When each attempt was first assigned.
    pub(super) begun: BTreeMap<(JobId, u64), Time>,
    pub(super) clients: Vec<Client>,
    /// Every check so far.
    pub(super) checks: BTreeMap<JobId, SimCheck>,
    /// Workers that were quarantined, by the server process that did it.
    pub(super) quarantined: BTreeSet<(u64, WorkerId)>,
    /// Whether assignments are sent once for each transaction.
    pub(super) batched: bool,
    pub(super) summary: Summary,
}

/// A check of a job's result.
#[derive(Clone, Debug)]
pub(super) struct SimCheck {
    pub(super) spec: NewCheck,
    pub(super) kind: Kind,
    pub(super) end: Option<CheckEnd>,
}

/// A scheduled event.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    ClientSends {
        request: usize,
    },
    Submit {
        request: usize,
    },
    Acknowledged {
        request: usize,
        job: JobId,
    },
    Cancel {
        request: usize,
    },
    WorkerTurn {
        worker: WorkerId,
    },
    NewWorker {
        slot: u64,
    },
    /// The operator restarts a quarantined worker.
    Restart {
        worker: WorkerId,
    },
    ToServer {
        worker: WorkerId,
        life: u64,
        message: FromWorker,
    },
    ToWorker {
        worker: WorkerId,
        life: u64,
        message: ToWorker,
    },
    ServerStarts,
    Tick {
        life: u64,
    },
    Transaction {
        life: u64,
    },
    Fault,
}

impl World {
    pub(super) fn new(seed: u64, trace: bool) -> Self {
        let mut random = Random(seed);
        let plan = Plan::new(&mut random);
        let batched = random.percent(50);
        let clients = vec![Client::default(); plan.wishes.len()];
        Self {
            random,
            trace,
            plan,
            now: 0,
            agenda: Agenda::default(),
            store: Store::default(),
            server: None,
            life: 0,
            dead_embedded: Vec::new(),
            workers: BTreeMap::new(),
            begun: BTreeMap::new(),
            clients,
            checks: BTreeMap::new(),
            quarantined: BTreeSet::new(),
            batched,
            summary: Summary::default(),
        }
    }

    pub(super) fn later(&mut self, delay: u64, what: Happening) {
        self.agenda.add(self.now + delay, what);
    }

    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.random.percent(percent)
    }

    /// Runs everything from the first request to the last end.
    pub(super) fn run(mut self) -> Summary {
        self.later(0, Happening::ServerStarts);
        for slot in 0..self.plan.remote_workers {
            self.later(0, Happening::NewWorker { slot });
        }
        for (request, wish) in self.plan.wishes.clone().into_iter().enumerate() {
            self.later(wish.at, Happening::ClientSends { request });
            if let Some(at) = wish.cancel_at {
                self.later(at, Happening::Cancel { request });
            }
        }
        for _ in 0..self.plan.faults {
            let at = self.random.range(0, self.plan.quiet_at);
            self.later(at, Happening::Fault);
        }
        while !self.is_done() {
            let Some((now, what)) = self.agenda.next() else { panic!("no event is left, and jobs remain") };
            self.now = now;
            assert!(now <= self.plan.end, "I7: unfinished at {now}: {:?}", self.unfinished());
            self.happen(what);
        }
        self.judge();
        self.summary
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::ClientSends { request } => self.client_sends(request),
            Happening::Submit { request } => self.server_gets_request(request),
            Happening::Acknowledged { request, job } => self.client_hears(request, job),
            Happening::Cancel { request } => self.server_gets_cancel(request),
            Happening::WorkerTurn { worker } => self.worker_turn(worker),
            Happening::NewWorker { slot } => self.new_worker(slot, false),
            Happening::Restart { worker } => self.worker_restarts(worker),
            Happening::ToServer { worker, life, message } => self.server_hears(worker, life, message),
            Happening::ToWorker { worker, life, message } => self.worker_hears(worker, life, message),
            Happening::ServerStarts => self.server_starts(),
            Happening::Tick { life } => self.server_ticks(life),
            Happening::Transaction { life } => self.transaction(life),
            Happening::Fault => self.fault(),
        }
    }

    fn fault(&mut self) {
        let ids: Vec<WorkerId> = self.workers.keys().copied().collect();
        let Some(id) = self.random.pick(&ids) else { return };
        let fault = self.random.range(0, 9);
        if self.trace {
            eprintln!("{:>10} fault {fault} on {id:?}", self.now);
        }
        match fault {
            0 => self.server_dies(),
            1 | 2 => self.worker_dies(id),
            3 => self.stream_breaks(id, true),
            4 => self.stream_breaks(id, false),
            5 | 6 => {
                let until = self.now + self.random.range(1, 40) * TENTH;
                if let Some(worker) = self.workers.get_mut(&id) {
                    worker.stalled_until = until;
                }
            }
            _ => {
                if let Some(worker) = self.workers.get_mut(&id).filter(|worker| !worker.embedded) {
                    worker.draining = true;
                }
            }
        }
    }

    fn is_done(&self) -> bool {
        self.now >= self.plan.quiet_at
            && self.clients.iter().all(|client| client.acknowledged.is_some())
            && self.store.rows.values().all(|row| row.end.is_some())
    }

    fn unfinished(&self) -> Vec<(&JobId, &Row)> {
        self.store.unfinished().collect()
    }

    /// Checks that every job ended as its kind requires.
    fn judge(&mut self) {
        self.summary.micros = self.now;
        self.summary.jobs = self.store.rows.len() as u64;
        assert_eq!(self.store.rows.len(), self.clients.len(), "I8: as many jobs as requests");
        for (id, row) in &self.store.rows {
            assert_eq!(self.clients[row.request].acknowledged, Some(*id), "I4: {id:?}");
            let Some(end) = &row.end else { panic!("I1: {id:?} has no end") };
            self.check_end(id, row, end);
            match end {
                End::Succeeded => self.summary.succeeded += 1,
                End::Failed(reason) if reason == reasons::POISON => self.summary.poison += 1,
                _ => {}
            }
        }
        let stats = self.server.as_ref().map(|server| server.core.stats());
        let counters = stats.map(|stats| stats.counters).unwrap_or_default();
        (self.summary.refused, self.summary.acquitted) = (counters.refused, counters.acquitted);
    }

    fn check_end(&self, id: &JobId, row: &Row, end: &End) {
        let config = &self.plan.config;
        let fits = match end {
            End::Succeeded => matches!(row.wish.kind, Kind::Good | Kind::Sticky | Kind::Large),
            End::Cancelled => row.wish.cancel_at.is_some(),
            End::DeadlineExceeded => row.wish.deadline <= self.now,
            End::Failed(reason) => match reason.as_ref() {
                "FLAKY" => matches!(row.wish.kind, Kind::Flaky | Kind::Poison),
                "TOO_LARGE" => row.wish.kind == Kind::Large && row.attempts + 1 >= config.attempts_max,
                "BROKEN" => row.wish.kind == Kind::Broken,
                reasons::ATTEMPTS_EXHAUSTED => row.attempts + 1 >= config.attempts_max,
                reasons::POISON => row.wish.kind == Kind::Poison || row.innocent_crashes >= config.solo_crashes_max,
                _ => false,
            },
        };
        assert!(fits, "{id:?} ended as {end:?}: {row:?}");
        // Each crash halves the suspects. Repeats come from state that died with a server, and from
        // leases that expired meanwhile.
        let halvings = usize::BITS - row.company.saturating_sub(1).leading_zeros();
        let again = config.attempts_max + if self.plan.bad_transactions + self.plan.faults > 0 { 10 } else { 0 };
        let crashes_max = halvings + config.solo_crashes_max + again;
        assert!(row.own_crashes <= crashes_max, "{id:?} crashed {} workers: {row:?}", row.own_crashes);
    }
}
