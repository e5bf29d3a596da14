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

/// A database in write-ahead mode. A commit survives a power failure, unless its batch asks for
/// less.
#[derive(Clone, Debug)]
pub struct Database {
    writer: Arc<Mutex<Writer>>,
    readers: SqlitePool,
    version: Version,
    waiting: Arc<AtomicUsize>,
}

impl Database {
    /// Opens the file and migrates its schema to the newest version. Creates a missing file, for
    /// this user alone. Leaves a database of a later version unchanged.
    pub async fn open(path: &Path, migrator: &Migrator, readers: u32) -> Result<Self, OpenError> {
        make_private(path)?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT)
            // A log record of each statement costs more than a small query. The metrics show how
            // long operations take.
            .disable_statement_logging();
        let mut writer = options.connect().await?;
        migrator.run(&mut writer).await.map_err(|error| OpenError::of(error, migrator))?;
        // Connections to a file do not break. A test of each connection before its use would double
        // the cost of small queries.
        let pool = SqlitePoolOptions::new().test_before_acquire(false).max_connections(readers);
        let readers = pool.connect_with(options.read_only(true)).await?;
        let version = Version::default();
        let writer = Arc::new(Mutex::new(Writer::new(writer, version.clone())));
        Ok(Self { writer, readers, version, waiting: Arc::default() })
    }

    /// Connections for queries. A query or transaction sees the commits from before it began.
    pub fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    /// Number of the state that queries see, or `None` during a write. Data that was read between
    /// two equal answers is current for as long as the answer does not change.
    pub fn version(&self) -> Option<u64> {
        self.version.get()
    }

    /// Begins a transaction that may write. The call waits for the transaction before it, so a
    /// transaction never fails half-way because another one holds the lock.
    pub async fn write(&self) -> Result<Write, sqlx::Error> {
        Write::begin(self.turn().await).await
    }

    /// Commits all of a batch, or nothing of it. `fill` fills the batch when its turn has come, and
    /// no other writer runs from then until the commit. Up to 64 statements go to the database's
    /// thread as one message.
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

    /// Closes all connections, and waits until they are closed.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.lock().await.close().await;
    }
}

/// Counts a waiting task until this guard is dropped. Cancelling the wait drops the guard, too.
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

/// Creates a missing database file for this user alone, and removes other users' access to existing
/// files. SQLite gives the files beside the database the mode of the database. Links are refused,
/// because other users may have access to the file that a link leads to.
///
/// An existing database is not opened here. Closing it would release locks that SQLite holds in
/// this process.
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

/// Failures that a commit survives. A commit that survives power failures makes all commits before
/// it survive them as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// The end of the process, in any way. Enough for data that no caller relies on yet.
    Crash,
    /// A power failure as well. Costs a wait for the disk.
    PowerFailure,
}

/// Why a database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A later version of the program made the database.
    #[error(
        "its schema has version {got}, and this program knows those up to {known}: run the version that it was last \
         used with, or put back a backup from before the upgrade"
    )]
    Newer {
        /// Schema version of the database.
        got: i64,
        /// Latest schema version that this program knows.
        known: i64,
    },
    /// A program with another migration of the same number made the database.
    #[error(
        "its migration {version} is not the one that this program has: it was made by a build that was never released, \
         and no released one can go on with it"
    )]
    Changed {
        /// Number of the migration.
        version: i64,
    },
    /// The database files cannot be created, or other users' access cannot be removed.
    #[error("its files: {0}")]
    Files(#[from] io::Error),
    /// Any other failure of the database.
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

/// Longest wait for a lock of another process, such as a backup or a shell.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
