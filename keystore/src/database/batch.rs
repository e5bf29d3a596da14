//! Batches: several statements sent to the database as one message.

use std::fmt::Write as _;

use sqlx::{
    Arguments as _, AssertSqlSafe, Encode, Sqlite, SqliteConnection, Type, error::BoxDynError, sqlite::SqliteArguments,
};

/// Statements that run in one transaction, without access to each other's results.
///
/// The database driver runs on its own thread, and each message to it takes two thread switches. On
/// an idle machine the switches cost more than the statement. SQLite takes the statements as one
/// script; another database would receive them one by one.
#[derive(Debug, Default)]
pub struct Batch {
    scripts: Vec<Script>,
    failed: Option<BoxDynError>,
}

#[derive(Debug, Default)]
struct Script {
    text: String,
    values: SqliteArguments,
    statements: usize,
}

/// Binds the values of a statement, in order.
#[derive(Debug)]
pub struct Values<'b> {
    script: &'b mut Script,
    failed: &'b mut Option<BoxDynError>,
}

/// Maximum number of statements of a script that stays prepared. A lightly loaded service sends
/// scripts of this size; longer scripts seldom repeat.
const PREPARED_MAX: usize = 8;

/// Maximum number of statements in one script. SQLite copies the rest of a script for each of its
/// statements.
const SCRIPT_MAX: usize = 64;

const STRING_WRITE: &str = "writing to a string cannot fail";

impl Batch {
    /// Adds a statement. Its placeholders are `$1`, `$2` and so on.
    pub fn push(&mut self, sql: &'static str) -> Values<'_> {
        let script = with_room(&mut self.scripts);
        let before = script.values.len();
        let mut pieces = sql.split('$');
        script.text.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
            let (number, rest) = piece.split_at(digits);
            let number: usize = number.parse().expect("a value is named by its number");
            write!(script.text, "${}{rest}", before + number).expect(STRING_WRITE);
        }
        script.text.push_str(";\n");
        script.statements += 1;
        Values { script, failed: &mut self.failed }
    }

    /// Adds an `INSERT INTO` of a number of rows into columns of a table. The values follow, row by
    /// row. A row that already exists stays unchanged.
    pub fn push_rows(&mut self, table: &'static str, columns: &[&'static str], rows: usize) -> Values<'_> {
        let script = with_room(&mut self.scripts);
        let mut next = script.values.len();
        write!(script.text, "INSERT INTO {table} ({}) VALUES", columns.join(", ")).expect(STRING_WRITE);
        for row in 0..rows {
            script.text.push_str(if row == 0 { " (" } else { ", (" });
            for column in 0..columns.len() {
                next += 1;
                write!(script.text, "{}${next}", if column == 0 { "" } else { ", " }).expect(STRING_WRITE);
            }
            script.text.push(')');
        }
        script.text.push_str(" ON CONFLICT DO NOTHING;\n");
        script.statements += 1;
        Values { script, failed: &mut self.failed }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.scripts.is_empty()
    }

    /// Executes the batch, preceded by a setting of the connection.
    pub(super) async fn execute(
        self,
        setting: Option<&str>,
        connection: &mut SqliteConnection,
    ) -> Result<(), sqlx::Error> {
        if let Some(error) = self.failed {
            return Err(sqlx::Error::Encode(error));
        }
        let last = self.scripts.len().saturating_sub(1);
        for (index, Script { text, values, statements }) in self.scripts.into_iter().enumerate() {
            let begin = if index == 0 { "BEGIN IMMEDIATE;\n" } else { "" };
            let setting = setting.filter(|_| index == 0).map(|setting| format!("{setting};\n")).unwrap_or_default();
            let end = if index == last { "COMMIT" } else { "" };
            // Safe: the whole script is text of this program, and values are bound separately.
            let script = AssertSqlSafe(format!("{setting}{begin}{text}{end}"));
            let query = sqlx::query_with(script, values).persistent(last == 0 && statements <= PREPARED_MAX);
            query.execute(&mut *connection).await?;
        }
        Ok(())
    }
}

/// Returns a script with room for another statement.
fn with_room(scripts: &mut Vec<Script>) -> &mut Script {
    if scripts.last().is_none_or(|script| script.statements >= SCRIPT_MAX) {
        scripts.push(Script::default());
    }
    scripts.last_mut().expect("one with room")
}

impl Values<'_> {
    /// Binds the next value.
    pub fn bind<'v>(self, value: impl Encode<'v, Sqlite> + Type<Sqlite>) -> Self {
        if let Err(error) = self.script.values.add(value) {
            self.failed.get_or_insert(error);
        }
        self
    }
}
