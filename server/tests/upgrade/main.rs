//! Tests that databases of earlier schema versions open in this version.
//!
//! For each schema version, a file `v{N}.sql` adds the rows that a database in use has beside the
//! rows of earlier versions. The latest version needs no file yet, but it needs one as soon as the
//! next version is added.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::path::{Path, PathBuf};

use cloakwork_circuit::ProgramId;
use cloakwork_proto::v1::JobState;
use cloakwork_scheduler::JobId;
use cloakwork_server::{
    auth::TokenStore,
    database::{Database, MIGRATIONS, OpenError},
    store::Store,
};
use sqlx::{SqlitePool, sqlite::SqliteConnectOptions};

const JOB: u128 = 0x0189_0000_0000_7000_8000_0000_0000_0000;

fn latest() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap()
}

async fn pool(path: &Path) -> SqlitePool {
    SqlitePool::connect_with(SqliteConnectOptions::new().filename(path).create_if_missing(true)).await.unwrap()
}

/// Creates a database with the schema and the rows of version `version`.
async fn database_of(version: i64, directory: &Path) -> PathBuf {
    let path = directory.join(format!("v{version}.db"));
    let pool = pool(&path).await;
    MIGRATIONS.run_to(version, &pool).await.unwrap();
    for file in (1..=version).map(fixture) {
        let rows = std::fs::read_to_string(&file);
        let rows =
            rows.unwrap_or_else(|error| panic!("{}: {error}: the rows of this version are missing", file.display()));
        sqlx::raw_sql(sqlx::AssertSqlSafe(rows)).execute(&pool).await.unwrap();
    }
    for table in tables(&pool).await {
        let rows = count(&pool, &table).await;
        assert!(rows > 0, "version {version} has no row of {table}: the loss of its rows would go unnoticed");
    }
    pool.close().await;
    path
}

async fn tables(pool: &SqlitePool) -> Vec<String> {
    let names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_sqlx%' ESCAPE '\\' \
                 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
    sqlx::query_scalar(names).fetch_all(pool).await.unwrap()
}

async fn count(pool: &SqlitePool, table: &str) -> i64 {
    sqlx::query_scalar(sqlx::AssertSqlSafe(format!("SELECT COUNT(*) FROM {table}"))).fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn a_database_of_every_earlier_version_is_migrated_with_its_rows() {
    let directory = tempfile::tempdir().unwrap();
    let earlier = (1..=latest()).filter(|version| *version < latest() || fixture(*version).exists());
    let mut seen = 0;
    for version in earlier {
        let path = database_of(version, directory.path()).await;
        let database = Database::open(&path, &MIGRATIONS, 2).await.unwrap();
        let tokens = TokenStore::new(database.clone());
        let tenants = tokens.tenants().await.unwrap();
        let tenants: Vec<_> =
            tenants.iter().map(|tenant| (tenant.name.as_str(), tenant.revoked_ms.is_some())).collect();
        assert_eq!(tenants, [("acme", false), ("gone", true)], "from version {version}");
        let rows = tokens.tokens(None).await.unwrap();
        assert_eq!(rows.len(), 2);
        let token = rows.iter().find(|token| token.id == "0123456789ab").unwrap();
        assert_eq!((token.note.as_str(), token.scopes.as_str()), ("nightly batch", "jobs,keys,read"));
        assert_eq!((token.expires_ms, token.last_used_ms), (Some(1_900_000_000_000), Some(1_700_000_004_000)));
        let store = Store::new(database.clone());
        store.begin().await.unwrap();
        if version >= 2 {
            check_jobs(&store).await;
            assert_eq!(store.inline_bytes("acme").await.unwrap(), 10, "from version {version}");
            assert_eq!(store.too_many_ended(0).await.unwrap(), [("acme".to_owned(), 2)], "from version {version}");
        }
        assert_eq!(store.program_count("acme").await.unwrap(), u64::from(version >= 2));
        database.close().await;
        check_integrity(&path).await;
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
    assert_eq!(store.job_by_request("acme", &request).await.unwrap().unwrap().meta.id, JobId(JOB + 1));
    assert_eq!(store.embedded_workers().await.unwrap(), [u128::from_be_bytes([0x77; 16])]);
}

/// Runs the integrity checks of SQLite on the file.
async fn check_integrity(path: &Path) {
    let pool = pool(path).await;
    let integrity: Vec<String> = sqlx::query_scalar("PRAGMA integrity_check").fetch_all(&pool).await.unwrap();
    assert_eq!(integrity, ["ok"]);
    assert!(sqlx::query("PRAGMA foreign_key_check").fetch_all(&pool).await.unwrap().is_empty());
    let version: i64 = sqlx::query_scalar("SELECT MAX(version) FROM _sqlx_migrations").fetch_one(&pool).await.unwrap();
    assert_eq!(version, latest());
    pool.close().await;
}

#[tokio::test]
async fn a_database_of_a_later_version_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = database_of(1, directory.path()).await;
    let pool = pool(&path).await;
    MIGRATIONS.run(&pool).await.unwrap();
    let later = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                 VALUES (9999, 'of tomorrow', 1, X'00', 1)";
    sqlx::query(later).execute(&pool).await.unwrap();
    let error = Database::open(&path, &MIGRATIONS, 1).await.unwrap_err();
    assert!(matches!(error, OpenError::Newer { got: 9999, known } if known == latest()), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("version 9999") && text.contains("backup"), "{text}");
    assert_eq!(count(&pool, "tenants").await, 2);
}

#[tokio::test]
async fn a_migration_changed_after_its_release_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = database_of(1, directory.path()).await;
    let pool = pool(&path).await;
    sqlx::query("UPDATE _sqlx_migrations SET checksum = X'00' WHERE version = 1").execute(&pool).await.unwrap();
    let error = Database::open(&path, &MIGRATIONS, 1).await.unwrap_err();
    assert!(matches!(error, OpenError::Changed { version: 1 }), "{error:?}");
    assert_eq!(tables(&pool).await, ["tenants", "tokens"], "no migration was started");
}
