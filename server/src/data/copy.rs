//! The move of a database file to a PostgreSQL server.

use std::{fs, path::PathBuf};

use super::{DataError, file, lock::lock, server};
use crate::{config::Config, database};

/// The rows and the file that were moved.
pub(crate) struct Moved {
    /// Number of rows.
    pub(crate) rows: u64,
    /// The file, under its new name.
    pub(crate) file: PathBuf,
}

/// Copies all rows of the database file to the server that the settings name, compares them, and
/// renames the file, so that no server uses it by mistake. The data directory is locked meanwhile.
pub(crate) async fn move_to_server(config: &Config) -> Result<Moved, DataError> {
    let directory = &config.storage.directory;
    let server = server::of(config)?.ok_or(DataError::NoServer)?;
    let path = directory.join(database::FILE);
    if !path.exists() {
        return Err(DataError::NoFile { file: path });
    }
    let _lock = lock(directory).await?;
    let from = file::open_alone(directory, 1).await?;
    server::require_standby(config, &server).await?;
    server::refuse_earlier_tables(&server).await?;
    let to = server::connect(config, server).await?;
    let copied = cloakwork_storage::copy(&from, &to, &database::TABLES).await;
    to.close().await;
    // The last connection that closes moves the log of SQLite into the file.
    from.close().await;
    let rows = copied.map_err(DataError::Copy)?;
    let moved = path.with_added_extension("copied");
    fs::rename(&path, &moved).map_err(|source| DataError::Rename { file: path, source })?;
    Ok(Moved { rows, file: moved })
}
