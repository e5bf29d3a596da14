//! The sweep removes expired outputs, old job records, deleted keys and deleted tenants.

mod tenants;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use cloakwork_clock::{Clock, unix_micros_before};
use cloakwork_keystore::{ClaimError, Holder, Keystore};
use cloakwork_storage::Error;
use futures_util::FutureExt as _;
use tokio::time::sleep;

use crate::{dispatch::Dispatcher, jobs::id, keys::KeyUses, limits::Limits, store::Store};

/// Interval between two rounds.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of rows that one statement deletes. The bound keeps the waits of other writers
/// short.
const SWEEP_ROWS_MAX: u32 = 256;

/// Number of jobs whose outputs one transaction removes. A longer transaction would keep the writer
/// from the calls of tenants.
const OUTPUT_JOBS_PER_TRANSACTION: usize = 64;

/// Runs the sweep at intervals.
pub struct Sweeper {
    /// Jobs.
    pub store: Store,
    /// Blobs.
    pub keystore: Keystore,
    /// Keys that jobs being submitted need.
    pub keys: KeyUses,
    /// Source of the current time.
    pub clock: Clock,
    /// Limits.
    pub limits: Arc<Limits>,
}

impl Sweeper {
    /// Releases pins that neither a live job nor a kept output needs. Call this before all other
    /// work. The released pins include those of outputs that a worker handed in for a job that then
    /// failed.
    pub async fn begin(&self) -> Result<(), cloakwork_keystore::Error> {
        match self.holders().await {
            Ok(holders) => self.keystore.retain_holders(&holders).await,
            Err(error) => {
                tracing::warn!(%error, "unneeded pins are not released at this start");
                Ok(())
            }
        }
    }

    /// All holders whose pins may still be needed.
    async fn holders(&self) -> Result<Vec<Holder>, Error> {
        let live = self.store.live_ids().await?;
        // A worker may have handed in outputs of a job whose end did not become durable.
        let of_live = live.into_iter().flat_map(|job| [id::to_bytes(job), id::output_holder(job)]);
        let kept = self.store.jobs_with_output_blobs().await?;
        Ok(of_live.chain(kept.into_iter().map(id::output_holder)).collect())
    }

    /// Sweeps until the task is dropped. The dispatcher cancels the jobs of deleted tenants.
    pub async fn run(self, dispatcher: Dispatcher) {
        in_rounds(|| self.round(&dispatcher)).await;
    }

    async fn round(&self, dispatcher: &Dispatcher) {
        let tenants = self.tenants(dispatcher).await;
        for result in [tenants, self.outputs().await, self.jobs().await, self.keys().await, self.blobs().await] {
            if let Err(error) = result {
                tracing::warn!(error, "sweeping failed; it will be tried again");
            }
        }
    }

    async fn outputs(&self) -> Result<(), String> {
        loop {
            let expired = self.store.expired_outputs(self.clock.unix_micros(), SWEEP_ROWS_MAX).await.map_err(text)?;
            for jobs in expired.chunks(OUTPUT_JOBS_PER_TRANSACTION) {
                self.store.drop_outputs(jobs).await.map_err(text)?;
            }
            if expired.len() < SWEEP_ROWS_MAX as usize {
                return Ok(());
            }
        }
    }

    async fn jobs(&self) -> Result<(), String> {
        let kept = Duration::from_secs(self.limits.job_record_seconds);
        let before = unix_micros_before(self.clock.unix_micros(), kept);
        while self.store.forget_jobs(before, SWEEP_ROWS_MAX).await.map_err(text)? == u64::from(SWEEP_ROWS_MAX) {}
        for (tenant, mut beyond) in self.store.too_many_ended(self.limits.tenant_ended_jobs).await.map_err(text)? {
            while beyond > 0 {
                let count = u32::try_from(beyond).unwrap_or(SWEEP_ROWS_MAX).min(SWEEP_ROWS_MAX);
                let forgotten = self.store.forget_oldest(&tenant, count).await.map_err(text)?;
                if forgotten == 0 {
                    break;
                }
                beyond = beyond.saturating_sub(forgotten);
            }
        }
        while self.store.forget_programs(SWEEP_ROWS_MAX).await.map_err(text)? == u64::from(SWEEP_ROWS_MAX) {}
        Ok(())
    }

    /// Purges keys that were deleted while jobs used them.
    async fn keys(&self) -> Result<(), String> {
        for (tenant, key_id) in self.keystore.deleting_keys().await.map_err(text)? {
            self.keys.purge(&self.store, &self.keystore, &tenant, key_id).await.map_err(text)?;
        }
        Ok(())
    }

    async fn blobs(&self) -> Result<(), String> {
        self.keystore.sweep().await.map_err(text)?;
        Ok(())
    }
}

/// Removes objects of the bucket that no row names, once a day until the task is dropped. Dead
/// servers leave such objects behind. Ends if the bucket belongs to another database, and the
/// server then ends too: it may have started while the bucket did not answer.
pub async fn remove_orphans(keystore: Keystore) {
    loop {
        let pause = match keystore.remove_orphans().await {
            Ok(()) => ORPHANS_INTERVAL,
            Err(error @ (ClaimError::Failed(_) | ClaimError::Database(_))) => {
                tracing::warn!(%error, "unknown objects stay in the store; their removal will be tried again");
                ORPHANS_PAUSE
            }
            Err(error) => return tracing::error!(%error, "the store of blobs is not that of this database"),
        };
        sleep(pause).await;
    }
}

/// Time between two removals of unknown objects.
const ORPHANS_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// Pause after a removal that failed.
const ORPHANS_PAUSE: Duration = Duration::from_secs(5);

/// Runs a round, and repeats it each time that [`SWEEP_INTERVAL`] has passed.
///
/// A panic ends its round, and later rounds still run. Without further rounds, no space would be
/// freed. A server with a row that it cannot sweep would gain nothing from a restart.
async fn in_rounds<F: Future<Output = ()>>(mut round: impl FnMut() -> F) {
    let mut interval = tokio::time::interval(SWEEP_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if AssertUnwindSafe(round()).catch_unwind().await.is_err() {
            tracing::error!("sweeping panicked; it will be tried again");
        }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests;
