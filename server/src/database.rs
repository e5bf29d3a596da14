//! The server's own database: its schema, and what its failures mean to callers.

use std::time::Duration;

pub use cloakwork_keystore::database::{Batch, Database, OpenError, Survival};
use sqlx::migrate::Migrator;

use crate::error::{ApiError, DATABASE_UNAVAILABLE, STORAGE_FULL};

/// The schema, version by version.
pub static MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");

/// Name of the database in the data directory.
pub const FILE: &str = "server.db";

/// A failure of the database as the caller sees it. The cause goes into the log: it may name paths.
pub fn failed(error: sqlx::Error) -> ApiError {
    // 13 is SQLITE_FULL.
    let full = error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "13");
    tracing::error!(%error, "the database failed");
    if full {
        STORAGE_FULL.error("the server's disk is full")
    } else {
        DATABASE_UNAVAILABLE.error("the server's database did not answer").retry_after(Duration::from_secs(1))
    }
}
