//! Turns a batch into scripts: texts of several statements, each sent as one message.

use std::vec;

use crate::{Batch, Value, batch::Statement, insertion::Insertion};

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

/// Maximum number of rows that one statement inserts. At this size, parsing the statement takes
/// less time than running it.
const ROWS_MAX: usize = 64;

/// The scripts of one transaction, preceded by a setting of the connection.
pub(super) fn scripts(setting: Option<&str>, batch: Batch) -> Vec<Script> {
    let mut values = batch.values.into_iter();
    let statements: Vec<Statement> = batch.statements.into_iter().flat_map(parts).collect();
    let prepared = statements.len() <= PREPARED_MAX;
    let chunks = statements.chunks(SCRIPT_MAX);
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

/// Splits a statement: an insertion into parts of several rows, and other statements into rows.
fn parts(statement: Statement) -> impl Iterator<Item = Statement> {
    let rows_max = if Insertion::of(statement.sql).is_some() { ROWS_MAX } else { 1 };
    let starts = (0..statement.rows).step_by(rows_max);
    starts.map(move |start| Statement { rows: rows_max.min(statement.rows - start), ..statement })
}

impl Script {
    fn push(&mut self, statement: &Statement, values: &mut vec::IntoIter<Value>) {
        match Insertion::of(statement.sql).filter(|_| statement.rows > 1) {
            None => self.push_row(statement.sql, values),
            Some(Insertion { into, values: row, rest }) => {
                self.text.push_str(into);
                for index in 0..statement.rows {
                    self.text.push_str(if index == 0 { " VALUES (" } else { ", (" });
                    self.push_row(row, values);
                    self.text.push(')');
                }
                self.text.push_str(rest);
            }
        }
        self.text.push_str(";\n");
    }

    /// Adds SQL text and its row of values. The text gets placeholders without numbers, because
    /// SQLite would look up each number in a list of all numbers of the script.
    fn push_row(&mut self, sql: &str, values: &mut vec::IntoIter<Value>) {
        let mut pieces = sql.split('$');
        self.text.push_str(pieces.next().unwrap_or_default());
        let mut numbers = Vec::new();
        for piece in pieces {
            let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
            let (number, rest) = piece.split_at(digits);
            numbers.push(number.parse::<usize>().expect("a value is named by its number"));
            self.text.push('?');
            self.text.push_str(rest);
        }
        let count = numbers.iter().copied().max().unwrap_or_default();
        let row: Vec<Value> = values.take(count).collect();
        debug_assert_eq!(row.len(), count, "a value of {sql} is missing");
        if numbers.iter().copied().eq(1..=count) {
            self.values.extend(row);
        } else {
            self.values.extend(numbers.iter().map(|number| row[number - 1].clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_a_script_follow_its_placeholders() {
        let mut batch = Batch::default();
        batch.push("UPDATE t SET a = $2, b = $1 WHERE c = $2").bind(1).bind("x");
        let mut rows = batch.each("INSERT INTO t (a, b, c) VALUES ($1, $2, 0) ON CONFLICT DO NOTHING");
        rows.row().bind(2).bind(3);
        rows.row().bind(4).bind(5);
        drop(rows);
        drop(batch.each("DELETE FROM t WHERE a = $1 AND b = 0"));
        let mut rows = batch.each("DELETE FROM t WHERE a = $1");
        rows.row().bind(6);
        rows.row().bind(7);
        drop(rows);
        let scripts = scripts(Some("PRAGMA p"), batch);
        let [script] = &scripts[..] else { panic!("{scripts:?}") };
        assert_eq!(
            script.text,
            "PRAGMA p;\nBEGIN IMMEDIATE;\nUPDATE t SET a = ?, b = ? WHERE c = ?;\n\
             INSERT INTO t (a, b, c) VALUES (?, ?, 0), (?, ?, 0) ON CONFLICT DO NOTHING;\n\
             DELETE FROM t WHERE a = ?;\nDELETE FROM t WHERE a = ?;\nCOMMIT"
        );
        let rest = (2..=7).map(Value::Int);
        let values: Vec<Value> = ["x".into(), 1.into(), "x".into()].into_iter().chain(rest).collect();
        assert_eq!(script.values, values);
        assert!(script.prepared);
    }

    #[test]
    fn a_long_batch_is_one_transaction_of_several_scripts() {
        let mut batch = Batch::default();
        let mut rows = batch.each("DELETE FROM t WHERE a = $1");
        (0..SCRIPT_MAX as i64 + 1).for_each(|index| _ = rows.row().bind(index));
        drop(rows);
        let scripts = scripts(None, batch);
        let [first, second] = &scripts[..] else { panic!("{scripts:?}") };
        assert!(first.text.starts_with("BEGIN IMMEDIATE;\n") && !first.text.contains("COMMIT"));
        assert_eq!(second.text, "DELETE FROM t WHERE a = ?;\nCOMMIT");
        assert_eq!((first.values.len(), &second.values[..]), (SCRIPT_MAX, &[Value::Int(SCRIPT_MAX as i64)][..]));
        assert!(!first.prepared && !second.prepared);
    }

    #[test]
    fn many_rows_are_inserted_by_statements_of_limited_size() {
        let mut batch = Batch::default();
        let mut rows = batch.each("INSERT INTO t (a) VALUES ($1)");
        (0..ROWS_MAX as i64 + 1).for_each(|index| _ = rows.row().bind(index));
        drop(rows);
        let scripts = scripts(None, batch);
        let [script] = &scripts[..] else { panic!("{scripts:?}") };
        assert_eq!(script.text.matches("INSERT INTO t (a) VALUES (?").count(), 2);
        assert!(script.text.ends_with("INSERT INTO t (a) VALUES (?);\nCOMMIT"), "{}", script.text);
        assert_eq!(script.values.len(), ROWS_MAX + 1);
    }
}
