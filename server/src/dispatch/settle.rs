//! Settling: transactions make the decisions durable, then watchers and workers learn of them.
//!
//! One transaction is on its way to the store at a time. Meanwhile the dispatcher makes further
//! decisions, which wait for the next transaction. No caller learns of a decision before its
//! commit, except in the two cases below. No worker loses a lease before the commit of the decision
//! that ends the lease, except a worker that is quarantined: its results are refused in any case.
//! `recover.rs` describes a transaction that fails.
//!
//! Two actions do not wait for a transaction, because no one relies on the server for them. The
//! first attempt at a job of `RunJob` begins early. A result is handed over early if the store
//! knows the job and the caller gets the whole result. If the process ends at that moment, one of
//! two cases holds. Either the job is unknown and its caller has heard nothing, or its caller has
//! the result and the job is computed once more. If the store fails, the early attempt is withdrawn
//! and its caller refused. An end that was handed over is written as soon as the store works again.
//! Both actions wait for the commit while another server may have taken over (`owner.rs`), and so
//! does everything else that callers and workers learn.

use std::{
    collections::HashSet,
    mem,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_scheduler::{Event, JobId};
use cloakwork_storage::{Error, Survival};

use super::{
    actor::Actor,
    decided::{Answer, Decided},
    effects::HandedOver,
    live::Leases,
    record,
};
use crate::store::Write;

/// How long the latency records of ended jobs may wait to share a transaction. The ends of jobs
/// that were not promised reach the disk with them.
const LATE_RECORD_DELAY: Duration = Duration::from_millis(100);

/// A transaction on its way to the store.
pub(super) struct Commit {
    /// The decisions that the transaction makes durable.
    pub(super) decided: Decided,
    /// Latency records that share the transaction.
    pub(super) late: Vec<Write>,
    survival: Survival,
    begun: Instant,
    applied: Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>,
}

impl Actor {
    /// Acts on the decisions. Actions that need no commit happen at once, and the next transaction
    /// begins unless one is on its way.
    pub(super) async fn settle(&mut self) {
        if !self.resume().await {
            return;
        }
        loop {
            let told = self.hand_over() | self.begin_early();
            if self.commit.is_some() {
                return;
            }
            if self.decided.writes() || self.late_is_due() || self.must_ask() {
                if told {
                    // Lets the tasks that were just notified run before the database's thread takes
                    // the core.
                    tokio::task::yield_now().await;
                }
                self.begin_commit();
                return;
            }
            self.stall = None;
            let decided = mem::take(&mut self.decided);
            self.announce(decided);
            self.assign();
            // The scheduler may have begun attempts.
            if !self.decided.writes() {
                return;
            }
        }
    }

    /// Waits for the transaction on its way, if there is one, and returns its result.
    pub(super) async fn applied(commit: &mut Option<Commit>) -> Result<(), Error> {
        match commit {
            Some(commit) => commit.applied.as_mut().await,
            None => std::future::pending().await,
        }
    }

    /// Reads all jobs anew, because the database lost batches that it had committed. If a
    /// transaction is on its way, it fails, which leads to the same.
    pub(super) async fn fell_behind(&mut self) {
        if self.commit.is_none() {
            let (decided, late) = (Decided::default(), Vec::new());
            let applied = Box::pin(std::future::ready(Ok(())));
            let nothing = Commit { decided, late, survival: Survival::Crash, begun: Instant::now(), applied };
            self.recover(nothing, Error::Fenced).await;
        }
    }

    /// Continues after the transaction on its way has ended: publishes its decisions, or recovers.
    pub(super) async fn committed(&mut self, applied: Result<(), Error>) {
        let Some(commit) = self.commit.take() else { return };
        match applied {
            Ok(()) => {
                record::database(&self.parts.telemetry.metrics, "apply", commit.begun.elapsed());
                self.stall = None;
                self.announce(commit.decided);
                self.assign();
            }
            Err(error) => self.recover(commit, error).await,
        }
    }

    /// Commits everything that is decided, and returns after the last transaction. Gives up when a
    /// transaction fails.
    pub(super) async fn finish(&mut self) {
        self.settle().await;
        while self.commit.is_some() {
            let applied = Self::applied(&mut self.commit).await;
            let failed = applied.is_err();
            self.committed(applied).await;
            if failed {
                return;
            }
            self.settle().await;
        }
    }

    /// Whether another server may have taken over, and a decision is to be published. A transaction
    /// without writes asks the database then. A server that was suspended could otherwise tell a
    /// worker to drop jobs that it computes for the next owner.
    fn must_ask(&self) -> bool {
        let waits = !self.decided.answers.is_empty() || !self.assignments.is_empty() || !self.withheld.is_empty();
        waits && !self.parts.store.ownership().is_certain()
    }

    fn begin_commit(&mut self) {
        let with_late = self.late_is_due();
        let survival = self.survival(with_late);
        let late = if with_late { mem::take(&mut self.late) } else { Vec::new() };
        if with_late {
            self.late_since = None;
        }
        let mut decided = mem::take(&mut self.decided);
        // Attempts that did not begin early begin after the commit.
        decided.early.clear();
        // The caller has the latency record already, so that the record is final.
        let told = decided.handed_over.iter().flat_map(|told| [&told.end, &told.record]);
        let mut writes: Vec<Write> = told.cloned().collect();
        writes.append(&mut decided.writes);
        writes.extend(late.iter().cloned());
        let store = self.parts.store.clone();
        let applied = Box::pin(async move { store.apply(survival, &writes).await });
        self.commit = Some(Commit { decided, late, survival, begun: Instant::now(), applied });
    }

    /// Publishes ends before their commit. Each belongs to a job that is not promised, and its
    /// caller receives the whole result. Returns whether an end was published.
    ///
    /// The end of a job that the store does not know yet waits for the job's first transaction. A
    /// caller could otherwise hold the result of a job that is unknown after a crash.
    fn hand_over(&mut self) -> bool {
        if self.decided.endings.is_empty() || !self.parts.store.ownership().is_certain() {
            return false;
        }
        let on_its_way = self.commit.iter().flat_map(|commit| &commit.decided.guards);
        let unknown: HashSet<JobId> = on_its_way.chain(&self.decided.guards).map(|guard| guard.job).collect();
        let (waiting, free): (Vec<_>, Vec<_>) = mem::take(&mut self.decided.endings)
            .into_iter()
            .partition(|end| unknown.contains(&end.job) || self.is_relied_on(end));
        self.decided.endings = waiting;
        let told: HashSet<JobId> = free.iter().map(|ending| ending.job).collect();
        self.decided.writes.retain(|write| !matches!(write, Write::Ended(ended) if told.contains(&ended.job)));
        for ending in free {
            let end = Write::Ended(ending.write());
            let record = self.tell(&ending);
            self.decided.handed_over.push(HandedOver { job: ending.job, end, record, _shares: ending.shares });
        }
        !told.is_empty()
    }

    /// Hands first attempts at jobs that are not promised to workers, before the commit. Returns
    /// whether an attempt was handed out.
    ///
    /// No attempt begins early if its commit waits for the disk, or follows a commit that waits for
    /// the disk. An attempt that crashed the process before its record was stored would be
    /// forgotten. The jobs beside it would then take the blame. A later decision may still make the
    /// commit wait.
    fn begin_early(&mut self) -> bool {
        if self.decided.early.is_empty() || !self.parts.store.ownership().is_certain() {
            return false;
        }
        let waits = self.commit.as_ref().is_some_and(|commit| commit.survival == Survival::PowerFailure);
        if waits || self.survival(self.late_is_due()) == Survival::PowerFailure {
            return false;
        }
        let over = self.decided.leased_until_commit();
        let mut begun = HashSet::new();
        for (worker, job, epoch) in mem::take(&mut self.decided.early) {
            let Some(before) = self.workers.wished(worker).filter(|_| !over.contains(&job)) else { continue };
            if let Some(leased) = self.lease(worker, job, epoch) {
                let mut wish = Leases::clone(&before);
                wish.insert((job, epoch), leased);
                self.workers.wish(worker, Arc::new(wish));
                begun.insert((job, epoch));
            }
        }
        // From here on the workers may hand in results, before the records are committed.
        let (recorded, later): (Vec<_>, Vec<_>) =
            mem::take(&mut self.decided.recorded).into_iter().partition(|attempt| begun.contains(attempt));
        self.decided.recorded = later;
        for (job, epoch) in recorded {
            self.step(Event::Recorded { job, epoch });
        }
        !begun.is_empty()
    }

    /// Hands out the leases that the scheduler has assigned.
    ///
    /// The scheduler's state includes decisions that are not committed. Workers keep the leases
    /// that those decisions end until the commit.
    ///
    /// A lease whose work is on its way from the store follows later. The first assignment of a
    /// worker waits for the work of the leases that the worker reports. The worker held them before
    /// this process began, and would drop a job that is not in its assignment. The assignment does
    /// not wait for other work, because the worker's other jobs would wait too.
    fn assign(&mut self) {
        let mut effects = Vec::new();
        self.scheduler.flush(&mut effects);
        effects.into_iter().for_each(|effect| self.effect(effect));
        self.withheld.append(&mut self.loads.take_ready(Instant::now()));
        for worker in mem::take(&mut self.withheld) {
            if !self.assignments.contains_key(&worker) {
                self.assignments.insert(worker, self.scheduler.assignment(worker));
            }
        }
        let kept: HashSet<JobId> = self.decided.leased_until_commit();
        for (worker, leases) in mem::take(&mut self.assignments) {
            // The worker may have gone since the scheduler made its assignment.
            if !self.workers.is_known(worker) {
                continue;
            }
            let before = self.workers.wished(worker);
            if before.is_none() && self.load_reported(worker, &leases) {
                continue;
            }
            let before = before.unwrap_or_default();
            let mut wish = Leases::new();
            for lease in leases {
                let leased = match before.get(&lease) {
                    Some(leased) => Some(leased.clone()),
                    None => self.lease(worker, lease.0, lease.1),
                };
                wish.extend(leased.map(|leased| (lease, leased)));
            }
            for (lease, leased) in before.iter().filter(|(lease, _)| kept.contains(&lease.0)) {
                if wish.insert(*lease, leased.clone()).is_none() {
                    self.withheld.insert(worker);
                }
            }
            self.workers.wish(worker, Arc::new(wish));
        }
    }

    /// When the late records must be written.
    pub(super) fn late_due(&self) -> Option<Instant> {
        self.late_since.map(|since| since + LATE_RECORD_DELAY)
    }

    /// Makes the late records due at once.
    pub(super) fn hurry(&mut self) {
        if let Some(since) = &mut self.late_since {
            *since = since.checked_sub(LATE_RECORD_DELAY).unwrap_or(*since);
        }
    }

    fn late_is_due(&self) -> bool {
        self.late_due().is_some_and(|due| self.stopped || due <= Instant::now())
    }

    /// The failure that the next transaction must survive. The wait for the disk is necessary only
    /// if callers rely on the server afterwards. An attempt's record must survive a crash of this
    /// process, because the job may cause the crash. After a power failure no job is to blame. A
    /// commit of late records also flushes all earlier transactions to disk.
    fn survival(&self, with_late: bool) -> Survival {
        let decided = &self.decided;
        let relied_on =
            decided.answers.iter().any(Answer::promises) || decided.endings.iter().any(|end| self.is_relied_on(end));
        if relied_on || with_late { Survival::PowerFailure } else { Survival::Crash }
    }
}
