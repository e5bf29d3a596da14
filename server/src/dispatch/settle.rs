//! From what has been decided to what everybody knows: one transaction, and what to do when it fails.

use std::time::{Duration, Instant};

use cloakwork_proto::v1::JobState;
use cloakwork_scheduler::Event;
use tokio::time::sleep;

use super::{
    actor::{Actor, Answer},
    command::Command,
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

    /// Commits everything that has been decided, then lets everybody know.
    pub(super) async fn settle(&mut self) -> Result<(), sqlx::Error> {
        while !self.writes.is_empty() || self.late_is_due() {
            let (survival, late) = (self.survival(), self.late_is_due());
            if late {
                self.writes.extend(self.late.iter().cloned());
            }
            let begun = Instant::now();
            self.parts.store.apply(survival, &self.writes).await?;
            record::database(&self.parts.telemetry.metrics, "apply", begun.elapsed());
            if late {
                (self.late, self.late_since) = (Vec::new(), None);
            }
            for write in self.writes.drain(..) {
                if let Write::Submitted(job) = write {
                    job.pins.iter().for_each(|pins| pins.keep());
                }
            }
            self.announce();
        }
        self.announce();
        let mut effects = Vec::new();
        self.scheduler.flush(&mut effects);
        effects.into_iter().for_each(|effect| self.effect(effect));
        self.assign().await;
        // Jobs that turned out to have no key ended while they were handed out.
        if self.writes.is_empty() { Ok(()) } else { Box::pin(self.settle()).await }
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

    /// The wait for the disk is for those who rely on the server from then on. An attempt must outlive this process,
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
            let write = self.end(ending);
            self.late.push(write);
            self.late_since.get_or_insert_with(Instant::now);
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
