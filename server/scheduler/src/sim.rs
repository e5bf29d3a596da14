//! A seeded simulator of the scheduler with its clients, store, server and workers. The store may
//! lose its latest transaction, and the server may die between any two steps. Workers crash, stall,
//! lie, drain and come back. The simulator checks the invariants of docs and design after every
//! step. A seed determines the whole run.
//!
//! - I1 and I8: every acknowledged job ends once.
//! - I2: a stale commit is never accepted.
//! - I4: one request makes one job.
//! - I5: suspects are alone until acquitted, and a worker only gets sets that it serves.
//! - I6: limits hold.
//! - I7: once the faults stop, all jobs end within a computed time.
//! - Only poison jobs end as poison, and they cause few crashes.
//! - A check runs on a worker of the class of the first worker, and never on a worker that computed
//!   its rows. A check takes no job's place, costs no job an attempt or the blame for a crash, and
//!   ends with its server process. Quarantined workers get no work.

mod agenda;
mod client;
pub mod cluster;
pub mod fleet;
mod plan;
pub(crate) mod random;
mod server;
mod store;
#[cfg(test)]
mod tests;
mod worker;
mod world;

use world::World;

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Events that the scheduler took.
    pub steps: u64,
    /// Simulated microseconds.
    pub micros: u64,
    /// Jobs.
    pub jobs: u64,
    /// Jobs that ended with results.
    pub succeeded: u64,
    /// Times that the server died.
    pub server_deaths: u64,
    /// Number of worker deaths.
    pub worker_deaths: u64,
    /// Commits refused.
    pub refused: u64,
    /// Jobs found to be poison.
    pub poison: u64,
    /// Suspects acquitted by the last server.
    pub acquitted: u64,
    /// Checks submitted.
    pub checks: u64,
    /// Checks that ended with rows to compare.
    pub checks_computed: u64,
    /// Checks that crashed their worker.
    pub checks_deadly: u64,
    /// Workers quarantined.
    pub quarantined: u64,
}

/// Runs a seed. Panics where an invariant is broken, after a line with the command that repeats the
/// run.
pub fn run(seed: u64, trace: bool) -> Summary {
    let _replay = Replay { mode: "", seed, bug: None };
    World::new(seed, trace).run()
}

/// Prints the command that repeats a failed run.
struct Replay {
    /// The example's mode, followed by a blank, or nothing.
    mode: &'static str,
    seed: u64,
    bug: Option<&'static str>,
}

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { mode, seed, bug } = self;
            let bug = bug.map(|bug| format!(" --bug {bug}")).unwrap_or_default();
            eprintln!(
                "seed {seed} failed; to see it again:\n  cargo run -p cloakwork-scheduler --features sim --example simulate \
                 -- {mode}--seed {seed}{bug} --trace"
            );
        }
    }
}
