//! A seeded simulator of several servers that share one database. Each server has a scheduler, and
//! one of them owns the jobs. Servers die, are suspended and continue, or lose their way to the
//! database. Commits have unknown results. A standby takes over, without the last commits. Calls
//! arrive late, at servers that own nothing any more.
//!
//! Each of these is checked as it happens:
//!
//! - An acknowledged job is never lost, and ends once. An end that callers rely on never changes.
//! - One request makes one job.
//! - A server that is not the owner changes no row, and publishes nothing before its commit.
//! - No commit of a stale attempt is accepted.
//! - A job is not computed again because the owner changed.
//! - Once the faults stop, all jobs end within a computed time.
//!
//! Without a synchronous standby, callers are promised less: what the standby lacks may be lost.

mod bug;
mod client;
mod commit;
mod database;
mod owner;
mod plan;
mod server;
#[cfg(test)]
mod tests;
mod visit;
mod worker;
mod world;

pub use bug::Bug;
use world::Cluster;

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Events that schedulers took.
    pub steps: u64,
    /// Simulated microseconds.
    pub micros: u64,
    /// Jobs.
    pub jobs: u64,
    /// Jobs that ended with results.
    pub succeeded: u64,
    /// Transactions of owners.
    pub commits: u64,
    /// Times that a server took the database over.
    pub takeovers: u64,
    /// Servers that died or ended.
    pub server_deaths: u64,
    /// Servers that ended because another server had taken over.
    pub superseded: u64,
    /// Suspensions of servers.
    pub pauses: u64,
    /// Transactions that the database refused.
    pub fenced: u64,
    /// Times that an owner loaded all jobs again.
    pub reloads: u64,
    /// Times that a standby took over.
    pub fail_overs: u64,
    /// Commits that standbys did not have.
    pub lost_commits: u64,
    /// Ends published before their commit.
    pub early_ends: u64,
    /// Attempts begun before their commit.
    pub early_begins: u64,
    /// Results that were refused.
    pub refused: u64,
    /// Faults of workers.
    pub worker_faults: u64,
}

/// Runs a seed, with a planted bug if one is given. Panics where an invariant is broken.
pub fn run(seed: u64, trace: bool, bug: Option<Bug>) -> Summary {
    let _replay = super::Replay { mode: "cluster ", seed, bug: bug.map(Bug::name) };
    Cluster::new(seed, trace, bug).run()
}

/// Number of seeds from `first` on that it takes to notice a planted bug, if `most` are enough.
pub fn seeds_to_find(bug: Bug, first: u64, most: u64) -> Option<u64> {
    let notices = |seed: u64| std::panic::catch_unwind(|| Cluster::new(seed, false, Some(bug)).run()).is_err();
    (0..most).find(|index| notices(first.wrapping_add(*index))).map(|index| index + 1)
}
