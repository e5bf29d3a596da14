//! Locks that keep transactions apart whose rows overlap.
//!
//! SQLite has one writer, and the code of this project relies on it: a transaction reads rows and
//! decides on them before it writes. PostgreSQL runs transactions side by side, so each one takes
//! locks for the rows that it names. The locks are "advisory locks" of PostgreSQL. The end
//! of the transaction ends its locks, and every process that uses the database sees them.

use crate::Rows;

/// Class of the lock of a shard. A transaction on all rows of the shard holds the lock alone, and
/// every other transaction on the shard holds the lock together with others.
const ALL: i32 = 0x636c_6f61;

/// Class of the locks of tenants.
const TENANT: i32 = 0x636c_6f62;

/// Class of the lock of a migration.
const MIGRATION: i32 = 0x636c_6f63;

/// The statement that takes the lock of a migration.
pub(super) fn of_migration() -> String {
    format!("SELECT pg_advisory_xact_lock({MIGRATION}, 0)")
}

/// The statements that take the locks of a transaction on these rows of a shard.
pub(super) fn statements(rows: Rows<'_>, shard: i32) -> String {
    match rows {
        Rows::Apart => String::new(),
        Rows::All => format!("SELECT pg_advisory_xact_lock({ALL}, {shard})"),
        // The order is the same in every transaction, so no two wait for each other.
        Rows::Tenant(tenant) => format!(
            "SELECT pg_advisory_xact_lock_shared({ALL}, {shard}); SELECT pg_advisory_xact_lock({TENANT}, {})",
            number(tenant)
        ),
    }
}

/// A number for the name of a tenant (FNV-1a of 32 bits). All processes must agree on it. Tenants
/// with equal numbers only wait for each other.
fn number(tenant: &str) -> i32 {
    let hash = tenant.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes of different versions share a database, so the numbers must not change.
    #[test]
    fn the_locks_of_a_transaction_are_those_of_earlier_versions() {
        assert_eq!(of_migration(), "SELECT pg_advisory_xact_lock(1668050787, 0)");
        assert_eq!(statements(Rows::Apart, 0), "");
        assert_eq!(statements(Rows::All, 0), "SELECT pg_advisory_xact_lock(1668050785, 0)");
        assert_eq!(statements(Rows::All, 7), "SELECT pg_advisory_xact_lock(1668050785, 7)");
        assert_eq!(
            statements(Rows::Tenant("a"), 0),
            "SELECT pg_advisory_xact_lock_shared(1668050785, 0); SELECT pg_advisory_xact_lock(1668050786, -468965076)"
        );
    }
}
