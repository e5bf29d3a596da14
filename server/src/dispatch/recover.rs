//! Recovery from a failure of the store. The decisions since the last commit are void, so memory is
//! loaded again: it must not be ahead of the store.
//!
//! The dispatcher keeps answering while the store fails. Commands that need a write are refused
//! with the reason of the failure, and workers keep their leases.

use std::time::{Duration, Instant};

use cloakwork_storage::Error;

use super::{actor::Actor, command::Command, effects::HandedOver, settle::Commit, submit::Guard};
use crate::{database, error::ApiError};

/// Pause between two attempts while the store fails.
pub(super) const STORE_RETRY_PAUSE: Duration = Duration::from_millis(250);

/// State after a failure of the store. The state ends when a transaction succeeds, or when nothing
/// is left to write.
pub(super) struct Stall {
    /// When the next attempt is due.
    pub(super) until: Instant,
    /// Whether memory still holds void decisions, because the store could not be read either.
    void: bool,
    pub(super) refusal: ApiError,
}

impl Actor {
    /// Takes back a transaction that failed, and everything that was decided after it.
    pub(super) async fn recover(&mut self, commit: Commit, error: Error) {
        if error == Error::Fenced {
            self.parts.telemetry.metrics.fenced.add(1, []);
        }
        let refusal = database::failed(error);
        let after = std::mem::take(&mut self.decided);
        for answer in commit.decided.answers.into_iter().chain(after.answers) {
            answer.refuse(&refusal);
        }
        // Callers know these ends, so the ends are written once the store works again.
        let told: Vec<HandedOver> = commit.decided.handed_over.into_iter().chain(after.handed_over).collect();
        // Ends the watches of the other jobs that were to be stored. Their callers learn of the
        // failure at once, however long the store stays away.
        for Guard { job, .. } in commit.decided.guards.iter().chain(&after.guards) {
            if !told.iter().any(|told| told.job == *job) {
                self.jobs.remove(job);
            }
        }
        self.decided.handed_over = told;
        if !commit.late.is_empty() {
            self.late.splice(..0, commit.late);
            self.late_since = Some(Instant::now());
        }
        self.stall = Some(Stall { until: Instant::now(), void: true, refusal });
        self.resume().await;
    }

    /// Whether the dispatcher may use the store. During a stall, this is true once the pause is
    /// over and memory holds no void decisions.
    pub(super) async fn resume(&mut self) -> bool {
        let Some(Stall { until, void, .. }) = self.stall else { return true };
        // The last transactions of a server that stops do not wait for the pause.
        if Instant::now() < until && !self.stopped {
            return false;
        }
        if !void {
            return true;
        }
        self.set_void(false);
        let reloaded = self.reload(false).await;
        let void = reloaded.is_err();
        if let Err(error) = reloaded {
            database::failed(error);
        }
        self.set_void(void);
        self.stopped && !void
    }

    /// Whether memory holds void decisions. The scheduler then takes no events: memory is about to
    /// be loaded again, and would only grow.
    pub(super) fn is_void(&self) -> bool {
        self.stall.as_ref().is_some_and(|stall| stall.void)
    }

    fn set_void(&mut self, void: bool) {
        if let Some(stall) = &mut self.stall {
            (stall.until, stall.void) = (Instant::now() + STORE_RETRY_PAUSE, void);
        }
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
