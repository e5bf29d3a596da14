//! Copies of a database file that is in use.

use std::{
    fs::{self, File},
    path::Path,
};

use cloakwork_storage::{
    Asker, Database, OpenError,
    private::{self, DirectoryError},
};

use super::DataError;

/// Copies the database file to a new file, which only this user can read. The copy has everything
/// that was committed before the call, and is on the disk when the call returns.
pub(crate) async fn back_up(database: &Database, to: &Path) -> Result<(), DataError> {
    if database.is_on_server() {
        return Err(DataError::BackupOfServer);
    }
    let io = |source| DirectoryError::Io { path: to.to_owned(), source };
    // SQLite writes into an empty file, and leaves its mode as it is.
    let file: File = private::file_options().write(true).create_new(true).open(to).map_err(io)?;
    let mut reader = database.read(Asker::Upkeep).await.map_err(OpenError::Database).map_err(failed(to))?;
    let copied = reader.query("VACUUM INTO $1").bind(to.to_string_lossy().into_owned()).execute().await;
    if let Err(error) = copied {
        // The rest of a copy looks like a backup. Nothing else can be done if it stays.
        let _ = fs::remove_file(to);
        return Err(failed(to)(OpenError::Database(error)));
    }
    file.sync_all().map_err(io)?;
    // Without this, a power failure can remove the name of the file.
    let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(File::open(directory).and_then(|directory| directory.sync_all()).map_err(io)?)
}

fn failed(to: &Path) -> impl FnOnce(OpenError) -> DataError {
    move |source| DataError::File { path: to.to_owned(), source }
}
