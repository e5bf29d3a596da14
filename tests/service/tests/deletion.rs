//! A deleted tenant leaves nothing behind, in database and store, and others keep all that they
//! have.

use std::{path::Path, time::Instant};

use cloakwork_proto::v1::WriteRequest;
use cloakwork_server::database::SCHEMAS;
use cloakwork_storage::{Asker, Database};
use cloakwork_tests_service::{Server, Setup, Tenant, VALUES};

use crate::shared::{Shared, begin_upload, name_of};

/// Each table with rows of tenants, and its column with the tenant's name.
const TABLES: [(&str, &str); 13] = [
    ("tenants", "name"),
    ("tokens", "tenant"),
    ("programs", "tenant"),
    ("jobs", "tenant"),
    ("tenant_usage", "tenant"),
    ("blobs", "tenant"),
    ("uploads", "tenant"),
    ("requests", "tenant"),
    ("request_counts", "tenant"),
    ("pins", "tenant"),
    ("keys", "tenant"),
    ("key_parts", "tenant"),
    ("usage", "tenant"),
];

fn count(table: &str, column: &str, tenant: &str) -> String {
    format!("SELECT COUNT(*) AS rows FROM {table} WHERE {column} = '{tenant}'")
}

/// The contents of jobs name their job only.
const CONTENTS: [&str; 2] = [
    "SELECT COUNT(*) AS rows FROM job_inputs WHERE job NOT IN (SELECT id FROM jobs)",
    "SELECT COUNT(*) AS rows FROM job_outputs WHERE job NOT IN (SELECT id FROM jobs)",
];

/// A tenant with keys, a stored ciphertext, an unfinished upload, and ended jobs.
async fn tenant(server: &Server, name: &str) -> Tenant {
    let token = server.token(name, "jobs,keys,read");
    let tenant = Tenant::new(server.client_with(&token).await).await;
    tenant.check_squares(&[1, 2, 3]).await;
    let list = tenant.keys.encrypt(&[1; 2000], VALUES as u32 - 1).expect("values");
    tenant.client.store(&list).await.expect("stored");
    let rest = tenant.keys.encrypt(&[2; 2000], VALUES as u32 - 1).expect("values").envelope;
    let (mut blobs, upload) = begin_upload(server, token, &rest).await;
    let first = WriteRequest { upload, offset_bytes: 0, data: rest.slice(..5000), finish: false };
    blobs.write(tokio_stream::iter([first])).await.expect("the first bytes");
    tenant
}

/// Deletes the tenant `acme` while a job of it runs. The tenant `other` stays.
async fn delete_acme(server: &Server) {
    let acme = tenant(server, "acme").await;
    let other = tenant(server, "other").await;
    let values: Vec<u64> = (0..60_000).map(|row| row % VALUES).collect();
    acme.client.submit(&acme.squares(&values)).await.expect("a long job");
    let begun = Instant::now();
    let output = server.command().args(["tenant", "delete", "acme"]).output().expect("the command runs");
    let text = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    assert!(output.status.success() && text.contains("Tenant acme is deleted, with everything"), "{text}");
    eprintln!("the tenant was deleted after {:?}", begun.elapsed());
    let error = acme.client.submit(&acme.squares(&[1])).await.expect_err("the token is gone");
    assert_eq!(error.reason(), Some("UNAUTHENTICATED"), "{error:?}");
    let unknown = server.command().args(["tenant", "delete", "acme"]).output().expect("the command runs");
    assert!(!unknown.status.success());
    other.check_squares(&[4, 5]).await;
}

/// Fails unless only the tenant `other` has rows and files.
fn check(rows: impl Fn(&str) -> u64, blobs: &Path) {
    for (table, column) in TABLES {
        assert_eq!(rows(&count(table, column, "acme")), 0, "rows of the deleted tenant in {table}");
        let has_any = table == "pins" || rows(&count(table, column, "other")) > 0;
        assert!(has_any, "rows of the other tenant in {table}");
    }
    for contents in CONTENTS {
        assert_eq!(rows(contents), 0, "{contents}");
    }
    assert_eq!(files(&blobs.join("acme")), 0, "bytes of the deleted tenant");
    assert!(files(&blobs.join("other")) > 2, "bytes of the other tenant");
}

fn files(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { 1 }).sum()
}

/// The name belongs to a new tenant from then on, which starts with nothing.
async fn begin_again(server: &Server) {
    let acme = tenant(server, "acme").await;
    acme.check_squares(&[6, 7]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_tenant_leaves_nothing_in_a_file_and_a_directory() {
    let mut server = Server::start(Setup::default()).await;
    delete_acme(&server).await;
    let data = server.directory().join("data");
    assert_eq!(files(&data.join("staging/acme")), 0);
    server.stop();
    let database = Database::open(&data.join("server.db"), &SCHEMAS, 1).await.expect("it opens");
    let rows = |sql: &str| {
        let (database, sql) = (database.clone(), sql.to_owned());
        let counted = async move {
            let mut reader = database.read(Asker::Upkeep).await.expect("a reader");
            reader.query(String::leak(sql)).one().await.expect("a count").unsigned("rows").expect("a count")
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(counted))
    };
    check(rows, &data.join("blobs"));
    database.close().await;
    server.restart().await;
    begin_again(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_tenant_leaves_nothing_in_postgres_and_a_bucket() {
    let Some(shared) = Shared::new().await else { return };
    let server = Server::start(shared.setup()).await;
    delete_acme(&server).await;
    let rows = |sql: &str| shared.postgres.sql(name_of(&shared.url), sql).parse().expect("a count");
    check(rows, &shared.bucket.directory);
    begin_again(&server).await;
}
