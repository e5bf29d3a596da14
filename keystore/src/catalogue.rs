//! SQL access to the metadata of blobs, uploads, pins, keys and request ids.
//!
//! The statements keep to the common SQL of SQLite and PostgreSQL, except for the scalar `MIN` and
//! `MAX` in `requests`. Each function is one step; the caller groups steps into transactions.

pub(crate) mod blobs;
pub(crate) mod keys;
pub(crate) mod pins;
pub(crate) mod requests;
pub(crate) mod uploads;

pub(crate) use sqlx::SqliteConnection as Connection;

/// The schema of the catalogue.
pub(crate) static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("./migrations/sqlite");

/// A size as SQL stores it. No blob has more than 2^63 bytes.
pub(crate) fn to_sql(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// A size as read from SQL.
pub(crate) fn from_sql(size: i64) -> u64 {
    u64::try_from(size).unwrap_or(0)
}

/// Reads a column of exactly `N` bytes.
fn fixed<const N: usize>(row: &sqlx::sqlite::SqliteRow, column: &str) -> Result<[u8; N], crate::Error> {
    let bytes: &[u8] = sqlx::Row::try_get(row, column)?;
    let wrong = || crate::Error::failed(format!("the catalogue has {} bytes as {column}, not {N}", bytes.len()));
    <[u8; N]>::try_from(bytes).map_err(|_| wrong())
}
