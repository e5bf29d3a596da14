//! Turns a batch into scripts: texts of several statements, each sent as one message.

use std::{fmt::Write as _, vec};

use crate::{Batch, Value, batch::Statement};

/// A text of several statements, and their values.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) text: String,
    pub(super) values: Vec<Value>,
    /// Whether the statements stay prepared for the next time.
    pub(super) prepared: bool,
}

/// Maximum number of statements of a script that stays prepared. A lightly loaded service sends
/// scripts of this size; longer scripts seldom repeat.
const PREPARED_MAX: usize = 8;

/// Maximum number of statements in one script. SQLite copies the rest of a script for each of its
/// statements.
const SCRIPT_MAX: usize = 64;

/// The scripts of one transaction, preceded by a setting of the connection.
pub(super) fn scripts(setting: Option<&str>, batch: Batch) -> Vec<Script> {
    let mut values = batch.values.into_iter();
    let prepared = batch.statements.len() <= PREPARED_MAX;
    let chunks = batch.statements.chunks(SCRIPT_MAX);
    let last = chunks.len().saturating_sub(1);
    let script = |(index, statements): (usize, &[Statement])| {
        let mut script = Script { prepared, ..Script::default() };
        if index == 0 {
            script.text.extend(setting.into_iter().flat_map(|setting| [setting, ";\n"]));
            script.text.push_str("BEGIN IMMEDIATE;\n");
        }
        statements.iter().for_each(|statement| script.push(statement, &mut values));
        if index == last {
            script.text.push_str("COMMIT");
        }
        script
    };
    let scripts = chunks.enumerate().map(script).collect();
    debug_assert_eq!(values.len(), 0, "more values are bound than the statements have");
    scripts
}

impl Script {
    fn push(&mut self, statement: &Statement, values: &mut vec::IntoIter<Value>) {
        let before = self.values.len();
        let count = match statement {
            Statement::Text(sql) => self.push_text(sql, before),
            Statement::Rows { table, columns, count } => self.push_rows(table, columns, *count, before),
        };
        self.values.extend(values.take(count));
        debug_assert_eq!(self.values.len(), before + count, "a value of {statement:?} is missing");
    }

    /// Adds SQL text, with its values renumbered to follow `before` others. Returns how many values
    /// the text has.
    fn push_text(&mut self, sql: &str, before: usize) -> usize {
        let mut pieces = sql.split('$');
        self.text.push_str(pieces.next().unwrap_or_default());
        let mut count = 0;
        for piece in pieces {
            let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
            let (number, rest) = piece.split_at(digits);
            let number: usize = number.parse().expect("a value is named by its number");
            write!(self.text, "${}{rest}", before + number).expect(STRING_WRITE);
            count = count.max(number);
        }
        self.text.push_str(";\n");
        count
    }

    fn push_rows(&mut self, table: &str, columns: &[&str], rows: usize, before: usize) -> usize {
        let mut next = before;
        write!(self.text, "INSERT INTO {table} ({}) VALUES", columns.join(", ")).expect(STRING_WRITE);
        for row in 0..rows {
            self.text.push_str(if row == 0 { " (" } else { ", (" });
            for column in 0..columns.len() {
                next += 1;
                write!(self.text, "{}${next}", if column == 0 { "" } else { ", " }).expect(STRING_WRITE);
            }
            self.text.push(')');
        }
        self.text.push_str(" ON CONFLICT DO NOTHING;\n");
        next - before
    }
}

const STRING_WRITE: &str = "writing to a string cannot fail";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbered_on_through_a_script() {
        let mut batch = Batch::default();
        batch.push("UPDATE t SET a = $2, b = $1 WHERE c = $2").bind(1).bind("x");
        batch.push_rows("t", &["a", "b"], 2).bind(2).bind(3).bind(4).bind(5);
        batch.push("DELETE FROM t WHERE a = $1").bind(6);
        let scripts = scripts(Some("PRAGMA p"), batch);
        let [script] = &scripts[..] else { panic!("{scripts:?}") };
        assert_eq!(
            script.text,
            "PRAGMA p;\nBEGIN IMMEDIATE;\nUPDATE t SET a = $2, b = $1 WHERE c = $2;\n\
             INSERT INTO t (a, b) VALUES ($3, $4), ($5, $6) ON CONFLICT DO NOTHING;\n\
             DELETE FROM t WHERE a = $7;\nCOMMIT"
        );
        assert_eq!(script.values.len(), 7);
        assert!(script.prepared);
    }

    #[test]
    fn a_long_batch_is_one_transaction_of_several_scripts() {
        let mut batch = Batch::default();
        (0..SCRIPT_MAX as i64 + 1).for_each(|index| _ = batch.push("DELETE FROM t WHERE a = $1").bind(index));
        let scripts = scripts(None, batch);
        let [first, second] = &scripts[..] else { panic!("{scripts:?}") };
        assert!(first.text.starts_with("BEGIN IMMEDIATE;\n") && !first.text.contains("COMMIT"));
        assert_eq!(second.text, "DELETE FROM t WHERE a = $1;\nCOMMIT");
        assert_eq!((first.values.len(), &second.values[..]), (SCRIPT_MAX, &[Value::Int(SCRIPT_MAX as i64)][..]));
        assert!(!first.prepared && !second.prepared);
    }
}
