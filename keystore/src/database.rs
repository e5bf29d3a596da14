//! Opening an SQLite database the way a service needs it: one writer, several readers.

use std::{path::Path, time::Duration};

use sqlx::{
    Sqlite, SqlitePool, Transaction,
    migrate::{MigrateError, Migrator},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

/// A database in write-ahead mode. What is committed survives a power failure.
#[derive(Clone, Debug)]
pub struct Database {
    writer: SqlitePool,
    readers: SqlitePool,
}

impl Database {
    /// Opens or makes the file, and brings its schema up to date. One of a later version is left as it is.
    pub async fn open(path: &Path, migrator: &Migrator, readers: u32) -> Result<Self, OpenError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT);
        // A file does not hang up: asking each connection whether it is alive would double the cost of small queries.
        let pool = |connections| SqlitePoolOptions::new().test_before_acquire(false).max_connections(connections);
        let writer = pool(1).connect_with(options.clone()).await?;
        migrator.run(&writer).await.map_err(|error| OpenError::of(error, migrator))?;
        let readers = pool(readers).connect_with(options.read_only(true)).await?;
        Ok(Self { writer, readers })
    }

    /// For queries. Sees what was committed when each query, or each transaction on it, began.
    pub fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    /// A transaction that may write. It waits for the one before it, and never fails half-way for want of the lock:
    /// `IMMEDIATE` takes it at the start.
    pub async fn write(&self) -> Result<Transaction<'static, Sqlite>, sqlx::Error> {
        match self.writer.begin_with(BEGIN).await {
            // SQLite itself rolls back when the disk is full. Its driver goes on to count that transaction as open, and
            // would refuse every later one on the connection.
            Err(sqlx::Error::InvalidSavePointStatement) => {
                self.writer.acquire().await?.close().await?;
                self.writer.begin_with(BEGIN).await
            }
            begun => begun,
        }
    }

    /// Closes all connections and waits for it.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

/// Why a database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Made by a later version of the program.
    #[error(
        "its schema has version {got}, and this program knows those up to {known}: run the version that it was last \
         used with, or put back a backup from before the upgrade"
    )]
    Newer {
        /// Of the database.
        got: i64,
        /// The latest one here.
        known: i64,
    },
    /// Made by a program whose migration of the same number does something else.
    #[error(
        "its migration {version} is not the one that this program has: it was made by a build that was never released, \
         and no released one can go on with it"
    )]
    Changed {
        /// Number of the migration.
        version: i64,
    },
    /// Anything else.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

impl OpenError {
    fn of(error: MigrateError, migrator: &Migrator) -> Self {
        let known = migrator.iter().map(|migration| migration.version).max().unwrap_or(0);
        match error {
            MigrateError::VersionMissing(got) => Self::Newer { got, known },
            MigrateError::VersionMismatch(version) => Self::Changed { version },
            error => Self::Database(error.into()),
        }
    }
}

const BEGIN: &str = "BEGIN IMMEDIATE";

/// Only another process could make us wait: a backup, or somebody's shell.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
