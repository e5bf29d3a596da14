//! Commits of the owner's decisions, and recovery from commits that fail. Follows
//! `server/src/dispatch/settle.rs` and `recover.rs`.

use std::collections::BTreeSet;

use super::bug::Bug;
use super::client::Answer;
use super::database::{Transaction, Write};
use super::owner::{Commit, Decided, Ending, Live, Owner, Reply, Stall};
use super::visit::{Loaded, Visit};
use super::world::{Cluster, ToWorker};
use crate::event::{Effect, Event};
use crate::scheduler::Scheduler;
use crate::sim::plan::TENTH;
use crate::types::{JobId, RestoredJob, Time};

/// How long the last writes of ended jobs may wait to share a transaction.
pub(super) const LATE_DELAY: Time = TENTH;
/// Pause between two attempts while the database fails.
const RETRY_PAUSE: Time = 5 * TENTH / 2;

impl Cluster {
    /// Acts on the decisions. Actions that need no commit happen at once, and the next transaction
    /// begins unless one is on its way.
    pub(super) fn settle(&mut self, server: usize) {
        if self.resume(server) {
            self.settle_decided(server);
        }
        self.schedule_wake(server);
    }

    fn settle_decided(&mut self, server: usize) {
        loop {
            self.hand_over(server);
            self.begin_early(server);
            let now = self.now;
            let Some(owner) = &mut self.servers[server].owner else { return };
            if owner.commit.is_some() {
                return;
            }
            if owner.decided.writes() || owner.late_is_due(now) {
                return self.begin_commit(server);
            }
            owner.stall = None;
            // The next owner may know of jobs that this one does not know. Workers would drop their
            // results if this one refused them, or assigned other jobs in their place. The answer
            // to the next beat decides.
            if !self.is_certain(server) && !self.has_bug(Bug::AnswerUncertain) {
                return;
            }
            let Some(owner) = &mut self.servers[server].owner else { return };
            let decided = std::mem::take(&mut owner.decided);
            if !decided.answers.is_empty() || !owner.assignments.is_empty() {
                self.check_owner(server, "an answer");
            }
            self.announce(server, decided);
            self.assign(server);
            if self.servers[server].owner.as_ref().is_none_or(|owner| !owner.decided.writes()) {
                return;
            }
        }
    }

    /// Publishes the ends of jobs that are not promised before their commit.
    fn hand_over(&mut self, server: usize) {
        let is_certain = self.is_certain(server);
        let ignores_unknown = self.has_bug(Bug::EndOfUnknown);
        let Some(owner) = self.servers[server].owner.as_mut().filter(|_| is_certain) else { return };
        let on_its_way = owner.commit.iter().flat_map(|commit| &commit.decided.fresh);
        let unknown: BTreeSet<JobId> = on_its_way.chain(&owner.decided.fresh).copied().collect();
        let endings = std::mem::take(&mut owner.decided.endings);
        let (waiting, free): (Vec<_>, Vec<_>) = endings
            .into_iter()
            .partition(|end| (unknown.contains(&end.job) && !ignores_unknown) || owner.is_relied_on(end));
        owner.decided.endings = waiting;
        for ending in free {
            let Some(owner) = &mut self.servers[server].owner else { return };
            let (ends, writes) =
                std::mem::take(&mut owner.decided.writes).into_iter().partition(|write| is_end_of(write, ending.job));
            owner.decided.writes = writes;
            owner.decided.handed_over.push((ending.job, ends));
            self.check_owner(server, "an early end");
            let database = &self.database;
            let was_stored = database.state.jobs.rows.contains_key(&ending.job) || database.lost.contains(&ending.job);
            assert!(was_stored, "{:?} has an end, and is not stored", ending.job);
            self.summary.early_ends += 1;
            self.answer(ending.request, Answer::Ended(ending.end));
        }
    }

    /// Hands first attempts at jobs that are not promised to workers before the commit.
    fn begin_early(&mut self, server: usize) {
        let is_certain = self.is_certain(server);
        let now = self.now;
        let Some(owner) = self.servers[server].owner.as_mut().filter(|_| is_certain) else { return };
        let waits = owner.commit.as_ref().is_some_and(|commit| commit.survives);
        if owner.decided.early.is_empty() || waits || owner.survives(now) {
            return;
        }
        let over = owner.decided.leased_until_commit();
        let mut begun = Vec::new();
        let mut messages = Vec::new();
        for (worker, job, epoch) in std::mem::take(&mut owner.decided.early) {
            let Some(link) = owner.links.get_mut(&worker).filter(|_| !over.contains(&job)) else { continue };
            // The first assignment must list the jobs that the worker held before.
            let Some(wish) = &mut link.wish else { continue };
            wish.insert((job, epoch));
            begun.push((job, epoch));
            messages.push((worker, link.stream, wish.iter().copied().collect()));
        }
        owner.decided.recorded.retain(|attempt| !begun.contains(attempt));
        for (worker, stream, leases) in messages {
            self.check_owner(server, "an early attempt");
            self.tell_worker(worker, stream, ToWorker::Assign(leases));
        }
        self.summary.early_begins += begun.len() as u64;
        for (job, epoch) in begun {
            self.feed(server, Event::Recorded { job, epoch }, None);
        }
    }

    fn begin_commit(&mut self, server: usize) {
        let now = self.now;
        let is_weak = self.has_bug(Bug::WeakPromise);
        let Some(owner) = &mut self.servers[server].owner else { return };
        let (with_late, survives) = (owner.late_is_due(now), owner.survives(now));
        if with_late {
            owner.late_since = None;
        }
        let mut decided = std::mem::take(&mut owner.decided);
        decided.early.clear();
        let mut writes: Vec<Write> = decided.handed_over.iter().flat_map(|(_, ends)| ends.clone()).collect();
        writes.append(&mut decided.writes);
        let (epoch, owner_process, seq) = (owner.epoch, owner.process, owner.seq);
        owner.commit = Some(Commit { decided, with_late, survives });
        let survives = survives && !is_weak;
        let transaction = Transaction { epoch, owner: owner_process, seq, writes, survives };
        self.summary.commits += 1;
        self.visit(server, Visit::Commit(transaction));
    }

    /// Continues after the transaction has ended. An error tells whether the database refused it.
    pub(super) fn committed(&mut self, server: usize, applied: Result<(), bool>) {
        let Some(owner) = &mut self.servers[server].owner else { return };
        let Some(commit) = owner.commit.take() else { return };
        match applied {
            Ok(()) => {
                owner.seq += 1;
                owner.stall = None;
                self.announce(server, commit.decided);
                self.assign(server);
            }
            Err(_) => self.recover(server, commit),
        }
        self.settle(server);
    }

    /// Publishes committed decisions. This may lead to new decisions.
    fn announce(&mut self, server: usize, committed: Decided) {
        for (job, _) in &committed.handed_over {
            self.close(server, *job);
        }
        for ending in &committed.endings {
            let Some(owner) = &self.servers[server].owner else { return };
            let live = owner.jobs.get(&ending.job);
            let is_watched = live.is_some_and(|live| live.is_watched);
            match owner.is_relied_on(ending) && live.is_some_and(|live| live.promised) {
                _ if !is_watched => {}
                true => self.publish(ending.request, ending.end.clone()),
                false => self.answer(ending.request, Answer::Ended(ending.end.clone())),
            }
            self.close(server, ending.job);
        }
        for reply in committed.answers {
            match reply {
                Reply::Accepted(request, job) => self.acknowledge(request, job),
                Reply::Ended(request, end) => self.publish(request, end),
                Reply::Found => {}
                Reply::Verdict { worker, stream, job, epoch } => {
                    self.tell_worker(worker, stream, ToWorker::Verdict { job, epoch });
                }
            }
        }
        for (job, epoch) in committed.recorded {
            self.feed(server, Event::Recorded { job, epoch }, None);
        }
    }

    fn close(&mut self, server: usize, job: JobId) {
        let Some(owner) = &mut self.servers[server].owner else { return };
        if let Some(live) = owner.jobs.remove(&job) {
            owner.requests.remove(&live.request);
        }
        owner.late_since.get_or_insert(self.now);
    }

    /// Hands out the leases that the scheduler has assigned. Workers keep the leases that decisions
    /// without a commit end.
    fn assign(&mut self, server: usize) {
        let Some(owner) = &mut self.servers[server].owner else { return };
        let mut effects = Vec::new();
        owner.core.flush(&mut effects);
        effects.into_iter().for_each(|effect| owner.effect(effect, None));
        for worker in std::mem::take(&mut owner.withheld) {
            let complete = owner.core.assignment(worker);
            owner.assignments.entry(worker).or_insert(complete);
        }
        let kept = owner.decided.leased_until_commit();
        let mut messages = Vec::new();
        for (worker, leases) in std::mem::take(&mut owner.assignments) {
            let Some(link) = owner.links.get_mut(&worker) else { continue };
            let mut wish: BTreeSet<(JobId, u64)> = leases.into_iter().collect();
            for lease in link.wish.iter().flatten().filter(|(job, _)| kept.contains(job)) {
                if wish.insert(*lease) {
                    owner.withheld.insert(worker);
                }
            }
            messages.push((worker, link.stream, wish.iter().copied().collect()));
            link.wish = Some(wish);
        }
        for (worker, stream, leases) in messages {
            self.tell_worker(worker, stream, ToWorker::Assign(leases));
        }
    }

    /// Takes back a transaction that failed, and everything that was decided after it.
    fn recover(&mut self, server: usize, commit: Commit) {
        let now = self.now;
        let Some(owner) = &mut self.servers[server].owner else { return };
        let after = std::mem::take(&mut owner.decided);
        let fresh = commit.decided.fresh.iter().chain(&after.fresh);
        let told: Vec<_> = commit.decided.handed_over.iter().chain(&after.handed_over).cloned().collect();
        for job in fresh.filter(|job| !told.iter().any(|(told, _)| told == *job)) {
            owner.jobs.remove(job);
        }
        owner.decided.handed_over = told;
        if commit.with_late {
            owner.late_since = Some(now);
        }
        owner.stall = Some(Stall { until: now, void: true, is_reading: false });
    }

    /// The database has lost batches, and the owner may have nothing to write for long.
    pub(super) fn batches_lost(&mut self, server: usize) {
        self.recover(server, Commit { decided: Decided::default(), with_late: false, survives: false });
        self.settle(server);
    }

    /// Whether the owner may use the database.
    fn resume(&mut self, server: usize) -> bool {
        let now = self.now;
        let Some(owner) = &mut self.servers[server].owner else { return false };
        let Some(stall) = &mut owner.stall else { return true };
        if stall.is_reading || now < stall.until {
            return false;
        }
        if !stall.void {
            return true;
        }
        stall.is_reading = true;
        let epoch = owner.epoch;
        self.visit(server, Visit::Read { epoch });
        false
    }

    pub(super) fn not_loaded(&mut self, server: usize) {
        let until = self.now + RETRY_PAUSE;
        if let Some(owner) = &mut self.servers[server].owner {
            owner.stall = Some(Stall { until, void: true, is_reading: false });
        }
        self.schedule_wake(server);
    }

    /// Builds a new scheduler from the database.
    pub(super) fn loaded(&mut self, server: usize, loaded: Loaded) {
        let until = self.now + RETRY_PAUSE;
        let (is_kept, forgets) = (self.has_bug(Bug::NoReload), self.has_bug(Bug::HoldersForgotten));
        self.say(|| format!("server {server} loads {} jobs after batch {}", loaded.jobs.len(), loaded.seq));
        let Some(owner) = &mut self.servers[server].owner else { return };
        // The first load follows a takeover.
        let is_first = owner.seq == 0 && owner.jobs.is_empty();
        self.summary.reloads += u64::from(!is_first);
        owner.seq = loaded.seq;
        owner.stall = Some(Stall { until: if is_first { self.now } else { until }, void: false, is_reading: false });
        if is_kept && !is_first {
            return self.settle(server);
        }
        let mut told = std::mem::take(&mut owner.decided).handed_over;
        owner.assignments.clear();
        owner.withheld.clear();
        owner.requests.clear();
        let mut before = std::mem::take(&mut owner.jobs);
        owner.core = Scheduler::new(self.plan.config);
        told.retain(|(job, _)| loaded.jobs.iter().any(|(id, _)| id == job));
        // A transaction may have ended jobs although it was reported as failed. The next commit
        // that waits makes these ends last.
        owner.late_since.get_or_insert(self.now);
        let mut restored = Vec::new();
        for (id, row) in loaded.jobs {
            let known = before.remove(&id);
            let promised = known.as_ref().is_none_or(|live| live.promised) || loaded.promised.contains(&id);
            let is_watched = known.is_some_and(|live| live.is_watched);
            owner.requests.insert(row.request, id);
            owner.jobs.insert(id, Live { request: row.request, promised, is_watched });
            if !told.iter().any(|(job, _)| *job == id) {
                restored.push((id, row));
            }
        }
        owner.decided.handed_over = told.into_iter().map(|(job, _)| (job, vec![Write::End(job)])).collect();
        for (id, row) in restored {
            let job = self.scheduled(id, row.request);
            let holder = row.holder.filter(|_| !forgets);
            let (attempts, epoch, suspect) = (row.attempts, row.epoch, row.suspect);
            let solo_crashes = row.solo_crashes;
            let restored = RestoredJob { job, submitted: 0, attempts, epoch, suspect, solo_crashes, holder };
            self.feed(server, Event::Restored(restored), None);
        }
        self.feed(server, Event::Recovered { dead: Vec::new() }, None);
        let links = self.servers[server].owner.iter().flat_map(|owner| &owner.links);
        let known: Vec<_> = links.map(|(worker, link)| (*worker, link.latest.clone())).collect();
        for (worker, report) in known {
            self.feed(server, Event::Reported { worker, report }, None);
            let Some(owner) = &mut self.servers[server].owner else { return };
            let complete = owner.core.assignment(worker);
            owner.assignments.insert(worker, complete);
        }
        self.settle(server);
    }
}

impl Owner {
    /// Whether anybody relies on the server for this end.
    fn is_relied_on(&self, ending: &Ending) -> bool {
        !ending.handed_over || self.jobs.get(&ending.job).is_none_or(|live| live.promised)
    }

    /// Whether the next transaction must survive the loss of the database server.
    fn survives(&self, now: Time) -> bool {
        let promises = |reply: &Reply| !matches!(reply, Reply::Verdict { .. });
        self.decided.answers.iter().any(promises)
            || self.decided.endings.iter().any(|ending| self.is_relied_on(ending))
            || self.late_is_due(now)
    }

    fn late_is_due(&self, now: Time) -> bool {
        self.late_since.is_some_and(|since| since + LATE_DELAY <= now)
    }
}

impl Decided {
    fn writes(&self) -> bool {
        !(self.writes.is_empty() && self.handed_over.is_empty())
    }

    /// Jobs whose leases a worker keeps until the commit.
    fn leased_until_commit(&self) -> BTreeSet<JobId> {
        let ended = self.endings.iter().map(|ending| ending.job);
        let told = self.handed_over.iter().map(|(job, _)| *job);
        ended.chain(told).chain(self.requeued.iter().copied()).collect()
    }
}

fn is_end_of(write: &Write, job: JobId) -> bool {
    let Write::Change(change) = write else { return false };
    matches!(&change.effect, Effect::Accept { job: of, .. } | Effect::Finished { job: of, .. } if *of == job)
}
