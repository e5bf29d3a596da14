//! A connection to the database, and the queries on it.

use crate::{Error, Row, Value, session::Session};

/// A connection. Readers and transactions give access to one.
#[derive(Debug)]
pub struct Connection(Session);

/// A statement with the values that are bound so far.
#[derive(Debug)]
#[must_use = "a query runs only when it is executed"]
pub struct Query<'c> {
    session: &'c mut Session,
    sql: &'static str,
    values: Vec<Value>,
}

impl Connection {
    pub(crate) fn new(session: Session) -> Self {
        Self(session)
    }

    pub(crate) fn session(&mut self) -> &mut Session {
        &mut self.0
    }

    pub(crate) fn into_session(self) -> Session {
        self.0
    }

    /// A statement whose values are `$1`, `$2` and so on.
    pub fn query(&mut self, sql: &'static str) -> Query<'_> {
        Query { session: &mut self.0, sql, values: Vec::new() }
    }

    /// Runs statements without values. The text must be the program's own: nothing in it is
    /// escaped.
    pub async fn script(&mut self, trusted: String) -> Result<(), Error> {
        self.0.script(trusted).await
    }
}

impl Query<'_> {
    /// Binds the next value.
    pub fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Runs the statement, and returns the number of rows that it changed.
    pub async fn execute(self) -> Result<u64, Error> {
        self.session.execute(self.sql, self.values).await
    }

    /// The first row.
    pub async fn one(self) -> Result<Row, Error> {
        let row = self.optional().await?;
        row.ok_or_else(|| Error::Failed("a query that finds a row found none".to_owned()))
    }

    /// The first row, if there is one.
    pub async fn optional(self) -> Result<Option<Row>, Error> {
        Ok(self.session.first(self.sql, self.values).await?.map(Row::new))
    }

    /// All rows.
    pub async fn all(self) -> Result<Vec<Row>, Error> {
        let rows = self.session.all(self.sql, self.values).await?;
        Ok(rows.into_iter().map(Row::new).collect())
    }
}
