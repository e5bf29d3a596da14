//! Opening an SQLite database the way a service needs it: one writer, several readers.

mod batch;
mod version;
mod write;

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use sqlx::{
    ConnectOptions as _, SqlitePool,
    migrate::{MigrateError, Migrator},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::sync::Mutex;

use crate::private;

pub use batch::{Batch, Values};
use version::Version;
pub use write::Write;
use write::{Turn, Writer};

/// A database in write-ahead mode. What is committed survives a power failure, unless a batch says otherwise.
#[derive(Clone, Debug)]
pub struct Database {
    writer: Arc<Mutex<Writer>>,
    readers: SqlitePool,
    version: Version,
    waiting: Arc<AtomicUsize>,
}

impl Database {
    /// Opens the file, or makes it for this user alone, and brings its schema up to date. A database of a later version
    /// is left as it is.
    pub async fn open(path: &Path, migrator: &Migrator, readers: u32) -> Result<Self, OpenError> {
        make_private(path)?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT)
            // A record of each statement costs more than a small query. The metrics show how long operations take.
            .disable_statement_logging();
        let mut writer = options.connect().await?;
        migrator.run(&mut writer).await.map_err(|error| OpenError::of(error, migrator))?;
        // A file does not hang up: asking each connection whether it is alive would double the cost of small queries.
        let pool = SqlitePoolOptions::new().test_before_acquire(false).max_connections(readers);
        let readers = pool.connect_with(options.read_only(true)).await?;
        let version = Version::default();
        let writer = Arc::new(Mutex::new(Writer::new(writer, version.clone())));
        Ok(Self { writer, readers, version, waiting: Arc::default() })
    }

    /// For queries. Sees what was committed when each query, or each transaction on it, began.
    pub fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    /// Number of the state that queries see; none while somebody writes. What was read between two equal answers is
    /// true for as long as the answer stays the same.
    pub fn version(&self) -> Option<u64> {
        self.version.get()
    }

    /// A transaction that may write. It waits for the one before it, and never fails half-way for want of the lock.
    pub async fn write(&self) -> Result<Write, sqlx::Error> {
        Write::begin(self.turn().await).await
    }

    /// Commits all of a batch, or nothing of it. It is filled when it is its turn: nobody else writes from then until
    /// it is done. Up to 64 statements go to the database's thread as one message.
    pub async fn apply(&self, survival: Survival, fill: impl FnOnce(&mut Batch)) -> Result<(), sqlx::Error> {
        let turn = self.turn().await;
        let mut batch = Batch::default();
        fill(&mut batch);
        turn.apply(survival, batch).await
    }

    /// Number of tasks that wait for their turn to write.
    pub fn waiting_writers(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    async fn turn(&self) -> Turn {
        let waiting = Waiting::begin(&self.waiting);
        let writer = self.writer.clone().lock_owned().await;
        drop(waiting);
        Turn::of(writer).await
    }

    /// Closes all connections and waits for it.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.lock().await.close().await;
    }
}

/// Counts a task that waits, until it is dropped: the wait may end by being cancelled.
struct Waiting<'w>(&'w AtomicUsize);

impl<'w> Waiting<'w> {
    fn begin(count: &'w AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Makes an empty file for this user alone where there is none, and closes existing ones to others. SQLite gives the files
/// beside the database the mode that the database has. Links are refused: the file that one leads to may be open.
///
/// An existing database is not opened here: closing it again would release locks that SQLite holds in this process.
fn make_private(path: &Path) -> io::Result<()> {
    match private::file_options().write(true).create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => drop(made.map_err(|error| private::naming(path, error))?),
    }
    for ending in ["", "-journal", "-shm", "-wal"] {
        let mut file = path.as_os_str().to_owned();
        file.push(ending);
        let file = PathBuf::from(file);
        private::close_file(&file).map_err(|error| private::naming(&file, error))?;
    }
    Ok(())
}

/// What a commit survives. One that survives everything takes all before it along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// The end of the process, in whatever way. Enough for what nobody relies on yet.
    Crash,
    /// A power failure as well. Costs a wait for the disk.
    PowerFailure,
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
    /// Its files cannot be made or closed to others.
    #[error("its files: {0}")]
    Files(#[from] io::Error),
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

/// Only another process could make us wait: a backup, or somebody's shell.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
