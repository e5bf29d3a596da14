//! Opens a database file in write-ahead mode, and brings its schemas up to date.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use sqlx::{
    AssertSqlSafe, ConnectOptions as _, SqlSafeStr as _, SqliteConnection,
    migrate::{Migration, MigrationType, Migrator},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use super::{Session, error};
use crate::{Error, OpenError, Schema, private};

/// Rights of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Queries only.
    Read,
    /// Everything.
    Write,
}

/// Opens the file for writing, and migrates the schemas.
pub(crate) async fn open(path: &Path, schemas: &[Schema]) -> Result<Session, OpenError> {
    make_private(path)?;
    let mut session = Session::open(path, Access::Write).await?;
    for schema in schemas {
        // Another process may migrate the file at this moment, which fails one of the two. The
        // second try then finds the work done.
        if session.migrate(schema).await.is_err() {
            session.migrate(schema).await?;
        }
    }
    Ok(session)
}

/// The version of a schema in a file, or `None` if there is no such file or no such schema in it.
pub(crate) async fn version(path: &Path, schema: &Schema) -> Result<Option<i64>, OpenError> {
    if !fs::exists(path)? {
        return Ok(None);
    }
    make_private(path)?;
    let mut session = Session::open(path, Access::Write).await?;
    let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name = $1";
    let version = match session.first(tables, vec![schema.ledger.into()]).await? {
        Some(_) => session.newest_migration(schema).await?,
        None => None,
    };
    session.close().await;
    Ok(version)
}

/// Suffixes of the files that make up a database: itself, a journal, and those of write-ahead mode.
const FILE_SUFFIXES: [&str; 4] = ["", "-journal", "-shm", "-wal"];

/// The files that make up the database `path`.
pub(super) fn files(path: &Path) -> impl Iterator<Item = PathBuf> {
    FILE_SUFFIXES.iter().map(|suffix| {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        PathBuf::from(file)
    })
}

impl Session {
    /// Opens a connection to the file.
    pub(crate) async fn open(path: &Path, access: Access) -> Result<Self, Error> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(access == Access::Write)
            .read_only(access == Access::Read)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT)
            // A log record of each statement costs more than a small query. The metrics show how
            // long operations take.
            .disable_statement_logging();
        Ok(Self::new(options.connect().await.map_err(error::of)?))
    }

    async fn newest_migration(&mut self, schema: &Schema) -> Result<Option<i64>, Error> {
        // Safe: the name of a ledger is the program's own.
        let sql = AssertSqlSafe(format!("SELECT MAX(version) FROM {}", schema.ledger));
        sqlx::query_scalar(sql).fetch_one(self.driver()).await.map_err(error::of)
    }

    pub(super) async fn migrate(&mut self, schema: &Schema) -> Result<(), OpenError> {
        let migrator = migrator(schema);
        let connection: &mut SqliteConnection = self.driver();
        migrator.run(connection).await.map_err(|error| error::of_migration(error, schema))
    }
}

fn migrator(schema: &Schema) -> Migrator {
    let migrations = schema.migrations.iter().map(|migration| {
        let text = migration.sqlite.into_sql_str();
        Migration::new(migration.version, migration.name.into(), MigrationType::Simple, text, false)
    });
    let mut migrator = Migrator::with_migrations(migrations.collect());
    migrator.dangerous_set_table_name(schema.ledger);
    migrator
}

/// Creates a missing database file for this user alone, and removes other users' access to existing
/// files. SQLite gives the files beside the database the mode of the database. Links are refused,
/// because other users may have access to the file that a link leads to.
///
/// An existing database is not opened here. Closing it would release locks that SQLite holds in
/// this process.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    match private::file_options().write(true).create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => drop(made.map_err(|error| private::naming(path, error))?),
    }
    for file in files(path) {
        private::close_file(&file).map_err(|error| private::naming(&file, error))?;
    }
    Ok(())
}

/// Longest wait for a lock of another process, such as a backup or a shell.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
