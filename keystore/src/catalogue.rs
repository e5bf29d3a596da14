//! SQL access to the metadata of blobs, uploads, pins, keys and request ids.
//!
//! The statements keep to the common SQL of SQLite and PostgreSQL. Each function is one step; the
//! caller groups steps into transactions.

pub(crate) mod blobs;
pub(crate) mod keys;
pub(crate) mod marker;
pub(crate) mod pins;
pub(crate) mod received;
pub(crate) mod requests;
pub(crate) mod shards;
pub(crate) mod tenants;
pub(crate) mod uploads;

mod schema;

pub(crate) use cloakwork_storage::Connection;
pub use schema::{SCHEMA, absorb};

/// A size as SQL stores it. No blob has more than 2^63 bytes.
pub(crate) fn to_sql(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// A size as read from SQL.
pub(crate) fn from_sql(size: i64) -> u64 {
    u64::try_from(size).unwrap_or(0)
}
