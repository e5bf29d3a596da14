//! Turns a statement for one row into a statement for many rows.
//!
//! `UPDATE t SET a = $2 WHERE id = $1` becomes `UPDATE t SET a = v.a2 FROM unnest($1::int8[],
//! $2::text[]) AS v (a1, a2) WHERE id = v.a1`. The server then parses, plans and starts one
//! statement, however many rows it has. Each parameter is an array with a value for each row.

use std::fmt::Write as _;

use tokio_postgres::types::Type;

use crate::insertion::Insertion;

/// The statement for many rows, from a statement for one row and the types of its parameters.
/// Returns `None` for a statement of another form.
pub(super) fn of(sql: &str, types: &[Type]) -> Option<String> {
    let keyword = sql.split_whitespace().next()?;
    let rows = rows(types);
    Some(match keyword {
        "INSERT" => {
            let Insertion { into, values, rest } = Insertion::of(sql)?;
            format!("{into} SELECT {} FROM {rows}{rest}", columns(values))
        }
        "UPDATE" => {
            let (set, condition) = sql.rsplit_once(" WHERE ")?;
            format!("{} FROM {rows} WHERE {}", columns(set), columns(condition))
        }
        "DELETE" => {
            let (from, condition) = sql.split_once(" WHERE ")?;
            format!("{from} USING {rows} WHERE {}", columns(condition))
        }
        _ => return None,
    })
}

/// The rows of the parameters, as a table.
fn rows(types: &[Type]) -> String {
    let (mut arrays, mut names) = (String::new(), String::new());
    for (place, ty) in types.iter().enumerate().map(|(place, ty)| (place + 1, ty)) {
        let comma = if place == 1 { "" } else { ", " };
        write!(arrays, "{comma}${place}::{}[]", ty.name()).expect(STRING_WRITE);
        write!(names, "{comma}a{place}").expect(STRING_WRITE);
    }
    format!("unnest({arrays}) AS v ({names})")
}

/// Replaces parameters by columns of the rows.
fn columns(sql: &str) -> String {
    sql.replace('$', "v.a")
}

const STRING_WRITE: &str = "writing to a string cannot fail";

#[cfg(test)]
mod tests {
    use super::*;

    fn set(sql: &str) -> Option<String> {
        of(sql, &[Type::INT8, Type::TEXT])
    }

    #[test]
    fn a_statement_for_one_row_becomes_one_for_many() {
        let rows = "unnest($1::int8[], $2::text[]) AS v (a1, a2)";
        let update = set("UPDATE t SET a = CASE WHEN $2 = 'x' THEN 1 ELSE a END WHERE id = $1");
        let expected = format!("UPDATE t SET a = CASE WHEN v.a2 = 'x' THEN 1 ELSE a END FROM {rows} WHERE id = v.a1");
        assert_eq!(update, Some(expected));
        let insert = set("INSERT INTO t (id, a, b) VALUES ($1, $2, 0) ON CONFLICT (id) DO UPDATE SET a = excluded.a");
        let expected = format!(
            "INSERT INTO t (id, a, b) SELECT v.a1, v.a2, 0 FROM {rows} ON CONFLICT (id) DO UPDATE SET a = excluded.a"
        );
        assert_eq!(insert, Some(expected));
        let insert = set("INSERT INTO t (id, a, b) VALUES ($1, lower($2), now())");
        let expected = format!("INSERT INTO t (id, a, b) SELECT v.a1, lower(v.a2), now() FROM {rows}");
        assert_eq!(insert, Some(expected));
        let delete = set("DELETE FROM t WHERE id = $1 AND a = $2");
        assert_eq!(delete, Some(format!("DELETE FROM t USING {rows} WHERE id = v.a1 AND a = v.a2")));
        assert_eq!(set("SELECT $1, $2"), None);
        assert_eq!(set("DELETE FROM t"), None);
    }
}
