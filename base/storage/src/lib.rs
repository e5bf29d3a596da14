//! The only access to the database.
//!
//! Other crates write SQL text, bind [`Value`]s and read [`Row`]s. No type of a database driver
//! leaves this crate. There are two adapters: `sqlite` for a file, and `postgres` for a server.
//! Both run each statement, so its text keeps to the SQL that both understand.
//!
//! Reads go through [`Database::read`]. Writes take turns. A [`Write`] is a transaction that may
//! read what it changes. A [`Batch`] is a list of statements that the database gets at once. Each
//! call names its [`Asker`], so that tenants get equal shares of the connections.

#![forbid(unsafe_code)]

mod asker;
mod batch;
mod connection;
mod copy;
mod database;
mod error;
mod insertion;
mod line;
mod postgres;
pub mod private;
mod readers;
mod row;
mod rows;
mod schema;
mod session;
mod small_file;
mod source;
mod sqlite;
mod survival;
mod terms;
mod value;
mod version;
mod write;
mod writer;
mod writers;

pub use asker::Asker;
pub use batch::{Batch, Each, Values};
pub use connection::{Connection, Query};
pub use copy::{CopyError, copy};
pub use database::Database;
pub use error::{ERROR_KINDS, Error, OpenError, error_counts};
pub use postgres::{Server, ServerError, Standbys};
pub use readers::Reader;
pub use row::Row;
pub use rows::Rows;
pub use schema::{Migration, Schema};
pub use small_file::{read_small_file, read_small_file_now};
pub use survival::Survival;
pub use value::Value;
pub use write::Write;
