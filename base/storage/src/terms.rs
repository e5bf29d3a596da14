//! The terms of a transaction, which hold from its begin to its commit.

use crate::{Rows, Survival};

/// The terms of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'t> {
    /// The failure that its commit survives.
    pub(crate) survival: Survival,
    /// Rows that it may change.
    pub(crate) rows: Rows<'t>,
    /// Shard of these rows. Transactions on different shards do not wait for each other.
    pub(crate) shard: i32,
    /// Statement that fails if this process may not write any more. The statement runs once the
    /// locks are held. A file has one writing process, which locks its directory, and needs none.
    pub(crate) guard: Option<&'t str>,
}
