//! One connection of the driver. The driver runs SQLite on a thread for each connection.

use sqlx::{
    Arguments as _, AssertSqlSafe, Connection as _, Decode, Row as _, Sqlite, SqliteConnection, Type,
    sqlite::{SqliteArguments, SqliteRow},
};

use super::{error, script};
use crate::{Batch, Error, Survival, Value};

/// A connection to a file.
#[derive(Debug)]
pub(crate) struct Session {
    connection: SqliteConnection,
    /// Durability of commits under the current setting; `None` before the first commit and after a
    /// failure.
    survival: Option<Survival>,
    /// Whether a statement was sent whose end is not known.
    busy: bool,
}

/// A row that a query found.
#[derive(Debug)]
pub(crate) struct Row(SqliteRow);

impl Session {
    pub(super) fn new(connection: SqliteConnection) -> Self {
        Self { connection, survival: None, busy: false }
    }

    pub(super) fn driver(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    /// Whether the connection still works on a statement that a caller broke off.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Waits until the connection has ended a broken-off statement. Returns false if the connection
    /// no longer works.
    pub(crate) async fn catch_up(&mut self) -> bool {
        self.busy = self.connection.ping().await.is_err();
        !self.busy
    }

    /// Runs a statement, and returns the number of changed rows.
    pub(crate) async fn execute(&mut self, sql: &'static str, values: Vec<Value>) -> Result<u64, Error> {
        let values = arguments(values)?;
        self.busy = true;
        let done = sqlx::query_with(sql, values).execute(&mut self.connection).await;
        self.ended(done).map(|done| done.rows_affected())
    }

    /// The first row that a query finds.
    pub(crate) async fn first(&mut self, sql: &'static str, values: Vec<Value>) -> Result<Option<Row>, Error> {
        let values = arguments(values)?;
        self.busy = true;
        let row = sqlx::query_with(sql, values).fetch_optional(&mut self.connection).await;
        self.ended(row).map(|row| row.map(Row))
    }

    /// All rows that a query finds.
    pub(crate) async fn all(&mut self, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, Error> {
        let values = arguments(values)?;
        self.busy = true;
        let rows = sqlx::query_with(sql, values).fetch_all(&mut self.connection).await;
        self.ended(rows).map(|rows| rows.into_iter().map(Row).collect())
    }

    /// Notes that a statement has ended. A connection whose thread is gone stays busy for ever.
    fn ended<T>(&mut self, result: Result<T, sqlx::Error>) -> Result<T, Error> {
        self.busy = matches!(result, Err(sqlx::Error::WorkerCrashed));
        result.map_err(error::of)
    }

    /// Runs statements without values.
    pub(crate) async fn script(&mut self, trusted: String) -> Result<(), Error> {
        let done = sqlx::raw_sql(AssertSqlSafe(trusted)).execute(&mut self.connection).await;
        done.map(drop).map_err(error::of)
    }

    /// Begins a transaction. `IMMEDIATE` takes the lock at the start.
    pub(crate) async fn begin(&mut self, survival: Survival) -> Result<(), Error> {
        if self.survival.take() != Some(survival) {
            self.execute(setting(survival), Vec::new()).await?;
        }
        self.survival = Some(survival);
        self.execute("BEGIN IMMEDIATE", Vec::new()).await.map(drop)
    }

    pub(crate) async fn commit(&mut self) -> Result<(), Error> {
        self.execute("COMMIT", Vec::new()).await.map(drop)
    }

    /// Ends the transaction without its changes.
    pub(crate) async fn roll_back(&mut self) {
        // The rollback fails if SQLite has already rolled back, as it does on a full disk.
        let _ = self.execute("ROLLBACK", Vec::new()).await;
    }

    /// Commits a batch. After a failure, the caller rolls back.
    pub(crate) async fn apply(&mut self, survival: Survival, batch: Batch) -> Result<(), Error> {
        let setting = (self.survival.take() != Some(survival)).then(|| setting(survival));
        for script in script::scripts(setting, batch) {
            let values = arguments(script.values)?;
            // Safe: the whole script is text of this program, and values are bound separately.
            let query = sqlx::query_with(AssertSqlSafe(script.text), values).persistent(script.prepared);
            query.execute(&mut self.connection).await.map_err(error::of)?;
        }
        self.survival = Some(survival);
        Ok(())
    }

    pub(crate) async fn close(self) {
        // A failed close loses nothing: committed data is on the disk.
        let _ = self.connection.close().await;
    }
}

impl Row {
    /// The value of a column, if there is one.
    pub(crate) fn get<'r, T: Decode<'r, Sqlite> + Type<Sqlite>>(&'r self, column: &str) -> Result<Option<T>, Error> {
        // The driver itself would read a missing value as 0 or as empty.
        self.0.try_get(column).map_err(error::of)
    }
}

fn arguments(values: Vec<Value>) -> Result<SqliteArguments, Error> {
    let mut arguments = SqliteArguments::default();
    for value in values {
        let added = match value {
            Value::Null => arguments.add(None::<i64>),
            Value::Int(value) => arguments.add(value),
            Value::Text(value) => arguments.add(value),
            Value::Bytes(value) => arguments.add(value),
        };
        added.map_err(|error| Error::Failed(error.to_string()))?;
    }
    Ok(arguments)
}

/// The setting for a durability. `PRAGMA synchronous` has no effect inside a transaction, and lasts
/// until it is changed.
fn setting(survival: Survival) -> &'static str {
    match survival {
        Survival::Crash => "PRAGMA synchronous = NORMAL",
        Survival::PowerFailure => "PRAGMA synchronous = FULL",
    }
}
