//! Several statements as one message to the database.

use std::fmt::Write as _;

use sqlx::{
    Arguments as _, AssertSqlSafe, Encode, Sqlite, SqliteConnection, Type, error::BoxDynError, sqlite::SqliteArguments,
};

/// Statements that are carried out in one transaction, without looking at each other's results.
///
/// The database works on a thread of its own, and each question to it takes two changes of threads: on an idle machine
/// they cost more than the statement. SQLite takes them as one script; another database would be sent them one by one.
#[derive(Debug, Default)]
pub struct Batch {
    script: String,
    values: SqliteArguments,
    statements: usize,
    failed: Option<BoxDynError>,
}

/// Takes the values of a statement, in order.
#[derive(Debug)]
pub struct Values<'b> {
    batch: &'b mut Batch,
}

/// Scripts of up to this many statements are kept ready: those of a service that is not busy. Longer ones are seldom
/// the same twice.
const PREPARED_MAX: usize = 8;

impl Batch {
    /// Adds a statement. Its values are `$1`, `$2` and so on.
    pub fn push(&mut self, sql: &'static str) -> Values<'_> {
        let before = self.values.len();
        let mut pieces = sql.split('$');
        self.script.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
            let (number, rest) = piece.split_at(digits);
            let number: usize = number.parse().expect("a value is named by its number");
            write!(self.script, "${}{rest}", before + number).expect("strings take everything");
        }
        self.script.push_str(";\n");
        self.statements += 1;
        Values { batch: self }
    }

    /// Carries it out, behind a setting of the connection.
    pub(super) async fn execute(
        self,
        setting: Option<&str>,
        connection: &mut SqliteConnection,
    ) -> Result<(), sqlx::Error> {
        if let Some(error) = self.failed {
            return Err(sqlx::Error::Encode(error));
        }
        let setting = setting.map(|setting| format!("{setting};\n")).unwrap_or_default();
        // Safe: all of it is text of this program, and values go beside it.
        let script = AssertSqlSafe(format!("{setting}BEGIN IMMEDIATE;\n{}COMMIT", self.script));
        let query = sqlx::query_with(script, self.values).persistent(self.statements <= PREPARED_MAX);
        query.execute(connection).await?;
        Ok(())
    }
}

impl Values<'_> {
    /// The next value.
    pub fn bind<'v>(self, value: impl Encode<'v, Sqlite> + Type<Sqlite>) -> Self {
        if let Err(error) = self.batch.values.add(value) {
            self.batch.failed.get_or_insert(error);
        }
        self
    }
}
