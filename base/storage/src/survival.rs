//! Durability of a commit.

/// Failures that a commit survives. A commit that survives power failures makes all commits before
/// it survive them as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// The end of the process, in any way. Enough for data that no caller relies on yet.
    Crash,
    /// A power failure as well. Costs a wait for the disk.
    PowerFailure,
}
