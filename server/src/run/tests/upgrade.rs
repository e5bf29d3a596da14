//! Data directories of versions that kept the catalogue in a file of its own.

use cloakwork_keystore::TenantId;
use cloakwork_storage::{Asker, Database, Rows};

use super::*;
use crate::data::{self, open_file, open_for_command, try_lock, unless_an_earlier_server_runs};
use crate::database::{CATALOGUE_FILE, FILE, ONE_DATABASE, SCHEMA};

/// Version of a catalogue that has a file of its own.
const CATALOGUE_APART: i64 = 5;

const BLOB: &str = "11223344";

/// Fills a data directory as an earlier server did: two databases, and a blob.
async fn earlier(directory: &Path) -> PathBuf {
    let blob = directory.join("blobs/acme/11").join(BLOB.repeat(8));
    std::fs::create_dir_all(blob.parent().unwrap()).unwrap();
    std::fs::create_dir_all(directory.join("staging")).unwrap();
    std::fs::write(&blob, [0; 100]).unwrap();
    let catalogue = cloakwork_keystore::SCHEMA.at(CATALOGUE_APART).in_ledger(SCHEMA.ledger);
    for (name, schema, rows) in [
        (
            FILE,
            SCHEMA.at(ONE_DATABASE - 1),
            "INSERT INTO tenants (name, created_ms) VALUES ('acme', 1700000000000)".to_owned(),
        ),
        (
            CATALOGUE_FILE,
            catalogue,
            format!(
                "INSERT INTO blobs (tenant, digest, size_bytes, kind, set_id, key_id, count, degree_max, \
                 noise_level_max, is_key, damaged, created_ms, touched_ms, keep_until_ms) VALUES ('acme', X'{digest}', \
                 100, 1, 65280, X'{key}', 1, 1, 1, 0, 0, 1700000001000, 1700000002000, 1700000003000); \
                 INSERT INTO usage (tenant, blob_bytes, ciphertext_bytes) VALUES ('acme', 100, 100)",
                digest = BLOB.repeat(8),
                key = BLOB.repeat(4),
            ),
        ),
    ] {
        let database = Database::open(&directory.join(name), &[schema], 1).await.unwrap();
        let mut write = database.write(Asker::Upkeep, Rows::All).await.unwrap();
        write.script(rows).await.unwrap();
        write.commit().await.unwrap();
        database.close().await;
    }
    blob
}

fn config(directory: &Path) -> Config {
    let mut config = Config::default();
    config.listen.address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    config.listen.admin_address = config.listen.address;
    config.storage.directory = directory.to_owned();
    config.worker.embedded = false;
    config
}

#[tokio::test]
async fn a_start_moves_the_catalogue_and_keeps_every_blob() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let blob = earlier(&data).await;
    for _ in 0..2 {
        let server = Server::start(config(&data), Clock::system()).await.unwrap();
        server.run(std::future::ready(())).await.unwrap();
        assert!(blob.exists(), "a blob without a row would be a leftover");
        assert!(!data.join(CATALOGUE_FILE).exists());
    }
    let database = open_file(&data, 1).await.unwrap();
    let mut reader = database.read(Asker::Upkeep).await.unwrap();
    let tenant = TenantId::new("acme").unwrap();
    let blobs = reader.query("SELECT * FROM blobs WHERE tenant = $1").bind(tenant.as_str()).all().await.unwrap();
    assert_eq!(blobs.iter().map(|row| row.int("size_bytes").unwrap()).collect::<Vec<_>>(), [100]);
    let times = ["created_micros", "touched_micros", "keep_until_micros"].map(|name| blobs[0].int(name).unwrap());
    assert_eq!(times, [1_700_000_001_000_000, 1_700_000_002_000_000, 1_700_000_003_000_000]);
    let tenant = reader.query("SELECT * FROM tenants").one().await.unwrap();
    assert_eq!((tenant.text("name"), tenant.int("created_micros")), (Ok("acme"), Ok(1_700_000_000_000_000)));
}

/// Without its rows, the server would remove every blob.
#[tokio::test]
async fn a_directory_whose_catalogue_is_missing_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let blob = earlier(&data).await;
    let (catalogue, elsewhere) = (data.join(CATALOGUE_FILE), directory.path().join("catalogue"));
    std::fs::rename(&catalogue, &elsewhere).unwrap();
    for _ in 0..2 {
        let refused = Server::start(config(&data), Clock::system()).await.expect_err("refused");
        assert!(matches!(refused, RunError::Data(DataError::CatalogueMissing { .. })), "{refused}");
        // Neither may the command line migrate the database, because the next start would not
        // notice.
        assert!(open_file(&data, 1).await.is_err());
    }
    assert!(blob.exists());
    std::fs::rename(&elsewhere, &catalogue).unwrap();
    Server::start(config(&data), Clock::system()).await.unwrap().run(std::future::ready(())).await.unwrap();
    assert!(blob.exists());
}

/// `tenant create` may make the database before the first start of a server.
#[tokio::test]
async fn a_database_from_before_the_first_start_needs_no_catalogue() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    cloakwork_storage::private::open_directory(&data, &[]).unwrap();
    Database::open(&data.join(FILE), &[SCHEMA.at(ONE_DATABASE - 1)], 1).await.unwrap().close().await;
    Server::start(config(&data), Clock::system()).await.unwrap().run(std::future::ready(())).await.unwrap();
}

/// A command of this version leaves the database of an earlier server alone while that one runs.
#[tokio::test]
async fn no_command_changes_a_database_under_a_server_of_an_earlier_version() {
    let directory = tempfile::tempdir().unwrap();
    let (data, fresh) = (directory.path().join("data"), directory.path().join("fresh"));
    earlier(&data).await;
    for directory in [&data, &fresh] {
        // A server that has not made its database yet may be of any version.
        let running = data::lock(directory).await.unwrap();
        let refused = open_for_command(&config(directory)).await.unwrap_err();
        assert!(matches!(&refused, DataError::EarlierServer { path } if path == directory), "{refused}");
        drop(running);
    }
    let version = Database::version_of(&data.join(FILE), &SCHEMA).await.unwrap();
    assert_eq!(version, Some(ONE_DATABASE - 1));
    open_for_command(&config(&fresh)).await.expect("nothing is there").close().await;
    open_for_command(&config(&data)).await.expect("nobody uses it").close().await;
    let server = Server::start(config(&data), Clock::system()).await.unwrap();
    let beside = open_for_command(&config(&data)).await.expect("a server of this version may run");
    beside.close().await;
    drop(server);
}

/// Otherwise a server of an earlier version could start after the check, on a database that the
/// command then changes.
#[tokio::test]
async fn no_server_starts_while_a_command_opens_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    earlier(&data).await;
    let open = async || {
        assert!(try_lock(&data)?.is_none(), "a server could start");
        let database = open_file(&data, 1).await?;
        assert!(try_lock(&data)?.is_none(), "a server could start");
        Ok::<_, DataError>(database)
    };
    unless_an_earlier_server_runs(&data, open).await.expect("nobody uses it").close().await;
    assert!(try_lock(&data).unwrap().is_some(), "a server may start now");
}
