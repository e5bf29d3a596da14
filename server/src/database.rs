//! The server's database: its schemas, and the mapping of its errors for callers.

use std::time::Duration;

use cloakwork_storage::{Error, Migration, Schema};

use crate::error::{ApiError, DATABASE_UNAVAILABLE, STORAGE_FULL, database_busy};

/// All tables: those of the server, and the catalogue of the key store.
pub const SCHEMAS: [Schema; 2] = [SCHEMA, cloakwork_keystore::SCHEMA];

/// The tables of the server: tenants, tokens, programs and jobs.
pub const SCHEMA: Schema = Schema {
    ledger: "_sqlx_migrations",
    migrations: &[
        Migration::of_sqlite(1, "auth", include_str!("../migrations/sqlite/0001_auth.sql")),
        Migration::of_sqlite(2, "jobs", include_str!("../migrations/sqlite/0002_jobs.sql")),
        Migration::of_sqlite(3, "usage", include_str!("../migrations/sqlite/0003_usage.sql")),
        Migration::of_sqlite(4, "fetched", include_str!("../migrations/sqlite/0004_fetched.sql")),
        Migration::of_sqlite(5, "vectors", include_str!("../migrations/sqlite/0005_vectors.sql")),
        Migration::of_sqlite(6, "one database", include_str!("../migrations/sqlite/0006_one_database.sql")),
        Migration::of_sqlite(7, "microseconds", include_str!("../migrations/sqlite/0007_microseconds.sql")),
        Migration::of_sqlite(8, "bounded scans", include_str!("../migrations/sqlite/0008_bounded_scans.sql")),
        Migration {
            version: 9,
            name: "attestations",
            sqlite: include_str!("../migrations/sqlite/0009_attestations.sql"),
            postgres: Some(include_str!("../migrations/postgres/0009_attestations.sql")),
            compatible_from: 9,
        },
        Migration {
            version: 10,
            name: "deleted tenants",
            sqlite: include_str!("../migrations/sqlite/0010_deleted_tenants.sql"),
            postgres: Some(include_str!("../migrations/postgres/0010_deleted_tenants.sql")),
            compatible_from: 9,
        },
        Migration {
            version: 11,
            name: "shards",
            sqlite: include_str!("../migrations/sqlite/0011_shards.sql"),
            postgres: Some(include_str!("../migrations/postgres/0011_shards.sql")),
            compatible_from: 9,
        },
        Migration {
            version: 12,
            name: "traces",
            sqlite: include_str!("../migrations/sqlite/0012_traces.sql"),
            postgres: Some(include_str!("../migrations/postgres/0012_traces.sql")),
            compatible_from: 9,
        },
        Migration {
            version: 13,
            name: "operators",
            sqlite: include_str!("../migrations/sqlite/0013_operators.sql"),
            postgres: Some(include_str!("../migrations/postgres/0013_operators.sql")),
            compatible_from: 9,
        },
        Migration {
            version: 14,
            name: "stored outputs",
            sqlite: include_str!("../migrations/sqlite/0014_stored_outputs.sql"),
            postgres: Some(include_str!("../migrations/postgres/0014_stored_outputs.sql")),
            compatible_from: 9,
        },
    ],
};

/// The tables of both schemas. Each comes after those that it refers to.
pub const TABLES: [&str; 23] = [
    "tenants",
    "tokens",
    "programs",
    "jobs",
    "job_inputs",
    "job_outputs",
    "embedded_workers",
    "tenant_usage",
    "usage_days",
    "tenant_limits",
    "drained_workers",
    "audit_entries",
    "blobs",
    "uploads",
    "requests",
    "request_counts",
    "pins",
    "keys",
    "key_parts",
    "usage",
    "store_marker",
    "tenant_shards",
    "received_days",
];

/// Name of the database in the data directory.
pub const FILE: &str = "server.db";

/// First version of [`SCHEMA`] whose database also holds the catalogue.
pub const ONE_DATABASE: i64 = 6;

/// Name of the file that earlier versions kept the catalogue in.
pub const CATALOGUE_FILE: &str = "keystore.db";

/// Maps a database error to an error for the caller. The cause is logged and not returned, because
/// it may contain paths.
pub fn failed(error: Error) -> ApiError {
    if error == Error::Busy {
        return database_busy();
    }
    match error {
        // The next owner has the rows. The database works.
        Error::Fenced => tracing::warn!(%error, "a change was refused"),
        _ => tracing::error!(%error, "the database failed"),
    }
    match error {
        Error::Full => STORAGE_FULL.error("the server's disk is full"),
        _ => unavailable(),
    }
}

/// The error for a caller whose change the database did not take.
pub fn unavailable() -> ApiError {
    DATABASE_UNAVAILABLE.error("the server's database did not answer").retry_after(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::OVERLOADED;

    #[test]
    fn all_tests_pass_on_postgres() {
        cloakwork_tests_database::run_again_on_postgres(&[]);
    }

    #[test]
    fn a_wait_for_other_queries_is_no_failure_of_the_database() {
        for refusal in [failed(Error::Busy), ApiError::from(cloakwork_keystore::Error::from(Error::Busy))] {
            assert_eq!(refusal.reason(), OVERLOADED);
            assert!(refusal.message().contains("(database_readers)") && refusal.retry_delay().is_some(), "{refusal}");
        }
        assert_eq!(failed(Error::Closed).reason(), DATABASE_UNAVAILABLE);
    }
}
