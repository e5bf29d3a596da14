//! Servers and workers as processes on loopback, which tests start, kill, stop and start again.

#![forbid(unsafe_code)]

mod binaries;
mod certificates;
mod collector;
mod disk;
mod process;
mod server;
mod shell;
mod tenant;
mod watchdog;
mod worker;

pub use binaries::binary;
pub use certificates::dev_certificates;
pub use collector::{Collector, Recorded};
pub use disk::SmallDisk;
pub use process::{Process, Signal};
pub use server::{MUTED, Server, Setup, TOY, free_port};
pub use shell::Shell;
pub use tenant::{Tenant, VALUES};
pub use worker::Worker;

use std::time::{Duration, Instant};

/// Waits until `done` returns true. Panics after a minute: a condition that takes longer never
/// holds.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut done: impl FnMut() -> F) {
    let begun = Instant::now();
    while !done().await {
        assert!(begun.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
