//! A database on a PostgreSQL server.

use cloakwork_storage::{Database, OpenError, Server};

use super::DataError;
use crate::{config::Config, database, owner};

/// The server that the settings name, if they name one.
pub(super) fn of(config: &Config) -> Result<Option<Server>, DataError> {
    let settings = &config.database;
    if settings.url.is_empty() {
        return Ok(None);
    }
    Ok(Some(Server::new(&settings.url, settings.password_file.clone(), settings.ca_file.clone())?))
}

/// Opens the database of an installation that has no database file.
pub(super) async fn open(config: &Config, server: Server) -> Result<Database, DataError> {
    let file = config.storage.directory.join(database::FILE);
    if file.exists() { Err(DataError::TwoDatabases { file }) } else { connect(config, server).await }
}

/// Opens the database, and brings its tables up to date.
pub(super) async fn connect(config: &Config, server: Server) -> Result<Database, DataError> {
    // Without a standby that it must wait for, no commit of a migration would end.
    if config.database.require_sync_standby
        && let Some(lack) = server.standby_lack().await.map_err(OpenError::Database)?
    {
        return Err(DataError::Standby(lack));
    }
    let [own, catalogue] = database::SCHEMAS;
    let readers = u32::try_from(config.limits.database_readers).unwrap_or(u32::MAX);
    Ok(Database::connect(server, &[own, catalogue, owner::SCHEMA], readers).await?)
}
