//! Catalogues of earlier versions, opened by this one.
//!
//! `tests/schema/v{N}.sql` has the rows of a catalogue in use, for that version of the schema and
//! for later versions until the next file. A new migration alone needs no file. If a migration
//! makes a table, its version needs a file as soon as another migration follows.

use std::path::{Path, PathBuf};

use cloakwork_keystore::{Digest, Error, KeyState, Keystore, UploadId, database::Database};
use cloakwork_params::KeyId;
use sqlx::{AssertSqlSafe, SqlitePool, migrate::Migrator, sqlite::SqliteConnectOptions};

use crate::home::{Home, other_tenant, tenant};

static MIGRATIONS: Migrator = sqlx::migrate!("./migrations/sqlite");

fn latest() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().expect("a migration")
}

async fn pool(path: &Path) -> SqlitePool {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    SqlitePool::connect_with(options).await.expect("a database")
}

fn rows_file(version: i64) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/schema/v{version}.sql"));
    path.exists().then_some(path)
}

/// Fills the home's catalogue as an earlier version would.
async fn fill(home: &Home, version: i64) -> PathBuf {
    let path = home.options(home.root()).catalogue;
    let pool = pool(&path).await;
    MIGRATIONS.run_to(version, &pool).await.expect("an earlier schema");
    let rows = (1..=version).rev().find_map(rows_file).expect("the rows of an earlier catalogue");
    let rows = std::fs::read_to_string(rows).expect("the file is there");
    sqlx::raw_sql(AssertSqlSafe(rows)).execute(&pool).await.expect("rows");
    let names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_sqlx%' ESCAPE '\\'";
    let tables: Vec<String> = sqlx::query_scalar(names).fetch_all(&pool).await.expect("tables");
    for table in tables {
        let count = AssertSqlSafe(format!("SELECT COUNT(*) FROM {table}"));
        let count: i64 = sqlx::query_scalar(count).fetch_one(&pool).await.expect("a count");
        assert!(count > 0, "version {version} has no row of {table}: nothing would be seen to be lost");
    }
    pool.close().await;
    path
}

#[tokio::test]
async fn a_catalogue_of_every_earlier_version_is_brought_up_to_date_with_its_rows() {
    let versions: Vec<i64> =
        (1..=latest()).filter(|version| *version < latest() || rows_file(*version).is_some()).collect();
    assert!(!versions.is_empty(), "there is nothing to upgrade");
    for version in versions {
        let home = Home::local();
        let path = fill(&home, version).await;
        let keystore = home.open().await;
        everything_is_there(&keystore).await;
        keystore.close().await;
        let pool = pool(&path).await;
        let counts = "SELECT COUNT(*) FROM requests FULL JOIN request_counts USING (tenant) GROUP BY tenant, requests \
                      HAVING COUNT(request_id) IS NOT requests";
        assert!(sqlx::query(counts).fetch_all(&pool).await.expect("rows").is_empty(), "from version {version}");
        let integrity: Vec<String> = sqlx::query_scalar("PRAGMA integrity_check").fetch_all(&pool).await.expect("rows");
        assert_eq!(integrity, ["ok"]);
        assert!(sqlx::query("PRAGMA foreign_key_check").fetch_all(&pool).await.expect("rows").is_empty());
    }
}

async fn everything_is_there(keystore: &Keystore) {
    let key = keystore.key(&tenant(), KeyId([0xaa; 16])).await.expect("a key");
    assert_eq!((key.state, key.parts.len(), key.complete_sets().len()), (KeyState::Active, 2, 1));
    let keys = keystore.list_keys(&tenant(), None, 0).await.expect("keys").keys;
    assert_eq!(keys.iter().map(|key| key.state).collect::<Vec<_>>(), [KeyState::Active, KeyState::Deleting]);
    assert!(keystore.list_keys(&other_tenant(), None, 0).await.expect("keys").keys.is_empty());
    let list = keystore.blob(&tenant(), &Digest { blake3: [0x33; 32], size_bytes: 30 }).await.expect("a list");
    assert_eq!((list.count, list.degree_max, list.noise_level_max), (7, 15, 2));
    let damaged = Digest { blake3: [0x44; 32], size_bytes: 4 };
    let refused = keystore.blob(&tenant(), &damaged).await;
    assert!(matches!(refused, Err(Error::BlobDamaged { .. } | Error::BlobNotFound { .. })), "{refused:?}");
    let upload = UploadId::parse("0123456789abcdef0123456789abcdef").expect("a name");
    let upload = keystore.upload(&tenant(), &upload).await.expect("an upload");
    assert_eq!((upload.digest.size_bytes, upload.committed_bytes), (5_000_000, 0));
    // The upload may belong to a client, so the client sees it and can abort it.
    assert_eq!(keystore.list_uploads(&tenant(), None, 0).await.expect("uploads").uploads, [upload]);
    // The catalogue still knows the request of each request id.
    let mut request = [0; 16];
    (request[0], request[15]) = (0xb0, 1);
    let reused = keystore.register_key(&tenant(), &request, &[]).await;
    assert_eq!(reused, Err(Error::RequestIdReused));
    // A pinned list stays.
    let pinned = keystore.delete(&tenant(), &Digest { blake3: [0x33; 32], size_bytes: 30 }).await;
    assert!(matches!(pinned, Err(Error::BlobInUse { .. })), "{pinned:?}");
}

#[tokio::test]
async fn a_catalogue_of_a_later_version_or_of_another_build_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    for (change, expected) in [
        (
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
             VALUES (9999, 'of tomorrow', 1, X'00', 1)",
            "version 9999",
        ),
        ("UPDATE _sqlx_migrations SET checksum = X'00' WHERE version = 1", "migration 1 is not the one"),
    ] {
        let path = directory.path().join(format!("{}.db", expected.len()));
        Database::open(&path, &MIGRATIONS, 1).await.expect("it opens").close().await;
        let pool = pool(&path).await;
        sqlx::query(change).execute(&pool).await.expect("a change");
        pool.close().await;
        let error = Database::open(&path, &MIGRATIONS, 1).await.expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
    }
}
