//! A simulation of many workers that several schedulers share, in virtual time. Each tenant has a
//! shard, and each shard a scheduler of its own. [`crate::placement`] moves workers between shards.
//!
//! Assumed are 1,000 workers, 12 shards, 100,000 jobs a second, 10,000 tenants and 30,000 keys.
//! Tenants and the keys of a tenant follow Zipf's law. A job takes 8 ms of a worker's time, so
//! that the workers are busy at 80 %. Each tenant, the greatest first, is placed on the shard with
//! the least demand. Keys are in memory at the start. A key that is not resident takes 30 ms more,
//! and a worker keeps the 64 keys that it used last. A worker asks for 64 ms of work. Servers
//! decide and commit every 4 ms. Workers report each second, as servers compare their loads.

mod cpu;
mod demand;
mod fleet_worker;
mod report;
mod shard;
#[cfg(test)]
mod tests;
mod world;

pub use report::{Burst, Report};
use world::Fleet;

/// The size of a simulated fleet.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Number of schedulers.
    pub shards: usize,
    /// Number of workers.
    pub workers: usize,
    /// Jobs in a second.
    pub jobs: u64,
    /// Number of tenants, each with three keys.
    pub tenants: usize,
}

impl Size {
    /// The fleet that the project's goals are stated for.
    pub const GOAL: Self = Self { shards: 12, workers: 1000, jobs: 100_000, tenants: 10_000 };
}

/// Simulates a steady load for some seconds, after some seconds that do not count.
pub fn steady(size: Size, warm_up_seconds: u64, seconds: u64) -> Report {
    Fleet::new(size).steady(warm_up_seconds, seconds)
}

/// Simulates a second in which the tenants of one shard offer ten times their load, and the time
/// until the backlog is gone, up to `seconds_max`.
pub fn burst(size: Size, warm_up_seconds: u64, seconds_max: u64) -> Burst {
    Fleet::new(size).burst(warm_up_seconds, seconds_max)
}
