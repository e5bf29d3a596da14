//! Catalogues of earlier versions, moved into a database by this one.
//!
//! Earlier versions of the server kept the catalogue in a file of its own. `tests/schema/v{N}.sql`
//! has the rows of a catalogue in use, for that version of the schema and for later versions until
//! the next file. A new migration alone needs no file. If a migration makes a table, its version
//! needs a file as soon as another migration follows.

use std::path::{Path, PathBuf};

use cloakwork_keystore::{Digest, Error, KeyState, Keystore, SCHEMA, UploadId, absorb};
use cloakwork_params::KeyId;
use cloakwork_storage::{Asker, Connection, Database, OpenError, Row, Rows, Schema};

use crate::home::{Home, other_tenant, tenant};

/// The last version of the catalogue that had a file of its own.
const APART_VERSION_MAX: i64 = 5;

/// The catalogue as it was in a file of its own.
fn file_schema() -> Schema {
    SCHEMA.at(APART_VERSION_MAX).in_ledger("_sqlx_migrations")
}

fn rows_file(version: i64) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/schema/v{version}.sql"));
    path.exists().then_some(path)
}

/// Makes a file with the catalogue of an earlier version.
async fn fill(directory: &Path, version: i64) -> PathBuf {
    let path = directory.join(format!("keystore{version}.db"));
    let database = Database::open(&path, &[file_schema().at(version)], 1).await.expect("an earlier schema");
    let rows = (1..=version).rev().find_map(rows_file).expect("the rows of an earlier catalogue");
    let rows = std::fs::read_to_string(rows).expect("the file is there");
    let mut write = database.write(Asker::Upkeep, Rows::All).await.expect("a turn");
    write.script(rows).await.expect("rows");
    for table in tables(&mut write).await {
        assert!(count(&mut write, &table).await > 0, "version {version} has no row of {table}: a loss would not show");
    }
    write.commit().await.expect("committed");
    database.close().await;
    path
}

async fn all(sql: &mut Connection, query: String) -> Vec<Row> {
    // Statements of the program are static. Those of this test name tables that it finds.
    sql.query(query.leak()).all().await.expect("rows")
}

async fn tables(sql: &mut Connection) -> Vec<String> {
    let names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_sqlx%' ESCAPE '\\' \
                 AND name NOT IN ('absorbed_files', 'received_days', 'store_marker', 'tenant_shards') ORDER BY name";
    let rows = all(sql, names.to_owned()).await;
    rows.iter().map(|row| row.text("name").expect("a name").to_owned()).collect()
}

async fn count(sql: &mut Connection, table: &str) -> i64 {
    all(sql, format!("SELECT COUNT(*) AS rows FROM {table}")).await[0].int("rows").expect("a count")
}

#[tokio::test]
async fn a_catalogue_file_of_every_earlier_version_moves_into_the_database_with_its_rows() {
    for version in 1..=APART_VERSION_MAX {
        let home = Home::local();
        let file = fill(home.root(), version).await;
        let database = home.database().await;
        assert!(absorb(&database, &file).await.expect("moved"));
        assert!(!file.exists() && file.with_added_extension("moved").exists());
        let keystore = home.open_on(&database).await;
        everything_is_there(&keystore).await;
        let mut reader = database.read(Asker::Upkeep).await.expect("a reader");
        for table in tables(&mut reader).await {
            assert!(count(&mut reader, &table).await > 0, "the rows of {table} of version {version} are lost");
        }
        let counts = "SELECT 1 FROM requests FULL JOIN request_counts USING (tenant) GROUP BY tenant, requests \
                      HAVING COUNT(request_id) IS NOT requests";
        assert!(all(&mut reader, counts.to_owned()).await.is_empty(), "from version {version}");
        let integrity = all(&mut reader, "PRAGMA integrity_check".to_owned()).await;
        assert_eq!(integrity[0].text("integrity_check"), Ok("ok"));
        assert!(all(&mut reader, "PRAGMA foreign_key_check".to_owned()).await.is_empty());
        drop(reader);
        database.close().await;
    }
}

/// A catalogue that is in the database already, with an end that is out of range as microseconds.
#[tokio::test]
async fn times_in_milliseconds_become_microseconds_in_place() {
    let home = Home::local();
    let database = home.database_of(SCHEMA.at(5)).await;
    let mut write = database.write(Asker::Upkeep, Rows::All).await.expect("a turn");
    write.script(std::fs::read_to_string(rows_file(1).expect("rows")).expect("a file")).await.expect("rows");
    let endless = "INSERT INTO pins (tenant, digest, holder, until_ms) SELECT tenant, digest, X'C1', $1 FROM pins";
    write.query(endless).bind(i64::MAX - 1).execute().await.expect("a pin");
    write.commit().await.expect("committed");
    database.close().await;

    let database = home.database().await;
    everything_is_there(&home.open_on(&database).await).await;
    let mut reader = database.read(Asker::Upkeep).await.expect("a reader");
    let micros = |second: i64| 1_700_000_000_000_000 + second * 1_000_000;
    for (query, expected) in [
        ("SELECT created_micros AS at FROM blobs ORDER BY digest", [micros(0), micros(1), micros(2), micros(5)]),
        ("SELECT touched_micros AS at FROM blobs ORDER BY digest", [micros(0), micros(1), micros(3), micros(5)]),
        ("SELECT keep_until_micros AS at FROM blobs ORDER BY digest", [micros(0), micros(1), micros(4), micros(5)]),
    ] {
        let found = all(&mut reader, query.to_owned()).await;
        assert_eq!(found.iter().map(|row| row.int("at").expect("a time")).collect::<Vec<_>>(), expected, "{query}");
    }
    let requests = all(&mut reader, "SELECT created_micros AS at FROM requests".to_owned()).await;
    assert_eq!(requests[0].int("at"), Ok(micros(6)));
    let pins = all(&mut reader, "SELECT until_micros AS at FROM pins ORDER BY until_micros".to_owned()).await;
    let ends: Vec<_> = pins.iter().map(|row| row.int_or_null("at").expect("a whole number")).collect();
    assert_eq!(ends, [None, Some(9_223_372_036_854_775_000)]);
    let left = "SELECT sql AS text FROM sqlite_master WHERE sql LIKE '%\\_ms%' ESCAPE '\\'";
    assert!(all(&mut reader, left.to_owned()).await.is_empty(), "an index, a trigger or a table has the old unit");
    drop(reader);
    database.close().await;
    let error = Database::open(&home.database_path(), &[SCHEMA.at(5)], 1).await.expect_err("an older program");
    assert!(matches!(error, OpenError::Newer { got: 6, known: 5 }), "{error:?}");
}

/// After a crash between the commit and the renaming, the rows must not move again: rows that were
/// deleted since would come back.
#[tokio::test]
async fn the_rows_of_a_catalogue_file_move_once() {
    let home = Home::local();
    let file = fill(home.root(), APART_VERSION_MAX).await;
    let moved = file.with_added_extension("moved");
    let database = home.database().await;
    assert!(absorb(&database, &file).await.expect("moved"));
    let mut write = database.write(Asker::Upkeep, Rows::All).await.expect("a turn");
    write.query("DELETE FROM pins").execute().await.expect("deleted");
    write.commit().await.expect("committed");
    std::fs::rename(&moved, &file).expect("as after a crash");
    assert!(absorb(&database, &file).await.expect("renamed"));
    assert!(!file.exists() && moved.exists());
    assert_eq!(count(&mut database.read(Asker::Upkeep).await.expect("a reader"), "pins").await, 0);
    assert!(!absorb(&database, &file).await.expect("nothing to do"));
    // A file that comes from elsewhere is not touched.
    std::fs::copy(&moved, &file).expect("a copy");
    let error = absorb(&database, &file).await.expect_err("its rows were moved").to_string();
    assert!(error.contains("restore both databases"), "{error}");
    assert!(file.exists());
}

/// Also refused where nothing is behind the link, such as a volume that is not mounted. With an
/// empty catalogue, every blob would be a leftover.
#[tokio::test]
async fn a_catalogue_file_behind_a_link_is_refused() {
    let home = Home::local();
    let file = fill(home.root(), APART_VERSION_MAX).await;
    let (elsewhere, link) = (home.root().join("elsewhere"), home.root().join("keystore.db"));
    std::fs::rename(&file, &elsewhere).expect("moved");
    std::os::unix::fs::symlink(&elsewhere, &link).expect("a link");
    let database = home.database().await;
    for target in ["present", "missing"] {
        let error = absorb(&database, &link).await.expect_err("refused").to_string();
        assert!(error.contains("not a regular file"), "{target}: {error}");
        let _ = std::fs::remove_file(&elsewhere);
    }
}

/// A file that cannot be moved whole keeps its rows, and the database gets none of them.
#[tokio::test]
async fn a_move_that_fails_changes_nothing() {
    let home = Home::local();
    let file = fill(home.root(), APART_VERSION_MAX).await;
    let database = home.database().await;
    let mut write = database.write(Asker::Upkeep, Rows::All).await.expect("a turn");
    write
        .query("INSERT INTO usage (tenant, blob_bytes, ciphertext_bytes) VALUES ('alice', 0, 0)")
        .execute()
        .await
        .expect("a row");
    write.commit().await.expect("committed");
    // `usage` is the last table, and its row of alice exists.
    let error = absorb(&database, &file).await.expect_err("the row is there already");
    assert!(matches!(error, OpenError::Database(cloakwork_storage::Error::Exists(_))), "{error:?}");
    assert!(file.exists());
    let mut reader = database.read(Asker::Upkeep).await.expect("a reader");
    assert_eq!(count(&mut reader, "blobs").await, 0);
    drop(reader);
    // The cause is gone, so the move succeeds.
    let mut write = database.write(Asker::Upkeep, Rows::All).await.expect("a turn");
    write.query("DELETE FROM usage").execute().await.expect("deleted");
    write.commit().await.expect("committed");
    assert!(absorb(&database, &file).await.expect("moved"));
    everything_is_there(&home.open_on(&database).await).await;
}

async fn everything_is_there(keystore: &Keystore) {
    let key = keystore.key(&tenant(), KeyId([0xaa; 16])).await.expect("a key");
    assert_eq!((key.state, key.parts.len(), key.complete_sets().len()), (KeyState::Active, 2, 1));
    let keys = keystore.list_keys(&tenant(), None, 0).await.expect("keys").keys;
    assert_eq!(keys.iter().map(|key| key.state).collect::<Vec<_>>(), [KeyState::Active, KeyState::Deleting]);
    assert!(keystore.list_keys(&other_tenant(), None, 0).await.expect("keys").keys.is_empty());
    let list = keystore.blob(&tenant(), &Digest { blake3: [0x33; 32], size_bytes: 30 }).await.expect("a list");
    assert_eq!((list.count, list.degree_max, list.noise_level_max), (7, 15, 2));
    // Stored as milliseconds before version 6.
    assert_eq!((list.created_micros, key.created_micros), (1_700_000_002_000_000, 1_700_000_007_000_000));
    let damaged = Digest { blake3: [0x44; 32], size_bytes: 4 };
    let refused = keystore.blob(&tenant(), &damaged).await;
    assert!(matches!(refused, Err(Error::BlobDamaged { .. } | Error::BlobNotFound { .. })), "{refused:?}");
    let upload = UploadId::parse("0123456789abcdef0123456789abcdef").expect("a name");
    let upload = keystore.upload(&tenant(), &upload).await.expect("an upload");
    assert_eq!((upload.digest.size_bytes, upload.committed_bytes), (5_000_000, 0));
    assert_eq!(upload.expires_micros, 4_000_000_000_000_000);
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
async fn a_catalogue_file_of_a_later_version_or_of_another_build_is_refused() {
    for (change, expected) in [
        (
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
             VALUES (9999, 'of tomorrow', 1, X'00', 1)",
            "version 9999",
        ),
        ("UPDATE _sqlx_migrations SET checksum = X'00' WHERE version = 1", "migration 1 differs from that"),
    ] {
        let home = Home::local();
        let file = fill(home.root(), APART_VERSION_MAX).await;
        let other = Database::open(&file, &[file_schema()], 1).await.expect("it opens");
        let mut write = other.write(Asker::Upkeep, Rows::All).await.expect("a turn");
        write.query(change).execute().await.expect("a change");
        write.commit().await.expect("committed");
        other.close().await;
        let database = home.database().await;
        let error = absorb(&database, &file).await.expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
        assert!(file.exists());
    }
}
