//! The server's own database: one connection that writes, several that read.

use std::{path::Path, time::Duration};

use sqlx::{
    Sqlite, SqlitePool, Transaction,
    migrate::Migrator,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use crate::error::{ApiError, DATABASE_UNAVAILABLE, STORAGE_FULL};

/// The schema of the server's database, version by version.
pub static MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");

/// Name of the database in the data directory.
pub const FILE: &str = "server.db";

/// Only another process makes the writer wait: a `token create` beside a running server, or a backup.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// SQLite in write-ahead mode. What is committed survives a power failure.
#[derive(Clone, Debug)]
pub struct Database {
    writer: SqlitePool,
    readers: SqlitePool,
}

impl Database {
    /// Opens or makes the file and brings its schema up to date.
    pub async fn open(path: &Path, migrations: &Migrator, readers: u32) -> Result<Self, sqlx::Error> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT);
        let writer = SqlitePoolOptions::new().max_connections(1).connect_with(options.clone()).await?;
        migrations.run(&writer).await?;
        let readers =
            SqlitePoolOptions::new().max_connections(readers.max(1)).connect_with(options.read_only(true)).await?;
        Ok(Self { writer, readers })
    }

    /// For queries.
    pub fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    /// A transaction that may write. It takes the lock at its start, so that it cannot fail for want of it half-way.
    pub async fn write(&self) -> Result<Transaction<'static, Sqlite>, sqlx::Error> {
        self.writer.begin_with("BEGIN IMMEDIATE").await
    }

    /// Closes every connection and waits for it.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

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
