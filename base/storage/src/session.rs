//! A connection of either database, and its rows.

use std::time::Duration;

use crate::{Batch, Error, Value, postgres, sqlite, terms::Terms};

/// A connection.
#[derive(Debug)]
pub(crate) enum Session {
    Sqlite(Box<sqlite::Session>),
    Postgres(Box<postgres::Session>),
}

/// A row that a query found.
#[derive(Debug)]
pub(crate) enum FoundRow {
    Sqlite(sqlite::Row),
    Postgres(postgres::Row),
}

/// Calls the same method of either adapter.
macro_rules! either {
    ($session:expr, $name:ident => $call:expr) => {
        match $session {
            Session::Sqlite($name) => $call,
            Session::Postgres($name) => $call,
        }
    };
}

impl Session {
    /// Sets the longest wait for an answer of a server. A file needs no limit.
    pub(crate) fn set_limit(&mut self, limit: Duration) {
        if let Self::Postgres(session) = self {
            session.set_limit(limit);
        }
    }

    /// Whether the connection still works on a statement that a caller broke off.
    pub(crate) fn is_busy(&self) -> bool {
        either!(self, session => session.is_busy())
    }

    /// Whether the connection must be replaced. A connection to a file never is.
    pub(crate) fn is_broken(&self) -> bool {
        matches!(self, Self::Postgres(session) if session.is_broken())
    }

    /// Waits until the connection has ended a broken-off statement. Returns false if the connection
    /// no longer works.
    pub(crate) async fn catch_up(&mut self) -> bool {
        either!(self, session => session.catch_up().await)
    }

    pub(crate) async fn execute(&mut self, sql: &'static str, values: Vec<Value>) -> Result<u64, Error> {
        either!(self, session => session.execute(sql, values).await)
    }

    pub(crate) async fn first(&mut self, sql: &'static str, values: Vec<Value>) -> Result<Option<FoundRow>, Error> {
        Ok(match self {
            Self::Sqlite(session) => session.first(sql, values).await?.map(FoundRow::Sqlite),
            Self::Postgres(session) => session.first(sql, values).await?.map(FoundRow::Postgres),
        })
    }

    pub(crate) async fn all(&mut self, sql: &'static str, values: Vec<Value>) -> Result<Vec<FoundRow>, Error> {
        Ok(match self {
            Self::Sqlite(session) => session.all(sql, values).await?.into_iter().map(FoundRow::Sqlite).collect(),
            Self::Postgres(session) => session.all(sql, values).await?.into_iter().map(FoundRow::Postgres).collect(),
        })
    }

    pub(crate) async fn script(&mut self, trusted: String) -> Result<(), Error> {
        match self {
            Self::Sqlite(session) => session.script(trusted).await,
            Self::Postgres(session) => session.script(&trusted).await,
        }
    }

    /// Begins a transaction. SQLite locks all rows.
    pub(crate) async fn begin(&mut self, terms: Terms<'_>) -> Result<(), Error> {
        match self {
            Self::Sqlite(session) => session.begin(terms.survival).await,
            Self::Postgres(session) => session.begin(terms).await,
        }
    }

    pub(crate) async fn commit(&mut self) -> Result<(), Error> {
        either!(self, session => session.commit().await)
    }

    pub(crate) async fn roll_back(&mut self) {
        either!(self, session => session.roll_back().await);
    }

    /// Waits until no transaction of the shard runs that a lost connection began.
    pub(crate) async fn wait_for_others(&mut self, shard: i32) -> Result<(), Error> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(session) => session.wait_for_others(shard).await,
        }
    }

    /// Commits a batch. After a failure, the caller rolls back.
    pub(crate) async fn apply(&mut self, terms: Terms<'_>, batch: Batch) -> Result<(), Error> {
        match self {
            Self::Sqlite(session) => session.apply(terms.survival, batch).await,
            Self::Postgres(session) => session.apply(terms, batch).await,
        }
    }

    pub(crate) async fn close(self) {
        match self {
            Self::Sqlite(session) => session.close().await,
            Self::Postgres(session) => session.close().await,
        }
    }
}

impl FoundRow {
    pub(crate) fn int(&self, column: &str) -> Result<Option<i64>, Error> {
        match self {
            Self::Sqlite(row) => row.get(column),
            Self::Postgres(row) => row.int(column),
        }
    }

    pub(crate) fn text(&self, column: &str) -> Result<Option<&str>, Error> {
        match self {
            Self::Sqlite(row) => row.get(column),
            Self::Postgres(row) => row.text(column),
        }
    }

    pub(crate) fn bytes(&self, column: &str) -> Result<Option<&[u8]>, Error> {
        match self {
            Self::Sqlite(row) => row.get(column),
            Self::Postgres(row) => row.bytes(column),
        }
    }
}
