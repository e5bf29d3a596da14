//! Translates the driver's errors.

use sqlx::{error::ErrorKind, migrate::MigrateError};

use crate::{Error, OpenError, Schema};

/// The result code for a full disk.
const SQLITE_FULL: &str = "13";

pub(super) fn of(error: sqlx::Error) -> Error {
    translated(error).counted()
}

fn translated(error: sqlx::Error) -> Error {
    match error {
        sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => Error::Closed,
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => Error::Damaged(error.to_string()),
        sqlx::Error::Database(error) if error.code().as_deref() == Some(SQLITE_FULL) => Error::Full,
        sqlx::Error::Database(error) if matches!(error.kind(), ErrorKind::UniqueViolation) => {
            Error::Exists(error.message().to_owned())
        }
        error => Error::Failed(error.to_string()),
    }
}

pub(super) fn of_migration(error: MigrateError, schema: &Schema) -> OpenError {
    match error {
        MigrateError::VersionMissing(got) => OpenError::Newer { got, known: schema.version() },
        MigrateError::VersionMismatch(version) => OpenError::Changed { version },
        error => OpenError::Database(of(error.into())),
    }
}
