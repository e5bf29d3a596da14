//! The way of a server to the database and back. Visits may be lost, late, or without an answer.

use std::collections::BTreeSet;

use super::bug::Bug;
use super::database::{Found, Transaction};
use super::server::Cut;
use super::world::{Cluster, Happening};
use crate::sim::plan::TENTH;
use crate::sim::store::Row;
use crate::types::{JobId, Time};

/// Time after which a server gives a visit up.
const TIMEOUT: Time = 20 * TENTH;

#[derive(Clone, Debug)]
pub(super) enum Visit {
    Look,
    Depose,
    Beat,
    Commit(Transaction),
    /// Reads the number of batches and all jobs, once no earlier transaction is on its way.
    Read {
        epoch: u64,
    },
}

#[derive(Clone, Debug)]
pub(super) enum Reply {
    Looked {
        found: Found,
        epoch: u64,
    },
    Deposed {
        epoch: Option<u64>,
    },
    /// The number of batches that the database has.
    Beaten {
        seq: u64,
    },
    Committed,
    Read(Box<Loaded>),
    /// Another server owns the database, or the number of batches differs.
    Fenced(Purpose),
    Failed(Purpose),
}

/// The kind of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Look,
    Beat,
    Commit,
    Read,
}

/// The unfinished jobs in the database.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub(super) seq: u64,
    pub(super) jobs: Vec<(JobId, Row)>,
    pub(super) promised: BTreeSet<JobId>,
}

impl Visit {
    fn purpose(&self) -> Purpose {
        match self {
            Self::Look | Self::Depose => Purpose::Look,
            Self::Beat => Purpose::Beat,
            Self::Commit(_) => Purpose::Commit,
            Self::Read { .. } => Purpose::Read,
        }
    }
}

impl Cluster {
    /// Sends a server's process to the database.
    pub(super) fn visit(&mut self, server: usize, visit: Visit) {
        let purpose = visit.purpose();
        let is_slow = self.fails(3);
        let delay = if is_slow { self.random.range(1, TIMEOUT - TENTH) } else { self.random.range(500, 5000) };
        let cut = self.servers[server].cut_at(self.now);
        let bad = self.fails(self.plan.bad_visits);
        let fate = if bad { self.random.range(1, 3) } else { 0 };
        let (arrives, is_answered) = match (cut, fate) {
            (Cut::Both, _) | (_, 1) => (None, false),
            (Cut::Answers, _) | (_, 2) => (Some(self.now + delay), false),
            // The server gives up, and the visit still arrives.
            (_, 3) => (Some(self.now + TIMEOUT + self.random.range(0, 20 * TENTH)), false),
            _ => (Some(self.now + delay), true),
        };
        let of = &mut self.servers[server];
        if let (Some(owner), Purpose::Beat) = (&mut of.owner, purpose) {
            owner.seq_before_beat = owner.seq;
        }
        let (process, sent) = (of.process, of.clock(self.now));
        if let Some(at) = arrives {
            // A new connection waits for the transaction of the old one.
            let at = if purpose == Purpose::Read { at.max(of.last_commit + 1) } else { at };
            if purpose == Purpose::Commit {
                of.last_commit = at;
            }
            let generation = self.database.generation;
            let what = Happening::ToDatabase { server, process, generation, sent, visit, is_answered };
            self.later(at - self.now, what);
        }
        if !is_answered {
            let patience = self.random.range(TENTH, TIMEOUT);
            let reply = Reply::Failed(purpose);
            self.later(patience, Happening::FromDatabase { server, process, sent, reply });
        }
    }

    pub(super) fn database_hears(
        &mut self,
        server: usize,
        process: u64,
        generation: u64,
        sent: Time,
        visit: Visit,
        is_answered: bool,
    ) {
        let purpose = visit.purpose();
        // Connections to a server that was lost end without a trace.
        let is_there = generation == self.database.generation && self.now >= self.database.away_until;
        let reply = if is_there { self.database_does(server, process, visit) } else { Reply::Failed(purpose) };
        if is_answered {
            let is_cut = self.servers[server].process == process && self.servers[server].cut_at(self.now) != Cut::None;
            let (delay, reply) = match is_cut {
                true => (self.random.range(TENTH, TIMEOUT), Reply::Failed(purpose)),
                false => (self.random.range(200, 2000), reply),
            };
            self.later(delay, Happening::FromDatabase { server, process, sent, reply });
        }
    }

    fn database_does(&mut self, server: usize, process: u64, visit: Visit) -> Reply {
        let now = self.now;
        let database = &mut self.database;
        match visit {
            Visit::Look => Reply::Looked { found: database.look(now, process), epoch: database.state.epoch },
            Visit::Depose => {
                let is_taken = database.depose(now, process);
                let epoch = is_taken.then_some(database.state.epoch);
                self.after_takeover(server, is_taken);
                Reply::Deposed { epoch }
            }
            Visit::Beat if database.beat(now, process) => Reply::Beaten { seq: database.state.seq },
            Visit::Commit(transaction) if database.commit(now, transaction.clone()) => Reply::Committed,
            Visit::Beat => Reply::Fenced(Purpose::Beat),
            Visit::Commit(_) => Reply::Fenced(Purpose::Commit),
            Visit::Read { epoch } if database.state.owner == Some(process) && database.state.epoch == epoch => {
                let state = &database.state;
                let mut jobs: Vec<(JobId, Row)> = state.jobs.unfinished().map(|(id, row)| (*id, row.clone())).collect();
                jobs.sort_by_key(|(id, row)| (row.submitted, *id));
                Reply::Read(Box::new(Loaded { seq: state.seq, jobs, promised: state.promised.clone() }))
            }
            Visit::Read { .. } => Reply::Fenced(Purpose::Read),
        }
    }

    /// Failures that are worst just after a takeover: a standby lacks the takeover, or the next
    /// owner does not hear of it before its beat is old.
    fn after_takeover(&mut self, server: usize, is_taken: bool) {
        if !is_taken {
            return;
        }
        self.check_certain();
        if self.plan.gentle {
            // Workers then find the last owner, if that one continues.
            if self.fails(50) {
                let delay = self.random.range(5, 30) * TENTH;
                self.later(delay, Happening::Dies { server });
            }
            return;
        }
        if !self.plan.sync_standby && self.fails(25) {
            let delay = self.random.range(1, 6 * TENTH);
            self.later(delay, Happening::FailOver);
        } else if self.fails(25) {
            let until = self.now + self.random.range(20, 40) * TENTH;
            self.servers[server].cut(until, &mut self.random);
        }
    }

    pub(super) fn has_bug(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}
