//! The parts of an insertion, from which both databases build statements for many rows.

/// The parts of the text of an insertion of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Insertion<'t> {
    /// The text before the keyword VALUES, without the blank.
    pub(crate) into: &'t str,
    /// The values of the row, without the parentheses around them.
    pub(crate) values: &'t str,
    /// The text after the row, such as ` ON CONFLICT DO NOTHING`.
    pub(crate) rest: &'t str,
}

impl<'t> Insertion<'t> {
    /// The parts of a statement. Returns `None` for a statement of another form. Texts of the
    /// program have no parentheses within quotes.
    pub(crate) fn of(sql: &'t str) -> Option<Self> {
        let (into, row) = sql.split_once(" VALUES (").filter(|_| sql.starts_with("INSERT "))?;
        // Values may call functions, so the first closing parenthesis need not end the row.
        let mut open = 1;
        let end = row.bytes().position(|byte| {
            open += i32::from(byte == b'(') - i32::from(byte == b')');
            open == 0
        })?;
        Some(Self { into, values: &row[..end], rest: &row[end + 1..] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_ends_with_its_own_parenthesis() {
        for (sql, values, rest) in [
            ("INSERT INTO t (a, b) VALUES ($1, 2)", "$1, 2", ""),
            ("INSERT INTO t (a) VALUES (now())", "now()", ""),
            (
                "INSERT INTO t (a, b) VALUES (f(g($1), h()), $2) ON CONFLICT (a) DO NOTHING",
                "f(g($1), h()), $2",
                " ON CONFLICT (a) DO NOTHING",
            ),
        ] {
            let insertion = Insertion::of(sql).expect(sql);
            assert_eq!((insertion.values, insertion.rest), (values, rest), "{sql}");
            assert!(sql.starts_with(insertion.into));
        }
        for sql in ["INSERT INTO t SELECT 1", "INSERT INTO t VALUES (f($1)", "UPDATE t SET a = ' VALUES (1)'", ""] {
            assert_eq!(Insertion::of(sql), None, "{sql}");
        }
    }
}
