use std::{cell::Cell, time::Duration};

use tokio::time::Instant;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::*;

const POLICY: RetryPolicy = RetryPolicy {
    attempts_max: 5,
    first_pause: Duration::from_millis(100),
    pause_max: Duration::from_millis(300),
    total_max: Duration::from_secs(60),
};

/// Makes calls that fail `failures` times. Returns the outcome and the number of calls.
async fn calls(policy: RetryPolicy, failures: u32, status: impl Fn() -> Status) -> (Result<u32>, u32) {
    let made = Cell::new(0);
    let outcome = retry(policy, || {
        made.set(made.get() + 1);
        let answer = if made.get() > failures { Ok(made.get()) } else { Err(status().into()) };
        async move { answer }
    });
    (outcome.await, made.get())
}

fn overload(delay: Duration) -> Status {
    Status::with_error_details(Code::ResourceExhausted, "full", ErrorDetails::with_retry_info(Some(delay)))
}

#[tokio::test(start_paused = true)]
async fn a_broken_call_is_retried_up_to_the_limit() {
    let down = || Status::unavailable("down");
    assert_eq!(calls(POLICY, 4, down).await, (Ok(5), 5));
    let (outcome, made) = calls(POLICY, 5, down).await;
    assert_eq!(outcome.expect_err("the last error").refusal().map(|refusal| refusal.code), Some(Code::Unavailable));
    assert_eq!(made, 5);
    assert_eq!(calls(RetryPolicy::NEVER, 1, down).await.1, 1);
}

#[tokio::test(start_paused = true)]
async fn pauses_are_random_and_within_their_ranges() {
    let mut pauses = Vec::new();
    for _ in 0..50 {
        let started = Instant::now();
        let (outcome, _) = calls(POLICY, 4, || Status::unavailable("down")).await;
        assert!(outcome.is_ok());
        // Bounds are 100, 200, then 300 twice instead of 400 and 800. Timers count whole
        // milliseconds.
        assert!(started.elapsed() <= Duration::from_millis(900 + 4), "{:?}", started.elapsed());
        pauses.push(started.elapsed());
    }
    pauses.sort_unstable();
    assert!(pauses[0] < pauses[49], "no jitter: {pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn overload_is_retried_only_after_the_delay_that_the_server_states() {
    let started = Instant::now();
    assert_eq!(calls(POLICY, 2, || overload(Duration::from_secs(7))).await, (Ok(3), 3));
    assert!(started.elapsed() >= Duration::from_secs(14));
    let (outcome, made) = calls(POLICY, 1, || Status::resource_exhausted("full")).await;
    assert!(outcome.is_err());
    assert_eq!(made, 1);
}

#[tokio::test(start_paused = true)]
async fn a_delay_beyond_the_total_time_ends_the_call() {
    let started = Instant::now();
    let (outcome, made) = calls(POLICY, 1, || overload(Duration::from_secs(3600))).await;
    assert!(outcome.is_err());
    assert_eq!((made, started.elapsed()), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn no_other_refusal_is_retried() {
    for number in 1..=16 {
        let code = Code::from_i32(number);
        let expected = if code == Code::Unavailable { 2 } else { 1 };
        assert_eq!(calls(POLICY, 1, || Status::new(code, "no")).await.1, expected, "{code:?}");
    }
}

/// A server may state any delay.
#[tokio::test(start_paused = true)]
async fn a_delay_beyond_the_total_ends_the_retries() {
    for delay in [Duration::from_secs(61), Duration::from_secs(i64::MAX.unsigned_abs())] {
        let (outcome, made) = calls(POLICY, 1, || overload(delay)).await;
        assert!(outcome.is_err());
        assert_eq!(made, 1, "{delay:?}");
    }
}
