//! Retry with exponential backoff and jitter, limited in number and time.

use std::time::Duration;

use cloakwork_retry::Pauses;
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
    /// Upper bound of the first pause. The bound doubles for each further pause. A pause is a
    /// random part of its bound, at least half.
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
}

/// The attempts of one call.
pub(crate) struct Attempts {
    policy: RetryPolicy,
    pauses: Pauses,
    made: u32,
    started: Instant,
}

impl Attempts {
    pub(crate) fn new(policy: RetryPolicy) -> Self {
        Self { policy, pauses: Pauses::new(policy.first_pause, policy.pause_max), made: 0, started: Instant::now() }
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
        let pause = asked_for.saturating_add(self.pauses.next_pause());
        if self.made >= self.policy.attempts_max || self.started.elapsed().saturating_add(pause) > self.policy.total_max
        {
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

#[cfg(test)]
mod tests;
