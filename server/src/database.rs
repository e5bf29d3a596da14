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
        Migration { version: 1, name: "auth", sqlite: include_str!("../migrations/sqlite/0001_auth.sql") },
        Migration { version: 2, name: "jobs", sqlite: include_str!("../migrations/sqlite/0002_jobs.sql") },
        Migration { version: 3, name: "usage", sqlite: include_str!("../migrations/sqlite/0003_usage.sql") },
        Migration { version: 4, name: "fetched", sqlite: include_str!("../migrations/sqlite/0004_fetched.sql") },
        Migration { version: 5, name: "vectors", sqlite: include_str!("../migrations/sqlite/0005_vectors.sql") },
        Migration {
            version: 6,
            name: "one database",
            sqlite: include_str!("../migrations/sqlite/0006_one_database.sql"),
        },
        Migration {
            version: 7,
            name: "microseconds",
            sqlite: include_str!("../migrations/sqlite/0007_microseconds.sql"),
        },
        Migration {
            version: 8,
            name: "bounded scans",
            sqlite: include_str!("../migrations/sqlite/0008_bounded_scans.sql"),
        },
        Migration {
            version: 9,
            name: "attestations",
            sqlite: include_str!("../migrations/sqlite/0009_attestations.sql"),
        },
    ],
};

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
    tracing::error!(%error, "the database failed");
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
    fn a_wait_for_other_queries_is_no_failure_of_the_database() {
        for refusal in [failed(Error::Busy), ApiError::from(cloakwork_keystore::Error::from(Error::Busy))] {
            assert_eq!(refusal.reason(), OVERLOADED);
            assert!(refusal.message().contains("(database_readers)") && refusal.retry_delay().is_some(), "{refusal}");
        }
        assert_eq!(failed(Error::Closed).reason(), DATABASE_UNAVAILABLE);
    }
}
