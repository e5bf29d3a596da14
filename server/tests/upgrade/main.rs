//! Tests that databases of earlier schema versions open in this version.
//!
//! For each schema version, a file `v{N}.sql` adds the rows that a database in use has beside the
//! rows of earlier versions. The latest version needs no file yet, but it needs one as soon as the
//! next version is added. A file names the columns of its version, which a later version may have
//! renamed.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use cloakwork_circuit::ProgramId;
use cloakwork_clock::Clock;
use cloakwork_proto::v1::JobState;
use cloakwork_scheduler::JobId;
use cloakwork_server::{
    auth::TokenStore,
    database::{SCHEMA, SCHEMAS},
    store::Store,
};
use cloakwork_storage::{Asker, Connection, Database, OpenError, Row, Rows};

const JOB: u128 = 0x0189_0000_0000_7000_8000_0000_0000_0000;

/// The last version with columns that version 7 renamed.
const MILLISECONDS: i64 = 6;

/// Creates a database with the schema and the rows of version `version`.
async fn database_of(version: i64, directory: &Path) -> PathBuf {
    let path = directory.join(format!("v{version}.db"));
    fill(&path, 1..=version.min(MILLISECONDS)).await;
    if version > MILLISECONDS {
        fill(&path, MILLISECONDS + 1..=version).await;
    }
    path
}

/// Brings a database to the last of the versions, and then adds the rows of all of them.
async fn fill(path: &Path, versions: RangeInclusive<i64>) {
    let version = *versions.end();
    let database = Database::open(path, &[SCHEMA.at(version)], 1).await.unwrap();
    let mut write = database.write(Asker::Upkeep, Rows::All).await.unwrap();
    for file in versions.map(fixture) {
        let rows = std::fs::read_to_string(&file);
        let rows =
            rows.unwrap_or_else(|error| panic!("{}: {error}: the rows of this version are missing", file.display()));
        write.script(rows).await.unwrap();
    }
    for table in tables(&mut write).await {
        let rows = count(&mut write, &table).await;
        assert!(rows > 0, "version {version} has no row of {table}: the loss of its rows would go unnoticed");
    }
    write.commit().await.unwrap();
    database.close().await;
}

async fn all(sql: &mut Connection, query: String) -> Vec<Row> {
    // Statements of the program are static. Those of this test name tables that it finds.
    sql.query(query.leak()).all().await.unwrap()
}

async fn tables(sql: &mut Connection) -> Vec<String> {
    let names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_sqlx%' ESCAPE '\\' \
                 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
    all(sql, names.to_owned()).await.iter().map(|row| row.text("name").unwrap().to_owned()).collect()
}

async fn count(sql: &mut Connection, table: &str) -> i64 {
    all(sql, format!("SELECT COUNT(*) AS rows FROM {table}")).await[0].int("rows").unwrap()
}

/// Changes a database as another program would.
async fn alter(path: &Path, version: i64, change: &'static str) {
    let database = Database::open(path, &[SCHEMA.at(version)], 1).await.unwrap();
    let mut write = database.write(Asker::Upkeep, Rows::All).await.unwrap();
    write.query(change).execute().await.unwrap();
    write.commit().await.unwrap();
    database.close().await;
}

#[tokio::test]
async fn a_database_of_every_earlier_version_is_migrated_with_its_rows() {
    let directory = tempfile::tempdir().unwrap();
    let latest = SCHEMA.version();
    let earlier = (1..=latest).filter(|version| *version < latest || fixture(*version).exists());
    let mut seen = 0;
    for version in earlier {
        let path = database_of(version, directory.path()).await;
        let database = Database::open(&path, &SCHEMAS, 2).await.unwrap();
        let tokens = TokenStore::new(database.clone(), Clock::system());
        let tenants = tokens.tenants().await.unwrap();
        let tenants: Vec<_> = tenants.iter().map(|tenant| (tenant.name.as_str(), tenant.revoked_micros)).collect();
        let expected = [("acme", None), ("gone", Some(1_700_000_002_000_000))];
        assert_eq!(tenants, expected, "from version {version}");
        let rows = tokens.tokens(None).await.unwrap();
        assert_eq!(rows.len(), 2);
        let token = rows.iter().find(|token| token.id == "0123456789ab").unwrap();
        assert_eq!((token.note.as_str(), token.scopes.as_str()), ("nightly batch", "jobs,keys,read"));
        assert_eq!(
            (token.created_micros, token.expires_micros, token.last_used_micros),
            (1_700_000_003_000_000, Some(1_900_000_000_000_000), Some(1_700_000_004_000_000))
        );
        let token = rows.iter().find(|token| token.id == "ba9876543210").unwrap();
        assert_eq!(
            (token.created_micros, token.expires_micros, token.revoked_micros, token.last_used_micros),
            (1_700_000_005_000_000, None, Some(1_700_000_006_000_000), None)
        );
        let store = Store::new(database.clone());
        store.begin().await.unwrap();
        if version >= 2 {
            check_jobs(&store).await;
            assert_eq!(store.inline_bytes("acme").await.unwrap(), 10, "from version {version}");
            let ended = store.too_many_ended(0).await.unwrap();
            let of_gone = (version >= 6).then(|| ("gone".to_owned(), 1));
            assert_eq!(ended, [("acme".to_owned(), 2)].into_iter().chain(of_gone).collect::<Vec<_>>());
        }
        assert_eq!(store.program_count("acme").await.unwrap(), u64::from(version >= 2));
        if version >= 2 {
            check_forgetting(&store).await;
        }
        check_integrity(&database).await;
        database.close().await;
        seen += 1;
    }
    assert!(seen >= 1, "no database was upgraded");
}

fn fixture(version: i64) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/upgrade/v{version}.sql"))
}

/// Checks the jobs that databases from version 2 on contain.
async fn check_jobs(store: &Store) {
    let page = store.jobs("acme", &[], None, 10).await.unwrap();
    let states: Vec<_> = page.jobs.iter().map(|job| job.state).collect();
    assert_eq!(states, [JobState::Failed, JobState::Succeeded, JobState::Running, JobState::Queued]);
    let failed = page.jobs[0].end.as_ref().unwrap().error.as_ref().unwrap();
    assert_eq!((failed.reason.as_str(), failed.message.as_str()), ("JOB_POISON", "it brought down its workers"));
    let done = store.job("acme", JobId(JOB + 3), true).await.unwrap().unwrap();
    let outputs = &done.end.as_ref().unwrap().outputs;
    assert_eq!((outputs.len(), outputs[0].bytes.as_deref()), (1, Some(&[5, 6][..])));
    let live = store.live_jobs().await.unwrap();
    let known: Vec<_> = live.iter().map(|job| (job.attempts, job.epoch, job.suspect, job.solo_crashes)).collect();
    assert_eq!(known, [(0, 0, None, 0), (2, 7, Some(4), 1)]);
    assert_eq!(live[1].worker, Some(u128::from_be_bytes([0x77; 16])));
    assert_eq!((live[0].meta.rows, live[0].meta.pbs_count, live[0].meta.priority), (3, 6, -1));
    let inputs = store.inputs(JobId(JOB + 1)).await.unwrap();
    let sizes: Vec<_> = inputs.iter().map(|input| (input.size_bytes, input.bytes.is_some())).collect();
    assert_eq!(sizes, [(4, true), (1_000_000, false)]);
    let program = store.program("acme", ProgramId([0x33; 32])).await.unwrap().unwrap();
    assert_eq!(&program[..], [10, 11, 12]);
    let mut request = [0; 16];
    (request[0], request[15]) = (0xa0, 1);
    assert_eq!(store.meta_by_request("acme", &request).await.unwrap().unwrap().id, JobId(JOB + 1));
    assert_eq!(store.embedded_workers().await.unwrap(), [u128::from_be_bytes([0x77; 16])]);
}

/// Checks that jobs of earlier versions are found for removal: those without outputs at once, and
/// others after the removal of their outputs. Removes the ended jobs of the tenant.
async fn check_forgetting(store: &Store) {
    let done = JobId(JOB + 3);
    assert_eq!(store.expired_outputs(i64::MAX, 10).await.unwrap(), [done]);
    assert_eq!(store.forget_oldest("acme", 10).await.unwrap(), 1, "the failed job");
    assert!(store.job("acme", done, false).await.unwrap().is_some(), "its outputs are kept");
    store.drop_outputs(&[done]).await.unwrap();
    assert_eq!(store.expired_outputs(i64::MAX, 10).await.unwrap(), []);
    assert_eq!(store.forget_oldest("acme", 10).await.unwrap(), 1);
    let live = store.jobs("acme", &[JobState::Running, JobState::Failed], None, 10).await.unwrap();
    assert_eq!(live.jobs.iter().map(|job| job.meta.id).collect::<Vec<_>>(), [JobId(JOB + 2)]);
}

/// Runs the integrity checks of SQLite.
async fn check_integrity(database: &Database) {
    let mut reader = database.read(Asker::Upkeep).await.unwrap();
    let integrity = all(&mut reader, "PRAGMA integrity_check".to_owned()).await;
    assert_eq!(integrity[0].text("integrity_check"), Ok("ok"));
    assert!(all(&mut reader, "PRAGMA foreign_key_check".to_owned()).await.is_empty());
    let left = "SELECT sql AS text FROM sqlite_master WHERE sql LIKE '%\\_ms%' ESCAPE '\\'";
    assert!(all(&mut reader, left.to_owned()).await.is_empty(), "times in milliseconds are left");
    let version = all(&mut reader, "SELECT MAX(version) AS version FROM _sqlx_migrations".to_owned()).await;
    assert_eq!(version[0].int("version"), Ok(SCHEMA.version()));
}

#[tokio::test]
async fn a_database_of_a_later_version_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = database_of(1, directory.path()).await;
    let later = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                 VALUES (9999, 'of tomorrow', 1, X'00', 1)";
    alter(&path, SCHEMA.version(), later).await;
    let error = Database::open(&path, &SCHEMAS, 1).await.unwrap_err();
    assert!(matches!(error, OpenError::Newer { got: 9999, known } if known == SCHEMA.version()), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("version 9999") && text.contains("backup"), "{text}");
    let later = Database::open(&path, &[], 1).await.unwrap();
    assert_eq!(count(&mut later.read(Asker::Upkeep).await.unwrap(), "tenants").await, 2);
}

/// Earlier versions have the catalogue in a separate database. An earlier version would find an
/// empty catalogue and remove every blob.
#[tokio::test]
async fn a_program_that_keeps_the_catalogue_apart_refuses_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.db");
    Database::open(&path, &SCHEMAS, 1).await.unwrap().close().await;
    let error = Database::open(&path, &[SCHEMA.at(5)], 1).await.unwrap_err();
    assert!(matches!(error, OpenError::Newer { got: 6, known: 5 }), "{error:?}");
}

/// A program that reads times as milliseconds would keep every token valid for centuries.
#[tokio::test]
async fn a_program_that_stores_milliseconds_refuses_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.db");
    Database::open(&path, &SCHEMAS, 1).await.unwrap().close().await;
    let error = Database::open(&path, &[SCHEMA.at(6)], 1).await.unwrap_err();
    assert!(matches!(error, OpenError::Newer { got: 7, known: 6 }), "{error:?}");
}

#[tokio::test]
async fn a_migration_changed_after_its_release_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = database_of(1, directory.path()).await;
    alter(&path, 1, "UPDATE _sqlx_migrations SET checksum = X'00' WHERE version = 1").await;
    let error = Database::open(&path, &SCHEMAS, 1).await.unwrap_err();
    assert!(matches!(error, OpenError::Changed { version: 1 }), "{error:?}");
    let database = Database::open(&path, &[], 1).await.unwrap();
    assert_eq!(
        tables(&mut database.read(Asker::Upkeep).await.unwrap()).await,
        ["tenants", "tokens"],
        "no migration was started"
    );
}
