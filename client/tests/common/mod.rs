//! Test servers with scripted behaviour, over in-process connections that break on demand.

#![allow(dead_code, unreachable_pub, reason = "each test file is a crate and uses its share")]

pub mod blobs;
pub mod jobs;
pub mod pipe;

use std::time::Duration;

use cloakwork_client::RetryPolicy;

/// Short pauses, with enough total time for a slow machine.
pub const POLICY: RetryPolicy = RetryPolicy {
    attempts_max: 10,
    first_pause: Duration::from_millis(1),
    pause_max: Duration::from_millis(5),
    total_max: Duration::from_secs(120),
};
