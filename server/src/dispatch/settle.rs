//! From what has been decided to what everybody knows: one transaction, and what to do when it fails.
//!
//! Two things do not wait for the transaction, only for its turn: the first attempt at a job that nobody relies on
//! begins, and a result that is handed over whole is. Where the process ends in that moment, the job is unknown, and its
//! caller has heard nothing; or it is computed once more, and its caller has the result.

use std::time::{Duration, Instant};

use cloakwork_proto::v1::JobState;
use cloakwork_scheduler::Event;
use tokio::time::sleep;

use super::{
    actor::{Actor, Answer},
    command::Command,
    effects::Closing,
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
        if self.hand_over() | self.begin_at_once().await {
            // Who has something now goes on before the database's thread takes the core.
            tokio::task::yield_now().await;
        }
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
        self.assign().await;
        // Jobs that turned out to have no key ended while they were handed out.
        if self.writes.is_empty() { Ok(()) } else { Box::pin(self.settle()).await }
    }

    /// Results that nobody relies on beside those who are handed all of them. False if there are none.
    fn hand_over(&mut self) -> bool {
        let (relied_on, handed_over): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.endings).into_iter().partition(|end| self.is_relied_on(end));
        self.endings = relied_on;
        for ending in handed_over {
            let closing = self.end(ending);
            self.closing.push(closing);
        }
        !self.closing.is_empty()
    }

    /// Jobs that nobody relies on. False if there are none.
    async fn begin_at_once(&mut self) -> bool {
        if self.at_once.is_empty() {
            return false;
        }
        for (job, epoch) in std::mem::take(&mut self.at_once) {
            self.step(Event::Recorded { job, epoch });
        }
        self.assign().await;
        true
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
            let closing = self.end(ending);
            self.closing.push(closing);
        }
        for Closing { write, ended } in std::mem::take(&mut self.closing) {
            if let Some((meta, state)) = ended {
                self.release(&meta, state);
            }
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
            Command::Settle { reply } => drop(reply.send(())),
            other => return Some(other),
        }
        None
    }
}
