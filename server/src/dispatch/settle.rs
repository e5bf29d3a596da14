//! Settling: one transaction makes the decisions durable, then watchers and workers learn of them.
//! A failed transaction is recovered from here.
//!
//! Two actions do not wait for the transaction, because no one relies on the server for them. The
//! first attempt at a job of `RunJob` begins early, and a result is handed over early if its caller
//! gets all of it. If the process ends at that moment, one of two cases holds. Either the job is
//! unknown and its caller has heard nothing, or its caller has the result and the job is computed
//! once more. If the store fails, the early attempt is withdrawn and its caller refused. An end
//! that was handed over is written as soon as the store works again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_proto::v1::JobState;
use cloakwork_scheduler::Event;
use tokio::time::sleep;

use super::{
    actor::{Actor, Answer},
    command::Command,
    effects::HandedOver,
    live::Leases,
    record,
};
use crate::{
    database::{self, Survival},
    error::ApiError,
    store::Write,
};

/// How long the latency records of ended jobs may wait to share a transaction. The ends of jobs
/// that were not promised reach the disk with them.
const LATE_RECORD_DELAY: Duration = Duration::from_millis(100);

/// Pause between two attempts while the store fails.
const STORE_RETRY_PAUSE: Duration = Duration::from_millis(250);

/// State after a failure of the store, until the next attempt. Commands that need a write are
/// refused during the stall; all others go on.
pub(super) struct Stall {
    pub(super) until: Instant,
    refusal: ApiError,
}

impl Actor {
    /// Commits pending changes, unless the store failed less than `STORE_RETRY_PAUSE` ago.
    pub(super) async fn settle_or_recover(&mut self) {
        if self.stall.as_ref().is_some_and(|stall| Instant::now() < stall.until) {
            return;
        }
        match self.settle().await {
            Ok(()) => self.stall = None,
            Err(error) => self.recover(error).await,
        }
    }

    /// Commits all decisions, then tells callers, watchers and workers.
    pub(super) async fn settle(&mut self) -> Result<(), sqlx::Error> {
        if self.hand_over() | self.begin_early().await {
            // Lets the tasks that were just told run before the database's thread takes the core.
            tokio::task::yield_now().await;
        }
        while !(self.writes.is_empty() && self.handed_over.is_empty()) || self.late_is_due() {
            let (survival, late) = (self.survival(), self.late_is_due());
            let mut writes: Vec<Write> = self.handed_over.iter().map(|told| told.end.clone()).collect();
            writes.append(&mut self.writes);
            if late {
                writes.extend(self.late.iter().cloned());
            }
            // If the store fails, the guards are dropped with the writes.
            let guards = std::mem::take(&mut self.guards);
            let begun = Instant::now();
            self.parts.store.apply(survival, &writes).await?;
            record::database(&self.parts.telemetry.metrics, "apply", begun.elapsed());
            if late {
                (self.late, self.late_since) = (Vec::new(), None);
            }
            guards.iter().for_each(|guard| guard.pins.keep());
            for HandedOver { job, record, .. } in std::mem::take(&mut self.handed_over) {
                self.close(job, record);
            }
            self.announce();
        }
        self.announce();
        self.assign().await;
        // Jobs that turned out to have no key ended during `assign`.
        if self.writes.is_empty() { Ok(()) } else { Box::pin(self.settle()).await }
    }

    /// Tells the ends that no one relies on beyond the callers that receive the whole result.
    /// Returns false if there are none.
    fn hand_over(&mut self) -> bool {
        let (relied_on, free): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.endings).into_iter().partition(|end| self.is_relied_on(end));
        self.endings = relied_on;
        for ending in &free {
            let end = Write::Ended(ending.write());
            let record = self.tell(ending);
            self.handed_over.push(HandedOver { job: ending.job, end, record });
        }
        let told = |job| free.iter().any(|ending| ending.job == job);
        self.writes.retain(|write| !matches!(write, Write::Ended(ended) if told(ended.job)));
        !free.is_empty()
    }

    /// Leases jobs that no one relies on to their workers, before the commit. Returns false if
    /// there are none.
    ///
    /// Nothing begins early in a batch that waits for the disk. An attempt that crashed the process
    /// before its record would be forgotten, and the jobs beside it would take the blame.
    async fn begin_early(&mut self) -> bool {
        let early = std::mem::take(&mut self.early);
        if self.survival() == Survival::PowerFailure {
            return false;
        }
        let mut any = false;
        for (worker, job, epoch) in early {
            let over = self.requeued.contains(&job) || self.endings.iter().any(|ending| ending.job == job);
            let Some(before) = self.workers.wished(worker).filter(|_| !over) else { continue };
            if let Some(leased) = self.lease(worker, job, epoch).await {
                let mut wish = Leases::clone(&before);
                wish.insert((job, epoch), leased);
                self.workers.wish(worker, Arc::new(wish));
                any = true;
            }
        }
        any
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

    /// The failure that the next transaction must survive. Only callers that rely on the server
    /// from then on need the wait for the disk. An attempt's record must survive a crash of this
    /// process, because the job may cause the crash. After a power failure no job is to blame. A
    /// commit of late records also flushes all earlier transactions to disk.
    fn survival(&self) -> Survival {
        let relied_on =
            self.answers.iter().any(Answer::promises) || self.endings.iter().any(|end| self.is_relied_on(end));
        if relied_on || self.late_is_due() { Survival::PowerFailure } else { Survival::Crash }
    }

    /// Publishes the committed changes. This may lead to new decisions.
    fn announce(&mut self) {
        for job in std::mem::take(&mut self.requeued) {
            if let Some(live) = self.jobs.get(&job) {
                live.publish(|view| (view.state, view.rows_done) = (JobState::Queued, 0));
            }
        }
        for ending in std::mem::take(&mut self.endings) {
            let record = self.tell(&ending);
            self.close(ending.job, record);
        }
        for answer in std::mem::take(&mut self.answers) {
            answer.send();
        }
        for (job, epoch) in std::mem::take(&mut self.recorded) {
            self.step(Event::Recorded { job, epoch });
        }
    }

    /// Recovers from a failure of the store. The decisions are void, so memory is reloaded: it must
    /// not be ahead of the store.
    async fn recover(&mut self, error: sqlx::Error) {
        let refusal = database::failed(error);
        for answer in std::mem::take(&mut self.answers) {
            answer.refuse(&refusal);
        }
        while let Err(error) = self.reload(false).await {
            database::failed(error);
            sleep(STORE_RETRY_PAUSE).await;
        }
        self.stall = Some(Stall { until: Instant::now() + STORE_RETRY_PAUSE, refusal });
    }

    /// Refuses commands that need a write while the store fails, and returns all other commands.
    pub(super) fn pass(&self, command: Command) -> Option<Command> {
        let Some(Stall { refusal, .. }) = &self.stall else { return Some(command) };
        match command {
            Command::Submit { reply, .. } => drop(reply.send(Err(refusal.clone()))),
            Command::Confirm { reply, .. } | Command::Cancel { reply, .. } => drop(reply.send(Err(refusal.clone()))),
            Command::Commit { reply, .. } => drop(reply.send(Err(refusal.clone()))),
            other => return Some(other),
        }
        None
    }
}
