//! The only access to the database.
//!
//! Other crates write SQL text, bind [`Value`]s and read [`Row`]s. No type of a database driver
//! leaves this crate, so another database needs another adapter here and no change elsewhere. The
//! only adapter is the one for SQLite (`sqlite`).
//!
//! Reads go through [`Database::read`]. Writes take turns. A [`Write`] is a transaction that may
//! read what it changes. A [`Batch`] is a list of statements that the database gets at once. Each
//! call names its [`Asker`], so that tenants get equal shares of the connections.

#![forbid(unsafe_code)]

mod asker;
mod batch;
mod connection;
mod database;
mod error;
mod line;
pub mod private;
mod readers;
mod row;
mod schema;
mod sqlite;
mod survival;
mod value;
mod version;
mod write;

pub use asker::Asker;
pub use batch::{Batch, Values};
pub use connection::{Connection, Query};
pub use database::{Database, Rows};
pub use error::{Error, OpenError};
pub use readers::Reader;
pub use row::Row;
pub use schema::{Migration, Schema};
pub use survival::Survival;
pub use value::Value;
pub use write::Write;
