//! A database file in the data directory.

use std::path::Path;

use cloakwork_storage::Database;
use tokio::time::{Instant, sleep};

use super::{
    DataError,
    lock::{LOCK_INTERVAL, LOCK_TIMEOUT, try_lock},
    open_directory,
};
use crate::{backend, database};

/// Opens the database for a server that holds the lock of the directory. Moves the catalogue of an
/// earlier version into the database: no other server uses either file.
pub(super) async fn open_alone(directory: &Path, readers: u64) -> Result<Database, DataError> {
    let database = open(directory, readers).await?;
    let path = directory.join(database::CATALOGUE_FILE);
    match cloakwork_keystore::absorb(&database, &path).await {
        Ok(false) => Ok(database),
        Ok(true) => {
            tracing::info!(file = %path.display(), "the catalogue was moved into {}", database::FILE);
            Ok(database)
        }
        Err(source) => Err(DataError::File { path, source }),
    }
}

/// Opens the database for a command, which may run beside a server of this version.
pub(super) async fn open_for_command(directory: &Path) -> Result<Database, DataError> {
    unless_an_earlier_server_runs(directory, async || open(directory, 1).await).await
}

/// Opens the database. Missing directories and databases are created with access for the server's
/// user only. A directory that other users may write to is refused.
pub(crate) async fn open(directory: &Path, readers: u64) -> Result<Database, DataError> {
    open_directory(directory)?;
    check_catalogue(directory).await?;
    let path = directory.join(database::FILE);
    let readers = u32::try_from(readers).unwrap_or(u32::MAX);
    let opened = Database::open(&path, &database::SCHEMAS, readers).await;
    opened.map_err(|source| DataError::File { path, source })
}

/// Opens a database, unless a server of an earlier version may be using it. Opening the database
/// would rename columns, and the statements of that server would fail from then on.
///
/// If no server runs, the directory stays locked until the database is open. Otherwise a server of
/// an earlier version could start between the check and the change.
pub(crate) async fn unless_an_earlier_server_runs<T>(
    directory: &Path,
    open: impl AsyncFnOnce() -> Result<T, DataError>,
) -> Result<T, DataError> {
    let begun = Instant::now();
    let _lock = loop {
        let lock = try_lock(directory)?;
        if lock.is_some() || has_current_version(directory).await? {
            break lock;
        }
        // Another command, or a server of this version, may be about to change the database.
        if begun.elapsed() >= LOCK_TIMEOUT {
            return Err(DataError::EarlierServer { path: directory.to_owned() });
        }
        sleep(LOCK_INTERVAL).await;
    };
    open().await
}

/// Whether the database exists and has this version of each schema, so that opening the database
/// does not change it.
async fn has_current_version(directory: &Path) -> Result<bool, DataError> {
    let path = directory.join(database::FILE);
    for schema in &database::SCHEMAS {
        let version = Database::version_of(&path, schema).await;
        let version = version.map_err(|source| DataError::File { path: path.clone(), source })?;
        if version.is_none_or(|version| version < schema.version()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Refuses a directory that a server of an earlier version used, and whose catalogue file is
/// missing. With an empty catalogue, the server would take every stored blob for a leftover and
/// remove it.
async fn check_catalogue(directory: &Path) -> Result<(), DataError> {
    let path = directory.join(database::FILE);
    let version = Database::version_of(&path, &database::SCHEMA).await;
    let version = version.map_err(|source| DataError::File { path, source })?;
    let apart = version.is_some_and(|version| version < database::ONE_DATABASE);
    let file = directory.join(database::CATALOGUE_FILE);
    // The first start of a server makes the staging directory. Before that, `tenant` and `token`
    // may have made the database.
    let missing = apart && directory.join(backend::STAGING).exists() && !file.exists();
    if missing { Err(DataError::CatalogueMissing { file }) } else { Ok(()) }
}
