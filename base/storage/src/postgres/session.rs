//! One connection of the driver.
//!
//! The driver sends a statement as soon as it is polled, and matches the answers to the statements
//! by their order. A batch is therefore sent as a whole before its first answer is awaited, and
//! costs one round trip.

use std::{
    collections::HashMap,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use futures_util::{
    TryStreamExt as _,
    future::{MaybeDone, maybe_done},
};
use rustls::ClientConfig;
use tokio::{task::AbortHandle, time::timeout};
use tokio_postgres::{Client, NoTls, Statement, types::ToSql};
use tokio_postgres_rustls::MakeRustlsConnect;

pub(crate) use super::values::Row;
use super::{error, locks, sets, values::Bound};
use crate::{Batch, Error, Rows, Survival, Value, asker::ANSWER_TIMEOUT, batch, terms::Terms};

/// A connection to a database.
pub(crate) struct Session {
    client: Client,
    /// The task that runs the connection.
    running: AbortHandle,
    /// Trust for requests to end a statement, which use connections of their own.
    tls: Option<Arc<ClientConfig>>,
    /// Statements for one row, by their texts.
    one: HashMap<&'static str, Statement>,
    /// Statements for many rows, by the texts for one row.
    many: HashMap<&'static str, Statement>,
    /// Longest wait for an answer.
    limit: Duration,
    /// Whether a statement was sent whose end is not known.
    busy: bool,
    /// Whether the server left a statement without an answer, or said that it ends the connection.
    lost: bool,
}

/// A statement of a batch, and its parameters.
struct Step<'v> {
    statement: Statement,
    parameters: Vec<Box<dyn ToSql + Send + Sync + 'v>>,
}

impl Step<'_> {
    async fn run(self, client: &Client) -> Result<u64, tokio_postgres::Error> {
        client.execute_raw(&self.statement, self.parameters).await
    }
}

impl Session {
    /// Begins the use of a new connection.
    pub(super) async fn begun(
        client: Client,
        running: AbortHandle,
        tls: Option<Arc<ClientConfig>>,
    ) -> Result<Self, Error> {
        let (one, many) = (HashMap::new(), HashMap::new());
        let mut session = Self { client, running, tls, one, many, limit: ANSWER_TIMEOUT, busy: false, lost: false };
        let row = session.first(CHECK, Vec::new()).await?;
        let row = row.ok_or_else(|| Error::Failed("the server did not answer".to_owned()))?;
        if row.text("encoding")? != Some("UTF8") {
            let remedy = "create the database that database.url names with ENCODING 'UTF8'";
            return Err(Error::Failed(format!("the database has another encoding than UTF8: {remedy}")));
        }
        if row.text("read_only")? == Some("on") {
            let remedy = "database.url must name the primary";
            return Err(Error::Failed(format!("the server is a standby, or permits only reads: {remedy}")));
        }
        Ok(session)
    }

    /// Sets the longest wait for an answer, from now on.
    pub(crate) fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// Whether the connection still works on a statement that a caller broke off.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Whether no statement can succeed any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.lost || self.client.is_closed()
    }

    /// Asks the server to end a statement that a caller broke off. Returns false: the request may
    /// reach the server late, and would then end the next statement of this connection.
    pub(crate) async fn catch_up(&mut self) -> bool {
        let token = self.client.cancel_token();
        let asked = async {
            match &self.tls {
                Some(tls) => token.cancel_query(MakeRustlsConnect::new((**tls).clone())).await,
                None => token.cancel_query(NoTls).await,
            }
        };
        // If this fails, the server ends the statement when it finds that the client is gone.
        let _ = answer(self.limit, asked).await;
        false
    }

    /// Runs a statement, and returns the number of changed rows.
    pub(crate) async fn execute(&mut self, sql: &'static str, values: Vec<Value>) -> Result<u64, Error> {
        let statement = self.one(sql).await?;
        self.busy = true;
        let done = answer(self.limit_for(&values), self.client.execute_raw(&statement, bound(&values))).await;
        self.ended(done)
    }

    /// The first row that a query finds.
    pub(crate) async fn first(&mut self, sql: &'static str, values: Vec<Value>) -> Result<Option<Row>, Error> {
        let statement = self.one(sql).await?;
        self.busy = true;
        let finding = async {
            let mut rows = Box::pin(self.client.query_raw(&statement, bound(&values)).await?);
            let first = rows.try_next().await?;
            // The connection is free again once all rows have come. A request for a row after the
            // last one would fail.
            while first.is_some() && rows.try_next().await?.is_some() {}
            Ok(first)
        };
        let found = answer(self.limit, finding).await;
        self.ended(found).map(|row| row.map(Row))
    }

    /// All rows that a query finds.
    pub(crate) async fn all(&mut self, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, Error> {
        let statement = self.one(sql).await?;
        self.rows(&statement, &values).await
    }

    /// The rows of a statement that is not kept prepared.
    pub(super) async fn rows_of(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, Error> {
        let statement = self.prepare(sql).await?;
        self.rows(&statement, &values).await
    }

    /// Runs statements without values.
    pub(crate) async fn script(&mut self, trusted: &str) -> Result<(), Error> {
        self.text(trusted).await
    }

    /// Begins a transaction.
    pub(crate) async fn begin(&mut self, terms: Terms<'_>) -> Result<(), Error> {
        self.text(&beginning(terms)).await
    }

    pub(crate) async fn commit(&mut self) -> Result<(), Error> {
        self.text("COMMIT").await
    }

    /// Ends the transaction without its changes.
    pub(crate) async fn roll_back(&mut self) {
        // A lost connection is replaced, and so is one where this fails. A statement on a lost
        // connection would only wait for an answer that does not come.
        if !self.is_broken() {
            let _ = self.text("ROLLBACK").await;
        }
    }

    /// Waits until every transaction of the shard has ended that another connection began before.
    /// Its commit may be on its way although the connection is lost.
    pub(crate) async fn wait_for_others(&mut self, shard: i32) -> Result<(), Error> {
        self.begin(Terms { survival: Survival::Crash, rows: Rows::All, shard, guard: None }).await?;
        self.commit().await
    }

    /// Commits a batch. After a failure, the caller rolls back.
    pub(crate) async fn apply(&mut self, terms: Terms<'_>, batch: Batch) -> Result<(), Error> {
        let steps = self.steps(&batch).await?;
        let begin = beginning(terms);
        self.busy = true;
        let client = &self.client;
        let limit = self.limit_for(&batch.values);
        let applying = async {
            let mut begun = Box::pin(maybe_done(client.batch_execute(&begin)));
            let mut ran: Vec<_> = steps.into_iter().map(|step| Box::pin(maybe_done(step.run(client)))).collect();
            let mut committed = Box::pin(maybe_done(client.batch_execute("COMMIT")));
            send(begun.as_mut()).await;
            for step in &mut ran {
                send(step.as_mut()).await;
            }
            send(committed.as_mut()).await;
            ended(limit, begun.as_mut()).await?;
            for step in &mut ran {
                ended(limit, step.as_mut()).await?;
            }
            ended(limit, committed.as_mut()).await
        };
        let applied = applying.await;
        self.ended(applied)
    }

    pub(crate) async fn close(self) {
        // The driver ends the connection once nobody can use it.
        drop(self);
    }

    /// The statements of a batch, prepared.
    async fn steps<'v>(&mut self, batch: &'v Batch) -> Result<Vec<Step<'v>>, Error> {
        let mut values = &batch.values[..];
        let mut steps = Vec::with_capacity(batch.statements.len());
        for batch::Statement { sql, rows } in &batch.statements {
            let one = self.one(sql).await?;
            let width = one.params().len();
            let many = if *rows > 1 { self.many(sql, &one).await? } else { None };
            let (own, rest) = values.split_at_checked(rows * width).ok_or_else(missing)?;
            values = rest;
            match many {
                Some(statement) => {
                    let column =
                        |place| -> Vec<Bound<'v>> { own.iter().skip(place).step_by(width).map(Bound).collect() };
                    let parameters = (0..width).map(|place| Box::new(column(place)) as _).collect();
                    steps.push(Step { statement, parameters });
                }
                None => steps.extend((0..*rows).map(|row| Step {
                    statement: one.clone(),
                    parameters: own[row * width..][..width].iter().map(|value| Box::new(Bound(value)) as _).collect(),
                })),
            }
        }
        Ok(steps)
    }

    /// The prepared statement of a text. Texts are the program's own, so their number is limited.
    async fn one(&mut self, sql: &'static str) -> Result<Statement, Error> {
        if let Some(statement) = self.one.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.prepare(sql).await?;
        self.one.insert(sql, statement.clone());
        Ok(statement)
    }

    /// The prepared statement of a text for many rows, or `None` if there is no such statement.
    async fn many(&mut self, sql: &'static str, one: &Statement) -> Result<Option<Statement>, Error> {
        if let Some(statement) = self.many.get(sql) {
            return Ok(Some(statement.clone()));
        }
        let Some(text) = sets::of(sql, one.params()) else { return Ok(None) };
        let statement = self.prepare(&text).await?;
        self.many.insert(sql, statement.clone());
        Ok(Some(statement))
    }

    async fn rows(&mut self, statement: &Statement, values: &[Value]) -> Result<Vec<Row>, Error> {
        self.busy = true;
        let rows = answer(self.limit_for(values), self.client.query_raw(statement, bound(values))).await;
        let mut rows = match rows {
            Ok(rows) => Box::pin(rows),
            Err(failure) => return self.ended(Err(failure)),
        };
        let mut found = Vec::new();
        // The limit holds for each row, because many rows may take long although the server
        // answers.
        loop {
            match answer(self.limit, rows.try_next()).await {
                Ok(Some(row)) => found.push(Row(row)),
                ended => return self.ended(ended.map(|_| found)),
            }
        }
    }

    /// Longest wait for the answer to these values. Large values take their time on the way.
    fn limit_for(&self, values: &[Value]) -> Duration {
        let bytes: usize = values
            .iter()
            .map(|value| match value {
                Value::Null | Value::Int(_) => 0,
                Value::Text(text) => text.len(),
                Value::Bytes(bytes) => bytes.len(),
            })
            .sum();
        self.limit + Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND_LEAST)
    }

    async fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        self.busy = true;
        let prepared = answer(self.limit, self.client.prepare(sql)).await;
        self.ended(prepared)
    }

    async fn text(&mut self, trusted: &str) -> Result<(), Error> {
        self.busy = true;
        let done = answer(self.limit, self.client.batch_execute(trusted)).await;
        self.ended(done)
    }

    /// Notes that a statement has ended, or never will.
    fn ended<T>(&mut self, result: Result<T, Failure>) -> Result<T, Error> {
        self.busy = false;
        self.kept(result)
    }

    fn kept<T>(&mut self, result: Result<T, Failure>) -> Result<T, Error> {
        result.map_err(|failure| match failure {
            Failure::Silent => {
                self.lost = true;
                Error::Failed("the server did not answer in time".to_owned())
            }
            Failure::Driver(cause) => {
                self.lost |= error::is_fatal(&cause) || error::is_outdated(&cause);
                error::of(cause)
            }
        })
    }
}

/// The driver keeps a connection until the answers to all statements have come. The server would
/// therefore go on with a statement that nobody waits for, and keep its locks. The server ends the
/// statement soon after it finds the connection closed (`client_connection_check_interval`).
impl Drop for Session {
    fn drop(&mut self) {
        if self.busy || self.lost {
            self.running.abort();
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Session").field("busy", &self.busy).field("broken", &self.is_broken()).finish_non_exhaustive()
    }
}

/// Why a statement failed.
enum Failure {
    /// The answer did not come in time.
    Silent,
    Driver(tokio_postgres::Error),
}

async fn answer<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Failure> {
    timeout(limit, call).await.map_err(|_| Failure::Silent)?.map_err(Failure::Driver)
}

fn bound(values: &[Value]) -> impl ExactSizeIterator<Item = Bound<'_>> {
    values.iter().map(Bound)
}

/// Sends a call, which its first poll does.
async fn send<F: Future>(mut call: Pin<&mut MaybeDone<F>>) {
    let first = poll_fn(|context| {
        let _ = call.as_mut().poll(context);
        Poll::Ready(())
    });
    first.await;
}

/// Waits for the end of a call that was sent.
async fn ended<T, F: Future<Output = Result<T, tokio_postgres::Error>>>(
    limit: Duration,
    mut call: Pin<&mut MaybeDone<F>>,
) -> Result<(), Failure> {
    timeout(limit, call.as_mut()).await.map_err(|_| Failure::Silent)?;
    call.take_output().map_or(Ok(()), |result| result.map(drop)).map_err(Failure::Driver)
}

/// The statements that begin a transaction. A commit waits for the disks that the server is set up
/// to wait for, or for none.
fn beginning(Terms { survival, rows, shard, guard }: Terms<'_>) -> String {
    let setting = match survival {
        Survival::Crash => "SET LOCAL synchronous_commit = off",
        Survival::PowerFailure => "",
    };
    // The guard sees what was committed before the locks were free.
    format!("BEGIN; {setting}; {}; {}", locks::statements(rows, shard), guard.unwrap_or_default())
}

fn missing() -> Error {
    Error::Failed("a statement of a batch has too few values".to_owned())
}

/// Lowest rate at which a server that works takes values.
const BYTES_PER_SECOND_LEAST: f64 = (8 << 20) as f64;

/// Reads what a connection must have. A server may be set up to wait for no disk, which the
/// promises of this project do not permit.
const CHECK: &str = "SELECT current_setting('server_encoding') AS encoding, \
     current_setting('transaction_read_only') AS read_only, set_config('synchronous_commit', \
     CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, \
     false) AS synchronous_commit";
