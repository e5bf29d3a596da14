//! Both databases have the same tables with the same columns.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::BTreeSet;

use cloakwork_server::database::{SCHEMAS, TABLES};
use cloakwork_storage::{Asker, CopyError, Database, Row, Rows, Server, copy};

const SQLITE: &str = "SELECT tables.name AS table_name, columns.name AS column_name, columns.type AS type, \
     columns.\"notnull\" = 0 AND columns.pk = 0 AS nullable FROM sqlite_master AS tables \
     JOIN pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'";

const POSTGRES: &str = "SELECT CAST(table_name AS text) AS table_name, CAST(column_name AS text) AS column_name, \
     CAST(data_type AS text) AS type, CAST(is_nullable = 'YES' AS int) AS nullable \
     FROM information_schema.columns WHERE table_schema = 'public'";

/// A column: its table, its name, its kind of value, and whether it may have none.
type Column = (String, String, &'static str, bool);

fn column(row: &Row) -> Column {
    let kind = match row.text("type").unwrap().to_lowercase().as_str() {
        "integer" | "bigint" => "integer",
        "text" => "text",
        "blob" | "bytea" => "bytes",
        other => panic!("a column of type {other}"),
    };
    let text = |name| row.text(name).unwrap().to_owned();
    (text("table_name"), text("column_name"), kind, row.flag("nullable").unwrap())
}

async fn columns(database: &Database, query: &'static str) -> BTreeSet<Column> {
    let mut reader = database.read(Asker::Upkeep).await.unwrap();
    let rows = reader.query(query).all().await.unwrap();
    let is_ledger = |row: &&Row| row.text("table_name").unwrap().starts_with("_sqlx");
    rows.iter().filter(|row| !is_ledger(row)).map(column).collect()
}

#[tokio::test]
async fn both_databases_have_the_same_columns() {
    let Some(postgres) = cloakwork_tests_postgres::shared() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = Database::open(&directory.path().join("server.db"), &SCHEMAS, 1).await.unwrap();
    let server = Server::new(&postgres.database(), None, None).unwrap();
    let server = Database::connect(server, &SCHEMAS, 1).await.unwrap();
    let (file, server) = (columns(&file, SQLITE).await, columns(&server, POSTGRES).await);
    assert!(file.len() > 80, "{} columns", file.len());
    let tables: BTreeSet<&str> = file.iter().map(|(table, ..)| table.as_str()).collect();
    assert_eq!(tables, BTreeSet::from(TABLES));
    assert_eq!(file.difference(&server).collect::<Vec<_>>(), Vec::<&Column>::new(), "only in SQLite");
    assert_eq!(server.difference(&file).collect::<Vec<_>>(), Vec::<&Column>::new(), "only in PostgreSQL");
}

/// A value of each kind of column.
fn value(kind: &str, row: i64) -> String {
    match kind {
        "integer" => format!("{row}"),
        "text" => format!("'text {row}'"),
        _ => format!("X'{row:032x}'"),
    }
}

/// Adds rows to each table of a file. The last row has no value where a column permits that.
async fn fill(file: &Database, rows: i64) {
    let mut columns: std::collections::BTreeMap<String, Vec<Column>> = std::collections::BTreeMap::new();
    for column in self::columns(file, SQLITE).await {
        columns.entry(column.0.clone()).or_default().push(column);
    }
    let mut write = file.write(Asker::Upkeep, Rows::All).await.unwrap();
    for table in TABLES {
        let columns = &columns[table];
        let names: Vec<&str> = columns.iter().map(|(_, name, ..)| name.as_str()).collect();
        let mut statements = vec![format!("DELETE FROM {table}")];
        for row in 0..rows {
            let value = |(_, name, kind, nullable): &Column| match (*nullable && row + 1 == rows, name.as_str()) {
                (true, _) => "NULL".to_owned(),
                // Tokens refer to tenants by their names.
                (_, "name" | "tenant") => format!("'tenant {row}'"),
                _ => value(kind, row),
            };
            let values: Vec<String> = columns.iter().map(value).collect();
            statements.push(format!("INSERT INTO {table} ({}) VALUES ({})", names.join(", "), values.join(", ")));
        }
        // Triggers have counted the rows of other tables into some tables, which are filled last.
        write.script(statements.join("; ")).await.unwrap();
    }
    write.commit().await.unwrap();
}

#[tokio::test]
async fn a_copy_has_every_row_of_the_file_and_no_other() {
    let Some(postgres) = cloakwork_tests_postgres::shared() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = Database::open(&directory.path().join("server.db"), &SCHEMAS, 1).await.unwrap();
    // Two full pages, and a page that is not full.
    fill(&file, 150).await;
    let url = postgres.database();
    let name = url.rsplit('/').next().unwrap();
    let server = Database::connect(Server::new(&url, None, None).unwrap(), &SCHEMAS, 1).await.unwrap();
    let rows = copy(&file, &server, &TABLES).await.unwrap();
    assert!(rows >= 150 * 12, "{rows} rows");
    for table in TABLES {
        let mut reader = file.read(Asker::Upkeep).await.unwrap();
        let count = format!("SELECT COUNT(*) AS rows FROM {table}");
        let expected = reader.query(count.clone().leak()).one().await.unwrap().int("rows").unwrap();
        assert_eq!(postgres.sql(name, &count), expected.to_string(), "{table}");
    }
    assert_eq!(copy(&file, &server, &TABLES).await.unwrap(), rows, "a second copy finds the work done");
    // The triggers count again.
    postgres.sql(name, "DELETE FROM requests");
    assert_eq!(postgres.sql(name, "SELECT SUM(requests) FROM request_counts WHERE tenant = 'tenant 3'"), "2");
    let differs = copy(&file, &server, &TABLES).await.unwrap_err();
    assert!(matches!(differs, CopyError::Differs("requests")), "{differs}");
    for change in
        ["UPDATE jobs SET latency = NULL WHERE tenant = 'tenant 77'", "DELETE FROM tokens WHERE tenant = 'tenant 149'"]
    {
        let url = postgres.database();
        let server = Database::connect(Server::new(&url, None, None).unwrap(), &SCHEMAS, 1).await.unwrap();
        copy(&file, &server, &TABLES).await.unwrap();
        postgres.sql(url.rsplit('/').next().unwrap(), change);
        assert!(matches!(copy(&file, &server, &TABLES).await, Err(CopyError::Differs(_))), "{change}");
    }
}
