//! A server on PostgreSQL: what it refuses at its start.

use cloakwork_storage::OpenError;
use cloakwork_tests_postgres::{Postgres, give_to_servers, shared};

use super::*;

fn config(directory: &Path, url: &str) -> Config {
    let mut config = Config::default();
    config.listen.address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    config.listen.admin_address = config.listen.address;
    config.storage.directory = directory.to_owned();
    config.database.url = url.to_owned();
    config.worker.embedded = false;
    config
}

async fn refused(config: Config) -> String {
    let started = timeout(STEP_TIMEOUT, Server::start(config, Clock::system())).await.expect("no wait");
    started.expect_err("refused").to_string()
}

#[tokio::test]
async fn a_server_starts_again_on_its_database() {
    let Some(postgres) = shared() else { return };
    let (directory, url) = (tempfile::tempdir().unwrap(), postgres.database());
    let data = directory.path().join("data");
    for epoch in 1..=2 {
        let server = Server::start(config(&data, &url), Clock::system()).await.unwrap();
        server.run(std::future::ready(())).await.unwrap();
        let owner = postgres.sql(url.rsplit('/').next().unwrap(), "SELECT epoch, owner IS NULL FROM shards");
        assert_eq!(owner, format!("{epoch}|t"), "it leaves the database when it stops");
    }
    assert!(!data.join(crate::database::FILE).exists());
}

#[tokio::test]
async fn a_server_that_cannot_open_its_stores_leaves_the_shard_at_once() {
    let Some(postgres) = shared() else { return };
    let (directory, url) = (tempfile::tempdir().unwrap(), postgres.database());
    let name = url.rsplit('/').next().unwrap();
    let config = config(&directory.path().join("data"), &url);
    crate::data::migrate(&config).await.unwrap().close().await;
    postgres.sql(name, "ALTER TABLE jobs RENAME TO missing");
    let error = refused(config.clone()).await;
    assert!(error.starts_with("the stores: "), "{error}");
    let left = "SELECT epoch, owner IS NULL, (SELECT count(*) FROM replicas) FROM shards";
    assert_eq!(postgres.sql(name, left), "1|t|0");
    postgres.sql(name, "ALTER TABLE missing RENAME TO jobs");
    Server::start(config, Clock::system()).await.unwrap().run(std::future::ready(())).await.unwrap();
}

#[tokio::test]
async fn a_database_that_cannot_be_used_is_refused_with_its_setting() {
    let Some(postgres) = shared() else { return };
    let (directory, url) = (tempfile::tempdir().unwrap(), postgres.database());
    let name = url.rsplit('/').next().unwrap();
    let data = directory.path().join("data");
    let config = |url: &str| config(&data, url);

    let missing = refused(config(&format!("{url}_missing"))).await;
    assert!(missing.starts_with("database.url: database \"test_") && missing.contains("does not exist"), "{missing}");
    let mut without_file = config(&url);
    without_file.database.password_file = Some(data.join("missing"));
    let unreadable = refused(without_file).await;
    assert!(unreadable.contains("database.url") && unreadable.contains("missing: "), "{unreadable}");

    // The embedded database of an operator who moves to PostgreSQL.
    std::fs::create_dir_all(&data).unwrap();
    let file = data.join(crate::database::FILE);
    std::fs::write(&file, []).unwrap();
    let two = refused(config(&url)).await;
    assert!(two.starts_with("database.url is set, and ") && two.contains("server.db exists"), "{two}");
    std::fs::remove_file(&file).unwrap();

    // As on a standby of PostgreSQL.
    postgres.sql("postgres", &format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    let standby = refused(config(&url)).await;
    assert!(standby.contains("standby, or permits only reads"), "{standby}");
    postgres.sql("postgres", &format!("ALTER DATABASE {name} RESET default_transaction_read_only"));

    Server::start(config(&url), Clock::system()).await.unwrap().run(std::future::ready(())).await.unwrap();
    let later =
        format!("UPDATE {} SET version = 99, compatible_from = 99 WHERE version = 9", crate::database::SCHEMA.ledger);
    postgres.sql(name, &later);
    let newer = Server::start(config(&url), Clock::system()).await.expect_err("refused");
    assert!(matches!(newer, RunError::Data(DataError::Server(OpenError::Newer { got: 99, .. }))), "{newer}");
}

/// Servers of the earlier version may be running.
#[tokio::test]
async fn only_a_server_and_the_command_migrate_change_tables_of_an_earlier_version() {
    let Some(postgres) = shared() else { return };
    let directory = tempfile::tempdir().unwrap();
    let url = postgres.database();
    let name = url.rsplit('/').next().unwrap();
    let config = config(&directory.path().join("data"), &url);
    crate::data::open_for_command(&config).await.expect("a new database").close().await;
    let ledger = crate::owner::SCHEMA.ledger;
    let last = crate::owner::SCHEMA.version();
    postgres.sql(name, &format!("CREATE TABLE kept AS SELECT * FROM {ledger} WHERE version = {last}"));
    postgres.sql(name, &format!("DELETE FROM {ledger} WHERE version = {last}"));
    let refused = crate::data::open_for_command(&config).await.expect_err("refused");
    assert!(refused.to_string().contains("cloakwork-server migrate"), "{refused}");
    let copied = self::config(&directory.path().join("copied"), &url);
    let file = Config { database: Config::default().database, ..copied.clone() };
    crate::data::open_for_command(&file).await.expect("a new file").close().await;
    let refused = crate::data::move_to_server(&copied).await.map(drop).expect_err("refused");
    assert!(refused.to_string().contains("cloakwork-server migrate"), "{refused}");
    assert_eq!(postgres.sql(name, &format!("SELECT count(*) FROM {ledger} WHERE version = {last}")), "0");
    postgres.sql(name, &format!("INSERT INTO {ledger} SELECT * FROM kept"));
    crate::data::open_for_command(&config).await.expect("up to date").close().await;
    crate::data::migrate(&config).await.expect("up to date").close().await;
}

/// The statements of docs/kubernetes.md, where the migration has a role of its own.
#[tokio::test]
async fn a_server_needs_no_right_to_change_tables() {
    let Some(postgres) = shared() else { return };
    let (directory, url) = (tempfile::tempdir().unwrap(), postgres.database());
    let name = url.rsplit('/').next().unwrap();
    let data = directory.path().join("data");
    // Roles belong to all databases of a server.
    let (migrating, serving) = (format!("migrating_{name}"), format!("serving_{name}"));
    let rights = [
        format!("CREATE ROLE {migrating} LOGIN"),
        format!("CREATE ROLE {serving} LOGIN"),
        format!("GRANT CREATE ON SCHEMA public TO {migrating}"),
        format!(
            "ALTER DEFAULT PRIVILEGES FOR ROLE {migrating} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {serving}"
        ),
        format!("ALTER DEFAULT PRIVILEGES FOR ROLE {migrating} GRANT USAGE ON SEQUENCES TO {serving}"),
    ];
    rights.iter().for_each(|statement| _ = postgres.sql(name, statement));
    let config = |role: &str| config(&data, &url.replace("postgres@", &format!("{role}@")));
    let refused = refused(config(&serving)).await;
    assert!(refused.contains("permission denied"), "{refused}");
    crate::data::migrate(&config(&migrating)).await.expect("tables").close().await;
    Server::start(config(&serving), Clock::system()).await.unwrap().run(std::future::ready(())).await.unwrap();
}

#[tokio::test]
async fn a_database_server_without_the_required_standby_is_refused() {
    let settings = ["synchronous_standby_names=other", "synchronous_commit=local"];
    let (Some(alone), Some(waiting)) = (shared(), Postgres::start(&settings)) else { return };
    let directory = tempfile::tempdir().unwrap();
    let refusal = async |url: &str| {
        let mut config = config(&directory.path().join("data"), url);
        config.database.require_sync_standby = true;
        refused(config).await
    };
    let url = alone.database();
    let none = refusal(&url).await;
    assert!(none.starts_with("database.require_sync_standby: ") && none.contains("names is empty"), "{none}");
    // After a restore, commands run before there is a standby.
    let mut config = config(&directory.path().join("data"), &url);
    config.database.require_sync_standby = true;
    crate::data::open_for_command(&config).await.unwrap().close().await;
    let url = waiting.database();
    let local = refusal(&url).await;
    assert!(local.contains("synchronous_commit is not on"), "{local}");
    waiting.sql("postgres", "CREATE ROLE patient LOGIN; ALTER ROLE patient SET synchronous_commit = 'on'");
    let nobody = refusal(&url.replace("postgres@", "patient@")).await;
    assert!(nobody.contains("no standby is connected"), "{nobody}");
}

#[tokio::test]
async fn connections_are_encrypted_and_the_database_server_is_verified() {
    use std::os::unix::fs::PermissionsExt as _;

    let directory = tempfile::tempdir().unwrap();
    let certificates = directory.path().join("certificates");
    dev_certs::write(&certificates, &[], &Clock::system()).unwrap();
    // The servers of tests run as another user.
    for path in [directory.path(), &certificates] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let [certificate, key, authority] = ["server.pem", "server.key", "ca.pem"].map(|name| certificates.join(name));
    give_to_servers(&key);
    let files = [("ssl_cert_file", &certificate), ("ssl_key_file", &key)];
    let [certificate, key] = files.map(|(setting, file)| format!("{setting}={}", file.display()));
    let Some(postgres) = Postgres::start(&["ssl=on", &certificate, &key]) else { return };
    let url = postgres.database();
    let named = url.replace("127.0.0.1", "localhost");
    let data = directory.path().join("data");

    let unknown = refused(config(&data, &format!("{named}?sslmode=require"))).await;
    assert!(unknown.starts_with("database.url: ") && unknown.contains("UnknownIssuer"), "{unknown}");
    let mut config = config(&data, &named);
    config.database.ca_file = Some(authority);
    let server = Server::start(config, Clock::system()).await.unwrap();
    let encrypted = "SELECT count(*) > 1 AND bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE application_name LIKE 'cloakwork %'";
    assert_eq!(postgres.sql("postgres", encrypted), "t");
    server.run(std::future::ready(())).await.unwrap();
}
