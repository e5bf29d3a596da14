//! A check of the dispatcher itself: the jobs in memory are those that the scheduler has, and those
//! that have not ended in the database. A difference is a fault of the service, and an alert for
//! operators.

use std::pin::Pin;

use cloakwork_storage::Error;

use super::actor::Actor;

/// Shortest time between two checks, in microseconds. A check reads an entry of an index for each
/// job.
const INTERVAL_MICROS: u64 = 60_000_000;

/// The label of the check.
pub(super) const LIVE_JOBS: &str = "live_jobs";

/// When the next check is due, and the check that is under way.
#[derive(Default)]
pub(super) struct Audit {
    due_micros: u64,
    count: Option<Count>,
}

/// A count of the jobs in the database.
struct Count {
    /// The state of the database that the count began with.
    version: u64,
    stored: Pin<Box<dyn Future<Output = Result<u64, Error>> + Send>>,
}

impl Actor {
    /// Begins a check if one is due, and if no decision waits for the database.
    pub(super) fn begin_audit(&mut self) {
        let now_micros = self.uptime.micros();
        if self.audit.count.is_some() || self.audit.due_micros > now_micros || !self.is_quiet() {
            return;
        }
        let Some(version) = self.parts.store.version() else { return };
        self.audit.due_micros = now_micros + INTERVAL_MICROS;
        let stats = self.scheduler.stats();
        self.report_difference("the scheduler", (stats.queued + stats.running) as u64);
        let store = self.parts.store.clone();
        self.audit.count = Some(Count { version, stored: Box::pin(async move { store.live_count().await }) });
    }

    /// Waits for the count of a check that is under way.
    pub(super) async fn counted(audit: &mut Audit) -> Result<u64, Error> {
        match &mut audit.count {
            Some(count) => count.stored.as_mut().await,
            None => std::future::pending().await,
        }
    }

    /// Ends a check. If the database or the dispatcher has changed meanwhile, the check has no
    /// result.
    pub(super) fn end_audit(&mut self, stored: Result<u64, Error>) {
        let Some(Count { version, .. }) = self.audit.count.take() else { return };
        match stored {
            Ok(stored) if self.is_quiet() && self.parts.store.version() == Some(version) => {
                self.report_difference("the database", stored);
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "the jobs in the database were not counted"),
        }
    }

    /// Whether the database has all decisions.
    fn is_quiet(&self) -> bool {
        self.commit.is_none() && self.stall.is_none() && !self.decided.writes() && self.decided.endings.is_empty()
    }

    /// Counts and logs a difference.
    fn report_difference(&self, with: &'static str, there: u64) {
        let here = self.jobs.len() as u64;
        if here != there {
            self.parts.telemetry.metrics.invariants.add(1, [LIVE_JOBS]);
            tracing::error!(here, there, with, "the jobs in memory are not the jobs elsewhere, which is a fault");
        }
    }
}
