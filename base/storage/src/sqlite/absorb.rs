//! Moves the rows of another database file into this one.

use std::{fs, io, path::Path};

use sqlx::{AssertSqlSafe, Row as _};

use super::{Access, Session, error, open};
use crate::{Error, OpenError, Schema, Survival, private};

/// Implements `Database::absorb`.
pub(crate) async fn absorb(
    session: &mut Session,
    file: &Path,
    schema: &Schema,
    tables: &[&str],
) -> Result<bool, OpenError> {
    // Finds a link also where its target is missing, and `make_private` then refuses the link.
    if fs::symlink_metadata(file).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(false);
    }
    open::make_private(file)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    session.script(RECORD.to_owned()).await?;
    let recorded = session.first("SELECT 1 FROM absorbed_files WHERE name = $1", vec![name.clone().into()]).await?;
    let moved = file.with_added_extension("moved");
    if recorded.is_none() {
        bring_up_to_date(file, schema).await?;
        // A file can be attached only outside of a transaction.
        session.execute("ATTACH DATABASE $1 AS absorbed", vec![file.to_string_lossy().as_ref().into()]).await?;
        let copied = copy_rows(session, name, tables).await;
        if copied.is_err() {
            session.roll_back().await;
        }
        let detached = session.script("DETACH DATABASE absorbed".to_owned()).await;
        copied?;
        detached?;
    } else if fs::exists(&moved)? {
        let problem = "its rows were moved before, and it is back: remove it, or restore both databases of a backup";
        return Err(private::naming(file, io::Error::other(problem)).into());
    }
    // The database itself goes last: after a crash, the next call finds it and goes on.
    for file in open::files(file).skip(1).filter(|file| file.exists()) {
        fs::remove_file(&file)?;
    }
    fs::rename(file, moved)?;
    Ok(true)
}

/// The files whose rows are in this database.
const RECORD: &str = "CREATE TABLE IF NOT EXISTS absorbed_files (name TEXT NOT NULL PRIMARY KEY)";

/// Migrates the file to the schema's newest version.
async fn bring_up_to_date(file: &Path, schema: &Schema) -> Result<(), OpenError> {
    let mut other = Session::open(file, Access::Write).await?;
    let migrated = other.migrate(schema).await;
    other.close().await;
    migrated
}

async fn copy_rows(session: &mut Session, name: String, tables: &[&str]) -> Result<(), Error> {
    session.begin(Survival::PowerFailure).await?;
    for table in tables {
        let columns = columns(session, table).await?.join(", ");
        let copy = format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM absorbed.{table}");
        session.script(copy).await?;
    }
    session.execute("INSERT INTO absorbed_files (name) VALUES ($1)", vec![name.into()]).await?;
    session.commit().await
}

async fn columns(session: &mut Session, table: &str) -> Result<Vec<String>, Error> {
    // Safe: the names of tables are the program's own.
    let sql = AssertSqlSafe(format!("SELECT name FROM pragma_table_info('{table}', 'absorbed')"));
    let rows = sqlx::query(sql).fetch_all(session.driver()).await.map_err(error::of)?;
    rows.iter().map(|row| row.try_get("name").map_err(error::of)).collect()
}
