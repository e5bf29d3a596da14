//! The server's own database: its schema, and the mapping of its errors for callers.

use std::time::Duration;

pub use cloakwork_keystore::database::{Batch, Database, OpenError, Survival};
use sqlx::migrate::Migrator;

use crate::error::{ApiError, DATABASE_UNAVAILABLE, STORAGE_FULL};

/// The migrations of the schema, by version.
pub static MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");

/// Name of the database in the data directory.
pub const FILE: &str = "server.db";

/// Maps a database error to an error for the caller. The cause is logged and not returned, because
/// it may contain paths.
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
