//! The data of a server: the data directory, and the database in it or on a PostgreSQL server.

mod backup;
mod copy;
mod file;
mod lock;
mod server;

use std::{
    io,
    path::{Path, PathBuf},
};

use cloakwork_storage::{
    CopyError, Database, OpenError, ServerError,
    private::{self, DirectoryError},
};

use crate::{backend, config::Config, owner::Replica};

pub(crate) use backup::back_up;
pub(crate) use copy::move_to_server;
pub(crate) use lock::lock;
#[cfg(test)]
pub(crate) use {
    file::{open as open_file, unless_an_earlier_server_runs},
    lock::try_lock,
};

/// Why the data of a server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The data directory cannot be used.
    #[error("storage.directory: {0}")]
    Directory(#[from] DirectoryError),
    /// Another server uses the data directory.
    #[error("storage.directory {path}: another server or command is running on it", path = path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// A server uses a database of an earlier version, which this program would change under it.
    #[error(
        "storage.directory {path}: a server or command is running on a database of an earlier version; stop it, or wait \
         until a server of this version has started", path = path.display()
    )]
    EarlierServer {
        /// The directory.
        path: PathBuf,
    },
    /// Servers may use tables of an earlier version, which this command would change under them.
    #[error(
        "database.url: the tables are of an earlier version. Run `cloakwork-server migrate`, or start a server of this \
         version, and then repeat this command"
    )]
    EarlierTables,
    /// A database of an earlier version is here without the catalogue that belongs to it.
    #[error(
        "{file} is missing: it has the metadata of all blobs and keys. Restore it together with server.db, from one \
         backup", file = file.display()
    )]
    CatalogueMissing {
        /// The missing file.
        file: PathBuf,
    },
    /// The database file cannot be opened or migrated.
    #[error("the database {path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: OpenError,
    },
    /// The settings of the database server cannot be used.
    #[error("database.url and the files beside it: {0}")]
    Setting(#[from] ServerError),
    /// The database on a server cannot be opened or migrated.
    #[error("database.url: {0}")]
    Server(#[from] OpenError),
    /// The data directory has a database, and the settings name another one.
    #[error(
        "database.url is set, and {file} exists: a server uses one of the two. `cloakwork-server copy` moves the rows \
         of the file to database.url", file = file.display()
    )]
    TwoDatabases {
        /// The file in the data directory.
        file: PathBuf,
    },
    /// A command copies a file, and the database is on a server.
    #[error("database.url is set: back the database up with the tools of PostgreSQL, such as pg_dump")]
    BackupOfServer,
    /// A command needs a database server, and the settings name none.
    #[error("database.url is not set: it names the database that the rows are copied to")]
    NoServer,
    /// A command needs a database file.
    #[error("{file} does not exist: --data names the data directory of the server that is moved", file = file.display())]
    NoFile {
        /// The missing file.
        file: PathBuf,
    },
    /// The rows of the database file were not copied to the server.
    #[error("the database at database.url: {0}")]
    Copy(CopyError),
    /// The database file could not be renamed after its rows were copied.
    #[error("all rows were copied, but {file} could not be renamed: {source}. Run the command again", file = file.display())]
    Rename {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The database server keeps no second copy of what it commits.
    #[error("database.require_sync_standby: {0}. Set up a synchronous standby, or set this setting to false")]
    Standby(&'static str),
}

/// Opens the database of a server that holds the lock of its data directory. Missing directories
/// and tables are created. A directory that other users may write to is refused. The connections to
/// a database server carry the name of the replica.
pub(crate) async fn open(config: &Config, replica: Replica) -> Result<Database, DataError> {
    match server::of(config)? {
        Some(server) => {
            server::require_standby(config, &server).await?;
            server::open(config, server.named(&replica.name())).await
        }
        None => file::open_alone(&config.storage.directory, config.limits.database_readers).await,
    }
}

/// Opens the database for a command, which may run beside a server of this version. A command also
/// runs on a database that was just restored and has no standby yet. Only the command `migrate`
/// changes tables that are there.
pub(crate) async fn open_for_command(config: &Config) -> Result<Database, DataError> {
    if let Some(server) = server::of(config)? {
        server::refuse_earlier_tables(&server).await?;
    }
    migrate(config).await
}

/// Opens the database, and brings its tables up to date.
pub(crate) async fn migrate(config: &Config) -> Result<Database, DataError> {
    match server::of(config)? {
        Some(server) => server::open(config, server).await,
        None => file::open_for_command(&config.storage.directory).await,
    }
}

/// Makes the data directory if it is missing, and checks the rights on it.
fn open_directory(directory: &Path) -> Result<(), DataError> {
    Ok(private::open_directory(directory, backend::DIRECTORIES)?)
}

/// Checks the files that the settings of the database name.
pub(crate) fn check_files(config: &Config) -> Result<(), DataError> {
    server::of(config).map(drop)
}
