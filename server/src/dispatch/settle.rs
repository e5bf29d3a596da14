//! From what has been decided to what everybody knows: one transaction, and what to do when it fails.
//!
//! Two things do not wait for it, as nobody relies on the server for them: the first attempt at a job of `RunJob` begins,
//! and a result whose caller gets all of it is handed over. If the process ends in that moment, the job is unknown and
//! its caller has heard nothing, or it is computed once more and its caller has the result. If the store fails, the
//! attempt is withdrawn and its caller refused, and the end is written as soon as the store works again.

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

/// How long the records of ended jobs may wait for company on their way to the disk, and with them the ends of jobs
/// that were promised to nobody.
const LATE: Duration = Duration::from_millis(100);

/// Between two attempts while the store fails.
const STORE_PAUSE: Duration = Duration::from_millis(250);

/// The store has failed, and will be tried again. Until then nothing is decided that would have to be written down; what
/// needs no writing goes on.
pub(super) struct Stall {
    pub(super) until: Instant,
    refusal: ApiError,
}

impl Actor {
    /// Commits what there is, unless the store has just failed.
    pub(super) async fn settle_or_recover(&mut self) {
        if self.stall.as_ref().is_some_and(|stall| Instant::now() < stall.until) {
            return;
        }
        match self.settle().await {
            Ok(()) => self.stall = None,
            Err(error) => self.recover(error).await,
        }
    }

    /// Commits everything that has been decided, and lets everybody know.
    pub(super) async fn settle(&mut self) -> Result<(), sqlx::Error> {
        if self.hand_over() | self.begin_early().await {
            // Who has something now goes on before the database's thread takes the core.
            tokio::task::yield_now().await;
        }
        while !(self.writes.is_empty() && self.handed_over.is_empty()) || self.late_is_due() {
            let (survival, late) = (self.survival(), self.late_is_due());
            let mut writes: Vec<Write> = self.handed_over.iter().map(|told| told.end.clone()).collect();
            writes.append(&mut self.writes);
            if late {
                writes.extend(self.late.iter().cloned());
            }
            // Where the store fails, they are dropped with the writes.
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
        // Jobs that turned out to have no key ended while they were handed out.
        if self.writes.is_empty() { Ok(()) } else { Box::pin(self.settle()).await }
    }

    /// Tells ends that nobody relies on beside those who are handed all of them. False if there are none.
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

    /// Adds jobs that nobody relies on to what their workers shall hold. False if there are none.
    ///
    /// Not where the disk is waited for: an attempt that brings the process down before it is recorded is forgotten,
    /// and what runs beside it takes the blame.
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
        self.late_since.map(|since| since + LATE)
    }

    /// Writes the late records at once.
    pub(super) fn hurry(&mut self) {
        if let Some(since) = &mut self.late_since {
            *since = since.checked_sub(LATE).unwrap_or(*since);
        }
    }

    fn late_is_due(&self) -> bool {
        self.late_due().is_some_and(|due| self.stopped || due <= Instant::now())
    }

    /// The wait for the disk is for those who rely on the server from then on. An attempt should outlive this process,
    /// because the job may bring it down; when the power fails, nobody is to blame. What comes late takes everything
    /// before it along to the disk.
    fn survival(&self) -> Survival {
        let relied_on =
            self.answers.iter().any(Answer::promises) || self.endings.iter().any(|end| self.is_relied_on(end));
        if relied_on || self.late_is_due() { Survival::PowerFailure } else { Survival::Crash }
    }

    /// What has been committed is made known; this may decide more.
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

    /// The store has failed: what was decided is void, and memory must not be ahead of the store.
    async fn recover(&mut self, error: sqlx::Error) {
        let refusal = database::failed(error);
        for answer in std::mem::take(&mut self.answers) {
            answer.refuse(&refusal);
        }
        while let Err(error) = self.reload(false).await {
            database::failed(error);
            sleep(STORE_PAUSE).await;
        }
        self.stall = Some(Stall { until: Instant::now() + STORE_PAUSE, refusal });
    }

    /// While the store fails, what would have to be written down is refused at once.
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
