//! Rows that a transaction may change.

/// Rows that a transaction may change. Transactions whose rows overlap exclude each other.
///
/// SQLite has one writer, so there every transaction excludes all others. PostgreSQL locks the rows
/// that the transaction names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows<'t> {
    /// Rows of this tenant.
    Tenant(&'t str),
    /// Rows of several tenants of the shard, or of none.
    All,
    /// Rows that no other transaction reads before it writes. The transaction waits for no other
    /// one, so a long transaction on all rows does not delay it. PostgreSQL runs it on a connection
    /// of its own.
    Apart,
}
