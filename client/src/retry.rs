//! Trying again: only where it helps, ever more slowly, and not for ever.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{ClientError, Result};

/// How often and how long a call is tried again.
///
/// Only breaks (UNAVAILABLE, or a connection that failed) and refusals for overload that name a time are tried again.
/// Every request that creates something carries a request id, so that trying again never does a thing twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in all; 1 is never to try again.
    pub attempts_max: u32,
    /// The first pause is drawn from zero up to this, each further one from twice the range.
    pub first_pause: Duration,
    /// Largest range that pauses are drawn from.
    pub pause_max: Duration,
    /// Time from the first attempt on in which a further one may begin.
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
    /// One attempt and no other.
    pub const NEVER: Self =
        Self { attempts_max: 1, first_pause: Duration::ZERO, pause_max: Duration::ZERO, total_max: Duration::ZERO };

    /// The range of the pause behind attempt number `attempt`, the first being 1.
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

    /// Something was achieved: what fails from now on is a new trouble.
    pub(crate) fn progress(&mut self) {
        *self = Self::new(self.policy);
    }

    /// Pauses after an attempt that failed, or returns the error when there is no further one.
    pub(crate) async fn pause(&mut self, error: ClientError) -> Result<()> {
        if error.is_retryable() { self.pause_anyway(error).await } else { Err(error) }
    }

    /// As [`Self::pause`] for an error that the caller knows how to recover from.
    pub(crate) async fn pause_anyway(&mut self, error: ClientError) -> Result<()> {
        self.made += 1;
        let asked_for = error.refusal().and_then(|refusal| refusal.retry_after).unwrap_or_default();
        // Full jitter, so that clients that failed together do not come back together.
        let pause = asked_for + self.policy.range(self.made).mul_f64(fraction());
        if self.made >= self.policy.attempts_max || self.started.elapsed() + pause > self.policy.total_max {
            return Err(error);
        }
        sleep(pause).await;
        Ok(())
    }
}

/// Calls until it succeeds, fails for good, or the policy ends it.
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

/// A random number from 0 up to 1.
fn fraction() -> f64 {
    // Without randomness there is no jitter, which is no reason to fail.
    getrandom::u32().map_or(0.5, |number| f64::from(number) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests;
