//! Batches: several statements sent to the database as one message.

use crate::Value;

/// Statements that run in one transaction, without access to each other's results.
///
/// The adapter sends the statements together, because each message to a database costs more than a
/// small statement. A message costs two thread switches for SQLite, and a round trip for a server.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) statements: Vec<Statement>,
    pub(crate) values: Vec<Value>,
}

/// A statement of a batch. Its values follow those of the statement before it.
#[derive(Debug)]
pub(crate) enum Statement {
    /// SQL text whose values are `$1`, `$2` and so on.
    Text(&'static str),
    /// New rows of a table.
    Rows { table: &'static str, columns: &'static [&'static str], count: usize },
}

/// Binds the values of a statement, in order.
#[derive(Debug)]
pub struct Values<'b>(&'b mut Vec<Value>);

impl Batch {
    /// Adds a statement. Its placeholders are `$1`, `$2` and so on.
    pub fn push(&mut self, sql: &'static str) -> Values<'_> {
        self.statements.push(Statement::Text(sql));
        Values(&mut self.values)
    }

    /// Adds an `INSERT INTO` of `count` rows into columns of a table. The values follow, row by
    /// row. A row that already exists stays unchanged.
    pub fn push_rows(&mut self, table: &'static str, columns: &'static [&'static str], count: usize) -> Values<'_> {
        self.statements.push(Statement::Rows { table, columns, count });
        Values(&mut self.values)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }
}

impl Values<'_> {
    /// Binds the next value.
    pub fn bind(self, value: impl Into<Value>) -> Self {
        self.0.push(value.into());
        self
    }
}
