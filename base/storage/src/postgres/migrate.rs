//! Brings the schemas of a database up to date.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Server, Session, locks};
use crate::{Error, Migration, OpenError, Schema, Value};

/// Migrates a schema to its newest version, in one transaction. Servers that start at the same time
/// take turns. A server whose database is up to date needs no right to change tables.
///
/// A transaction of others, such as a backup, may hold a table for long. The migration then begins
/// again later. If it waited for the table, the statements of running servers would wait behind it.
pub(crate) async fn migrate(session: &mut Session, schema: &Schema) -> Result<(), OpenError> {
    session.set_limit(MIGRATION_TIMEOUT);
    let end = Instant::now() + MIGRATION_TIMEOUT;
    let mut has_waited = false;
    loop {
        match attempt(session, schema).await {
            Err(OpenError::Database(Error::Locked)) if Instant::now() < end => {
                if !std::mem::replace(&mut has_waited, true) {
                    tracing::warn!("the tables cannot be upgraded while another transaction uses them; still trying");
                }
                sleep(LOCK_PAUSE).await;
            }
            ended => return ended,
        }
    }
}

async fn attempt(session: &mut Session, schema: &Schema) -> Result<(), OpenError> {
    if missing(session, schema).await?.is_empty() {
        return Ok(());
    }
    let begin = format!("{BEGIN}; {}; {TABLES}; {}", locks::of_migration(), ledger(schema));
    let migrated = match session.script(&begin).await {
        Ok(()) => run_missing(session, schema).await,
        Err(error) => Err(error.into()),
    };
    match migrated {
        Ok(()) => Ok(session.commit().await?),
        Err(error) => {
            session.roll_back().await;
            Err(error)
        }
    }
}

impl Server {
    /// Whether the database has tables of earlier versions of the schemas.
    pub async fn lacks_migrations(&self, schemas: &[Schema]) -> Result<bool, OpenError> {
        let mut session = self.connect().await.map_err(OpenError::Database)?;
        let mut found = Ok(false);
        for schema in schemas {
            if matches!(found, Ok(false)) {
                found = lacks(&mut session, schema).await;
            }
        }
        session.close().await;
        found
    }
}

/// Whether the database has tables of the schema, and lacks some of its migrations.
async fn lacks(session: &mut Session, schema: &Schema) -> Result<bool, OpenError> {
    Ok(!done(session, schema).await?.is_empty() && !missing(session, schema).await?.is_empty())
}

/// A migration that a database lacks.
struct Step {
    migration: &'static Migration,
    text: &'static str,
    checksum: Vec<u8>,
}

async fn run_missing(session: &mut Session, schema: &Schema) -> Result<(), OpenError> {
    let insert =
        format!("INSERT INTO {} (version, name, checksum, compatible_from) VALUES ($1, $2, $3, $4)", schema.ledger);
    // Another server may have run some of them since the first look.
    for Step { migration, text, checksum } in missing(session, schema).await? {
        session.script(text).await?;
        let Migration { version, name, compatible_from, .. } = *migration;
        let values: Vec<Value> = vec![version.into(), name.into(), checksum.into(), compatible_from.into()];
        session.rows_of(&insert, values).await?;
    }
    Ok(())
}

/// The migrations that a database lacks. Fails if this program cannot use the database.
async fn missing(session: &mut Session, schema: &Schema) -> Result<Vec<Step>, OpenError> {
    let done = done(session, schema).await?;
    let known = schema.version();
    if let Some(Done { version: got, .. }) = done.last()
        && *got > known
        && done.iter().any(|done| done.compatible_from > known)
    {
        return Err(OpenError::Newer { got: *got, known });
    }
    let mut missing = Vec::new();
    for migration in schema.migrations {
        let Some(text) = migration.postgres else { continue };
        let checksum = checksum(session, text).await?;
        match done.iter().find(|done| done.version == migration.version) {
            Some(done) if done.checksum == checksum => {}
            Some(_) => return Err(OpenError::Changed { version: migration.version }),
            None => missing.push(Step { migration, text, checksum }),
        }
    }
    Ok(missing)
}

/// A migration that a database has.
struct Done {
    version: i64,
    checksum: Vec<u8>,
    compatible_from: i64,
}

/// The migrations that a database has, by version.
async fn done(session: &mut Session, schema: &Schema) -> Result<Vec<Done>, Error> {
    let exists = "SELECT CAST(to_regclass($1) AS TEXT) AS ledger";
    let exists = session.rows_of(exists, vec![schema.ledger.into()]).await?;
    if exists.first().map(|row| row.text("ledger")).transpose()?.flatten().is_none() {
        return Ok(Vec::new());
    }
    let all = format!("SELECT version, checksum, compatible_from FROM {} ORDER BY version", schema.ledger);
    let rows = session.rows_of(&all, Vec::new()).await?;
    let damaged = || Error::Damaged(format!("the table {}", schema.ledger));
    let done = rows.iter().map(|row| {
        Ok(Done {
            version: row.int("version")?.ok_or_else(damaged)?,
            checksum: row.bytes("checksum")?.unwrap_or_default().to_vec(),
            compatible_from: row.int("compatible_from")?.ok_or_else(damaged)?,
        })
    });
    done.collect()
}

/// The checksum of a migration, which the server computes.
async fn checksum(session: &mut Session, text: &str) -> Result<Vec<u8>, Error> {
    let rows = session.rows_of("SELECT sha256(convert_to($1, 'UTF8')) AS checksum", vec![text.into()]).await?;
    let checksum = rows.first().map(|row| row.bytes("checksum")).transpose()?.flatten();
    checksum.map(<[u8]>::to_vec).ok_or_else(|| Error::Failed("the server computed no checksum".to_owned()))
}

fn ledger(schema: &Schema) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {} (version BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum BYTEA NOT NULL, \
         compatible_from BIGINT NOT NULL, applied TIMESTAMPTZ NOT NULL DEFAULT now())",
        schema.ledger
    )
}

/// Begins the transaction of a migration. Another server may be at it, for as long as it takes.
const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = 0";

/// Longest wait for a table, in milliseconds. A server's statement waits for longer, so that no
/// statement fails behind the migration.
const TABLES: &str = "SET LOCAL lock_timeout = 500";

/// Time between two attempts, in which the statements of others run.
const LOCK_PAUSE: Duration = Duration::from_secs(1);

/// Longest wait for one step of a migration. An index of a large table takes minutes.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(3600);
