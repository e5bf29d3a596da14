//! Metering of what tenants have stored. Jobs are metered by the transactions that end them, and
//! uploads by those that commit them (`migrations/sqlite/0013_operators.sql`).

use std::{sync::Arc, time::Duration};

use cloakwork_clock::{Clock, Epoch, unix_day, unix_micros_before};
use cloakwork_storage::Error;
use tokio::time::{MissedTickBehavior, interval};

use crate::{limits::Limits, store::Store};

/// Time between two samples of the stored bytes and keys.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(60);

/// Longest time that a sample counts for. Nothing is known about the time in which the server or
/// its database was away.
const SAMPLE_SECONDS_MAX: u64 = 120;

/// Maximum number of rows that one statement deletes.
const FORGET_ROWS_MAX: u32 = 256;

/// Adds stored bytes and keys to the usage of each day, and forgets old days.
#[derive(Debug)]
pub struct Metering {
    store: Store,
    clock: Clock,
    limits: Arc<Limits>,
    uptime: Epoch,
    /// Uptime up to which samples count, in seconds.
    counted_seconds: u64,
}

impl Metering {
    /// Metering that begins now.
    pub fn new(store: Store, clock: Clock, limits: Arc<Limits>) -> Self {
        Self { uptime: clock.epoch(), store, clock, limits, counted_seconds: 0 }
    }

    /// Takes samples until the task is dropped.
    pub async fn run(mut self) {
        let mut interval = interval(SAMPLE_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            if let Err(error) = self.sample().await {
                tracing::warn!(%error, "what tenants have stored was not metered; the next sample counts for it");
            }
        }
    }

    /// Counts what is stored now for the time since the previous sample.
    async fn sample(&mut self) -> Result<(), Error> {
        let now_seconds = self.uptime.micros() / 1_000_000;
        let seconds = now_seconds.saturating_sub(self.counted_seconds).min(SAMPLE_SECONDS_MAX);
        let now_micros = self.clock.unix_micros();
        if seconds > 0 {
            self.store.add_stored(unix_day(now_micros), u32::try_from(seconds).unwrap_or(u32::MAX)).await?;
            self.counted_seconds = now_seconds;
        }
        let kept = Duration::from_secs(self.limits.usage_seconds);
        let first_day = unix_day(unix_micros_before(now_micros, kept));
        while self.store.forget_days(first_day, FORGET_ROWS_MAX).await? >= u64::from(FORGET_ROWS_MAX) {}
        Ok(())
    }
}

#[cfg(test)]
mod tests;
