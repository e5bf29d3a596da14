//! The database that the servers share: the jobs, the owner, and the check of the owner. Without
//! notice, the database may continue from an earlier state, as a standby does.

use std::collections::{BTreeMap, BTreeSet};

use super::bug::Bug;
use crate::event::End;
use crate::sim::plan::{TENTH, Wish};
use crate::sim::store::{Change, Store};
use crate::types::{JobId, Time};

/// Age of a beat after which another server may take over.
const SILENCE: Time = 40 * TENTH;

/// Age of the oldest commit that a standby may lack.
const LONGEST_LAG: Time = 9 * TENTH;

pub(super) struct Database {
    pub(super) state: State,
    /// Earlier states that a standby may have, each with the time at which it ended.
    earlier: Vec<(Time, State)>,
    /// Whether a standby has all commits that callers rely on.
    sync_standby: bool,
    /// Number of times that a standby took over. Connections end with it.
    pub(super) generation: u64,
    pub(super) away_until: Time,
    /// Whether a takeover or a beat may be lost, because the standby was not synchronous. Two
    /// servers may then be certain that they are the owner.
    pub(super) is_doubtful: bool,
    /// Jobs that a standby did not have.
    pub(super) lost: BTreeSet<JobId>,
    pub(super) fenced: u64,
    bug: Option<Bug>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) jobs: Store,
    /// Jobs that callers rely on.
    pub(super) promised: BTreeSet<JobId>,
    pub(super) epoch: u64,
    pub(super) seq: u64,
    /// The process that owns the jobs.
    pub(super) owner: Option<u64>,
    /// The last beat of each owner.
    pub(super) beats: BTreeMap<u64, Time>,
}

/// Changes that are committed together.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    pub(super) epoch: u64,
    pub(super) owner: u64,
    pub(super) seq: u64,
    pub(super) writes: Vec<Write>,
    /// Whether the commit must survive the loss of the database server.
    pub(super) survives: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Write {
    Insert {
        id: JobId,
        request: usize,
        wish: Wish,
        promised: bool,
    },
    Promise(JobId),
    Change(Change),
    /// A job ended with results, as its caller knows. A standby may lack the attempt.
    End(JobId),
}

/// The result of a look at the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Mine,
    Alive(u64),
    Silent,
}

impl Database {
    pub(super) fn new(sync_standby: bool, bug: Option<Bug>) -> Self {
        Self {
            state: State::default(),
            earlier: Vec::new(),
            sync_standby,
            generation: 0,
            away_until: 0,
            is_doubtful: false,
            lost: BTreeSet::new(),
            fenced: 0,
            bug,
        }
    }

    pub(super) fn look(&self, now: Time, process: u64) -> Found {
        match self.state.owner {
            Some(owner) if owner == process => Found::Mine,
            Some(owner) if !self.is_silent(now, owner) => Found::Alive(owner),
            _ => Found::Silent,
        }
    }

    fn is_silent(&self, now: Time, process: u64) -> bool {
        let silence = if self.bug == Some(Bug::EarlyTakeover) { SILENCE / 2 } else { SILENCE };
        self.state.beats.get(&process).is_none_or(|beat| beat + silence <= now)
    }

    /// Makes the process the owner, unless the owner is alive. Returns whether it did.
    pub(super) fn depose(&mut self, now: Time, process: u64) -> bool {
        if self.state.owner.is_some_and(|owner| !self.is_silent(now, owner)) {
            return false;
        }
        self.begin(now, true);
        let silent: Vec<u64> = self.state.beats.keys().copied().filter(|id| self.is_silent(now, *id)).collect();
        silent.iter().for_each(|id| _ = self.state.beats.remove(id));
        self.state.epoch += 1;
        self.state.owner = Some(process);
        self.state.beats.insert(process, now);
        true
    }

    /// Notes that an owner is alive. Returns false if it was deposed.
    pub(super) fn beat(&mut self, now: Time, process: u64) -> bool {
        if !self.state.beats.contains_key(&process) && self.bug != Some(Bug::BeatRevives) {
            return false;
        }
        // If a beat were lost while its server relies on it, another server would take over early.
        self.begin(now, self.bug != Some(Bug::WeakBeat));
        self.state.beats.insert(process, now);
        true
    }

    /// Commits all changes, or none if another server owns the jobs or some batches are lost.
    pub(super) fn commit(&mut self, now: Time, transaction: Transaction) -> bool {
        let Transaction { epoch, owner, seq, writes, survives } = transaction;
        let state = &self.state;
        let is_owner = state.owner == Some(owner);
        let passes = match self.bug {
            Some(Bug::FenceOff) => true,
            Some(Bug::OwnerUnchecked) => state.epoch == epoch && state.seq == seq,
            Some(Bug::SeqUnchecked) => state.epoch == epoch && is_owner,
            _ => state.epoch == epoch && is_owner && state.seq == seq,
        };
        if !passes {
            self.fenced += 1;
            return false;
        }
        assert!(state.epoch == epoch && is_owner, "a server that is not the owner changes rows, in epoch {epoch}");
        self.begin(now, survives);
        self.state.seq += 1;
        for write in writes {
            self.state.write(write, now);
        }
        true
    }

    /// Keeps the state before a commit, in case that a standby does not get the commit.
    fn begin(&mut self, now: Time, survives: bool) {
        if survives && self.sync_standby {
            return self.earlier.clear();
        }
        let old = self.earlier.iter().take_while(|(ended, _)| ended + LONGEST_LAG < now).count();
        self.earlier.drain(..old);
        self.earlier.push((now, self.state.clone()));
    }

    /// The commits that a standby may lack.
    pub(super) fn tail(&self, now: Time) -> usize {
        self.earlier.iter().filter(|(ended, _)| ended + LONGEST_LAG >= now).count()
    }

    /// A standby continues without the last commits. Returns the state that is lost.
    pub(super) fn fail_over(&mut self, lost: usize, away_until: Time) -> State {
        let before = self.state.clone();
        if lost > 0 {
            let mut kept = self.earlier.split_off(self.earlier.len() - lost);
            self.state = kept.swap_remove(0).1;
        }
        self.generation += 1;
        self.away_until = away_until;
        let kept = &self.state.jobs.rows;
        self.lost.extend(before.jobs.rows.keys().filter(|job| !kept.contains_key(job)));
        self.is_doubtful |= lost > 0 && !self.sync_standby;
        before
    }
}

impl State {
    fn write(&mut self, write: Write, now: Time) {
        match write {
            Write::Insert { id, request, wish, promised } => {
                self.jobs.insert(id, request, wish, now);
                if promised {
                    self.promised.insert(id);
                }
            }
            Write::Promise(job) => _ = self.promised.insert(job),
            Write::Change(change) => self.jobs.apply(&change),
            Write::End(job) => {
                let row = self.jobs.live(job);
                (row.holder, row.end) = (None, Some(End::Succeeded));
            }
        }
    }
}
