//! Copies tables of one database into another, and compares them row by row.

use crate::{Asker, Connection, Database, Error, Row, Rows, Value};

/// Why tables were not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The other database has rows, and not the same ones.
    #[error("it has other rows than the source, for example in the table {0}")]
    Differs(&'static str),
    /// A database failed.
    #[error(transparent)]
    Database(#[from] Error),
}

/// Copies the rows of `tables` from a file into the tables of the same names on a server, in one
/// transaction. Compares all rows before the commit, and returns their number. If the server has
/// the same rows already, nothing changes.
///
/// `from` must not change meanwhile. A table comes after those that it refers to.
pub async fn copy(from: &Database, to: &Database, tables: &[&'static str]) -> Result<u64, CopyError> {
    let mut source = from.read(Asker::Upkeep).await?;
    let mut target = to.write(Asker::Upkeep, Rows::All).await?;
    let mut described = Vec::with_capacity(tables.len());
    for &name in tables {
        described.push(Table::of(name, &mut source).await?);
    }
    let mut is_empty = true;
    for table in &described {
        is_empty &= target.query(table.any).optional().await?.is_none();
    }
    if is_empty {
        // Triggers would count the copied rows, and the counts are copied too.
        set_triggers(&mut target, tables, "DISABLE").await?;
        for table in &described {
            table.insert_all(&mut source, &mut target).await?;
        }
        set_triggers(&mut target, tables, "ENABLE").await?;
    }
    let mut rows = 0;
    for table in &described {
        rows += table.compare(&mut source, &mut target).await?;
    }
    target.commit().await?;
    Ok(rows)
}

/// Number of rows of a page.
const PAGE: usize = 64;

/// Number of rows of a page whose rows have contents of jobs, which may be many MiB each. A page is
/// in memory as a whole, and goes to the server as one statement.
const CONTENTS_PAGE: usize = 2;

/// Name of the column that has such contents.
const CONTENTS: &str = "bytes";

/// A table, and the statements of its copy.
struct Table {
    name: &'static str,
    columns: Vec<(String, Kind)>,
    /// The columns of the primary key, by their places.
    key: Vec<usize>,
    rows_in_page: usize,
    any: &'static str,
    first_page: &'static str,
    next_page: &'static str,
    insert_one: &'static str,
    insert_page: &'static str,
}

/// The kind of a column's values.
#[derive(Clone, Copy)]
enum Kind {
    Int,
    Text,
    Bytes,
}

impl Table {
    async fn of(name: &'static str, source: &mut Connection) -> Result<Self, Error> {
        let rows = source.query("SELECT name, type, pk FROM pragma_table_info($1)").bind(name).all().await?;
        let mut columns = Vec::with_capacity(rows.len());
        let mut key = Vec::new();
        for (place, row) in rows.iter().enumerate() {
            let kind = match row.text("type")? {
                "TEXT" => Kind::Text,
                "BLOB" => Kind::Bytes,
                _ => Kind::Int,
            };
            columns.push((row.text("name")?.to_owned(), kind));
            let in_key = row.int("pk")?;
            if in_key > 0 {
                key.push((in_key, place));
            }
        }
        let rows_in_page = if columns.iter().any(|(name, _)| name == CONTENTS) { CONTENTS_PAGE } else { PAGE };
        key.sort_unstable();
        let key: Vec<usize> = key.into_iter().map(|(_, place)| place).collect();
        let named = |places: &mut dyn Iterator<Item = usize>| {
            places.map(|place| columns[place].0.as_str()).collect::<Vec<_>>().join(", ")
        };
        let (all, in_key) = (named(&mut (0..columns.len())), named(&mut key.iter().copied()));
        let page = |after: &str| format!("SELECT {all} FROM {name} {after} ORDER BY {in_key} LIMIT {rows_in_page}");
        let places = |from: usize, count: usize| {
            (from..from + count).map(|place| format!("${}", place + 1)).collect::<Vec<_>>().join(", ")
        };
        let insert = |rows: usize| {
            let values = (0..rows).map(|row| format!("({})", places(row * columns.len(), columns.len())));
            format!("INSERT INTO {name} ({all}) VALUES {}", values.collect::<Vec<_>>().join(", "))
        };
        Ok(Self {
            name,
            any: text(format!("SELECT 1 AS one FROM {name} LIMIT 1")),
            first_page: text(page("")),
            next_page: text(page(&format!("WHERE ({in_key}) > ({})", places(0, key.len())))),
            insert_one: text(insert(1)),
            insert_page: text(insert(rows_in_page)),
            columns,
            key,
            rows_in_page,
        })
    }

    async fn insert_all(&self, source: &mut Connection, target: &mut Connection) -> Result<(), Error> {
        let mut last: Option<Vec<Value>> = None;
        loop {
            let page = self.page(source, last.as_deref()).await?;
            if page.len() == self.rows_in_page {
                self.insert(target, self.insert_page, page.iter().flatten()).await?;
            } else {
                for row in &page {
                    self.insert(target, self.insert_one, row.iter()).await?;
                }
                return Ok(());
            }
            last = page.into_iter().last();
        }
    }

    async fn insert(
        &self,
        target: &mut Connection,
        statement: &'static str,
        values: impl Iterator<Item = &Value>,
    ) -> Result<(), Error> {
        let query = values.fold(target.query(statement), |query, value| query.bind(value.clone()));
        query.execute().await.map(drop)
    }

    /// Compares all rows, and returns their number.
    async fn compare(&self, source: &mut Connection, target: &mut Connection) -> Result<u64, CopyError> {
        let (mut last, mut rows): (Option<Vec<Value>>, u64) = (None, 0);
        loop {
            let page = self.page(source, last.as_deref()).await?;
            if self.page(target, last.as_deref()).await? != page {
                return Err(CopyError::Differs(self.name));
            }
            rows += page.len() as u64;
            if page.len() < self.rows_in_page {
                return Ok(rows);
            }
            last = page.into_iter().last();
        }
    }

    /// The page of rows that follow `last`, by the primary key.
    async fn page(&self, from: &mut Connection, last: Option<&[Value]>) -> Result<Vec<Vec<Value>>, Error> {
        let query = match last {
            None => from.query(self.first_page),
            Some(last) => {
                self.key.iter().fold(from.query(self.next_page), |query, &place| query.bind(last[place].clone()))
            }
        };
        query.all().await?.iter().map(|row| self.values(row)).collect()
    }

    fn values(&self, row: &Row) -> Result<Vec<Value>, Error> {
        let value = |(name, kind): &(String, Kind)| {
            Ok(match kind {
                Kind::Int => row.int_or_null(name)?.into(),
                // PostgreSQL stores no NUL, and the adapter replaces it.
                Kind::Text => row.text_or_null(name)?.map(|text| text.replace('\0', "\u{fffd}")).into(),
                Kind::Bytes => row.bytes_or_null(name)?.into(),
            })
        };
        self.columns.iter().map(value).collect()
    }
}

async fn set_triggers(target: &mut Connection, tables: &[&str], action: &str) -> Result<(), Error> {
    let statements = tables.iter().map(|table| format!("ALTER TABLE {table} {action} TRIGGER USER"));
    target.script(statements.collect::<Vec<_>>().join("; ")).await
}

/// A statement. All others of the program are static; those of a copy are made once in the life of
/// a process, a few for each table.
fn text(statement: String) -> &'static str {
    statement.leak()
}
