//! A database on a PostgreSQL server.

use cloakwork_storage::{Database, OpenError, Schema, Server};

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
    let readers = u32::try_from(config.limits.database_readers).unwrap_or(u32::MAX);
    Ok(Database::connect(server, &schemas(), readers).await?)
}

/// Refuses a database whose commits have no second copy, if the settings demand one. Without a
/// standby that it must wait for, no commit of a migration would end.
pub(super) async fn require_standby(config: &Config, server: &Server) -> Result<(), DataError> {
    if config.database.require_sync_standby
        && let Some(lack) = server.standby_lack().await.map_err(OpenError::Database)?
    {
        return Err(DataError::Standby(lack));
    }
    Ok(())
}

/// Refuses a database that lacks migrations, which servers of an earlier version may be using.
pub(super) async fn refuse_earlier_tables(server: &Server) -> Result<(), DataError> {
    if server.lacks_migrations(&schemas()).await? { Err(DataError::EarlierTables) } else { Ok(()) }
}

fn schemas() -> [Schema; 3] {
    let [own, catalogue] = database::SCHEMAS;
    [own, catalogue, owner::SCHEMA]
}
