//! Retry with exponential backoff and jitter, limited in number and time.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{ClientError, Result};

/// How often and for how long a call is retried.
///
/// Two kinds of failures are retried: broken connections (including UNAVAILABLE), and refusals for
/// overload that state a delay. Every request that creates something carries a request id as the
/// idempotency key, so a retry never repeats an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Total number of attempts; 1 disables retries.
    pub attempts_max: u32,
    /// Upper bound of the first random pause. The bound doubles for each further pause.
    pub first_pause: Duration,
    /// Largest bound of a pause.
    pub pause_max: Duration,
    /// Time since the first attempt within which a further attempt may begin.
    pub total_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts_max: 8,
            first_pause: Duration::from_millis(100),
            pause_max: Duration::from_secs(5),
            total_max: Duration::from_secs(60),
        }
    }
}

impl RetryPolicy {
    /// A single attempt without retries.
    pub const NEVER: Self =
        Self { attempts_max: 1, first_pause: Duration::ZERO, pause_max: Duration::ZERO, total_max: Duration::ZERO };

    /// Upper bound of the pause after attempt number `attempt`, counted from 1.
    fn range(&self, attempt: u32) -> Duration {
        let doubled = self.first_pause.saturating_mul(1_u32.checked_shl(attempt - 1).unwrap_or(u32::MAX));
        doubled.min(self.pause_max)
    }
}

/// The attempts of one call.
pub(crate) struct Attempts {
    policy: RetryPolicy,
    made: u32,
    started: Instant,
}

impl Attempts {
    pub(crate) fn new(policy: RetryPolicy) -> Self {
        Self { policy, made: 0, started: Instant::now() }
    }

    /// Resets the count after progress: the next failure is the first of a new series.
    pub(crate) fn progress(&mut self) {
        *self = Self::new(self.policy);
    }

    /// Pauses after a failed attempt, or returns the error if there is no further attempt.
    pub(crate) async fn pause(&mut self, error: ClientError) -> Result<()> {
        if error.is_retryable() { self.pause_anyway(error).await } else { Err(error) }
    }

    /// Like [`Self::pause`], for an error that the caller knows how to recover from.
    pub(crate) async fn pause_anyway(&mut self, error: ClientError) -> Result<()> {
        self.made += 1;
        let asked_for = error.refusal().and_then(|refusal| refusal.retry_after).unwrap_or_default();
        // Full jitter spreads the retries of clients that failed at one time.
        let pause = asked_for + self.policy.range(self.made).mul_f64(fraction());
        if self.made >= self.policy.attempts_max || self.started.elapsed() + pause > self.policy.total_max {
            return Err(error);
        }
        sleep(pause).await;
        Ok(())
    }
}

/// Repeats a call until it succeeds, fails permanently, or reaches a limit of the policy.
pub(crate) async fn retry<T, F, C>(policy: RetryPolicy, mut call: C) -> Result<T>
where
    F: Future<Output = Result<T>>,
    C: FnMut() -> F,
{
    let mut attempts = Attempts::new(policy);
    loop {
        match call().await {
            Ok(answer) => return Ok(answer),
            Err(error) => attempts.pause(error).await?,
        }
    }
}

/// A random number from 0 to 1.
fn fraction() -> f64 {
    // If the system has no randomness, use the middle instead of failing the call.
    getrandom::u32().map_or(0.5, |number| f64::from(number) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests;
