//! Batches: several statements sent to the database as one message.

use crate::Value;

/// Statements that run in one transaction, without access to each other's results.
///
/// The adapter sends the statements together, because each message to a database costs more than a
/// small statement. A message costs two thread switches for SQLite, and a round trip for a server.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) statements: Vec<Statement>,
    /// The values of all statements, row by row.
    pub(crate) values: Vec<Value>,
}

/// A statement of a batch. Its values follow those of the statement before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statement {
    /// SQL text for one row of values, which are `$1`, `$2` and so on.
    pub(crate) sql: &'static str,
    /// Number of rows of values.
    pub(crate) rows: usize,
}

/// Binds the values of one row, in order.
#[derive(Debug)]
pub struct Values<'b>(&'b mut Vec<Value>);

/// Adds rows of values to a statement.
#[derive(Debug)]
pub struct Each<'b> {
    batch: &'b mut Batch,
    statement: Statement,
}

impl Batch {
    /// Adds a statement. Its placeholders are `$1`, `$2` and so on.
    pub fn push(&mut self, sql: &'static str) -> Values<'_> {
        self.statements.push(Statement { sql, rows: 1 });
        Values(&mut self.values)
    }

    /// Adds a statement that runs once for each row of values: `INSERT INTO … VALUES (…)`, `UPDATE`
    /// or `DELETE`. No two rows of values may concern the same row of the table, because a database
    /// may run the statement for all of them at once. For the same reason, `DO UPDATE` names new
    /// values as `excluded`.
    pub fn each(&mut self, sql: &'static str) -> Each<'_> {
        Each { batch: self, statement: Statement { sql, rows: 0 } }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }
}

impl Each<'_> {
    /// Begins the next row of values.
    pub fn row(&mut self) -> Values<'_> {
        self.statement.rows += 1;
        Values(&mut self.batch.values)
    }
}

impl Drop for Each<'_> {
    fn drop(&mut self) {
        if self.statement.rows > 0 {
            self.batch.statements.push(self.statement);
        }
    }
}

impl Values<'_> {
    /// Binds the next value.
    pub fn bind(self, value: impl Into<Value>) -> Self {
        self.0.push(value.into());
        self
    }
}
