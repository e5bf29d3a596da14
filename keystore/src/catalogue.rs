//! What is known of blobs, uploads, pins and keys, in SQL.
//!
//! The statements keep to what SQLite and PostgreSQL have in common. Each function is one step; whoever calls decides
//! what makes a transaction.

pub(crate) mod blobs;
pub(crate) mod keys;
pub(crate) mod pins;
pub(crate) mod requests;
pub(crate) mod uploads;

pub(crate) use sqlx::SqliteConnection as Connection;

/// The schema of the catalogue.
pub(crate) static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("./migrations/sqlite");

/// A size as SQL stores it. Blobs of more than 2^63 bytes do not exist.
pub(crate) fn to_sql(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// A size as SQL stored it.
pub(crate) fn from_sql(size: i64) -> u64 {
    u64::try_from(size).unwrap_or(0)
}

/// Bytes of a fixed number from a column.
fn fixed<const N: usize>(row: &sqlx::sqlite::SqliteRow, column: &str) -> Result<[u8; N], crate::Error> {
    let bytes: &[u8] = sqlx::Row::try_get(row, column)?;
    let wrong = || crate::Error::failed(format!("the catalogue has {} bytes as {column}, not {N}", bytes.len()));
    <[u8; N]>::try_from(bytes).map_err(|_| wrong())
}
