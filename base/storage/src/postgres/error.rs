//! Translates the driver's errors.

use std::error::Error as _;

use tokio_postgres::error::{Severity, SqlState};

use crate::Error;

/// An error of a statement or a connection.
pub(super) fn of(error: tokio_postgres::Error) -> Error {
    translated(&error).counted()
}

fn translated(error: &tokio_postgres::Error) -> Error {
    let Some(found) = error.as_db_error() else {
        // The driver's own text of an error names only its kind.
        let cause = error.source().map(|cause| format!(": {cause}"));
        return Error::Failed(format!("{error}{}", cause.unwrap_or_default()));
    };
    match *found.code() {
        SqlState::DISK_FULL => Error::Full,
        SqlState::UNIQUE_VIOLATION => Error::Exists(found.message().to_owned()),
        SqlState::LOCK_NOT_AVAILABLE => Error::Locked,
        ref code if code.code() == FENCED => Error::Fenced,
        // The detail of an error may hold values of the row, so it is left out.
        ref code => Error::Failed(format!("{} (SQLSTATE {})", found.message(), code.code())),
    }
}

/// The code with which a guard fails, of a class that PostgreSQL leaves to applications.
const FENCED: &str = "CW001";

/// Whether a prepared statement has other columns than before, because another server has upgraded
/// the tables. The statement would fail for as long as the connection keeps it.
pub(super) fn is_outdated(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED)
}

/// Whether the server ends the connection after this error.
pub(super) fn is_fatal(error: &tokio_postgres::Error) -> bool {
    let severity = error.as_db_error().and_then(|found| found.parsed_severity());
    matches!(severity, Some(Severity::Fatal | Severity::Panic))
}
