//! A store of blobs serves one database, and is compared with it after a restore.

use std::{
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::{Duration, SystemTime},
};

use cloakwork_client::Progress;
use cloakwork_tests_bucket::Bucket;
use cloakwork_tests_service::{Server, Setup, Tenant, Worker, eventually};
use tokio::time::timeout;

use crate::shared::Shared;

async fn bucket() -> (Bucket, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    (Bucket::start(directory.path()).await, directory)
}

fn run(server: &Server, arguments: &[&str]) -> (Output, String) {
    let output = server.command().args(arguments).output().expect("the command runs");
    let text = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    (output, text)
}

/// The operator has copied the settings of one installation to another.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_of_another_installation_is_refused_at_the_start() {
    let (bucket, _directory) = bucket().await;
    let mut first = Server::start(Setup::default().with_bucket(&bucket)).await;
    let mut tenant = Tenant::new(first.client().await).await;
    tenant.check_squares(&[3]).await;
    // The blobs are old enough to be removed by a server that does not know them.
    files(&bucket.directory).iter().for_each(|(_, path)| make_old(path));
    let second = Server::prepare(Setup::default().with_bucket(&bucket));
    let (output, text) = run(&second, &["serve"]);
    assert!(!output.status.success(), "{text}");
    for part in ["storage.s3_bucket bucket: it belongs to another database", "reconcile --claim`"] {
        assert!(text.contains(part), "{text}");
    }
    first.stop();
    first.restart().await;
    tenant.continue_with(first.client().await).await;
    tenant.check_squares(&[4]).await;
}

/// A database on PostgreSQL has other servers, which must be able to take over meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_without_its_bucket_and_not_with_wrong_credentials() {
    let (bucket, _directory) = bucket().await;
    let away = Server::prepare(Setup::default().with_bucket(&bucket).with("storage.s3_endpoint", NOWHERE));
    let mut server = Server::start(Setup::default().with_bucket(&bucket)).await;
    let mut tenant = Tenant::new(server.client().await).await;
    server.stop();
    server.set("storage.s3_endpoint", NOWHERE);
    server.restart().await;
    let log = server.log();
    for part in ["calls that need the store of blobs fail until it answers", "storage.s3_bucket bucket"] {
        assert!(log.contains(part), "{log}");
    }
    server.stop();
    server.set("storage.s3_endpoint", &bucket.endpoint);
    server.restart().await;
    tenant.continue_with(server.client().await).await;
    tenant.check_squares(&[4]).await;
    server.stop();
    server.set_variable("AWS_SECRET_ACCESS_KEY", "wrong");
    let (output, text) = run(&server, &["serve"]);
    assert!(!output.status.success() && text.contains("storage.s3_bucket bucket: "), "{text}");
    // A first start must write to its store.
    let mut first = away.command();
    let mut first = first.arg("serve").stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let is_ready = away.probe("/readyz").await == Some(200);
    first.kill().expect("it runs, or has ended");
    first.wait().expect("it has ended");
    assert!(!is_ready, "it has no store");
}

/// Makes an object old enough to be removed if the database does not know it.
fn make_old(object: &Path) {
    let file = std::fs::File::options().append(true).open(object).expect("a file");
    file.set_modified(SystemTime::now() - Duration::from_secs(2 * 24 * 3600)).expect("a time");
}

/// No server listens here.
const NOWHERE: &str = "http://127.0.0.1:1";

/// Its blobs would be nowhere once it owned the database.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_server_with_blobs_of_its_own_is_refused_at_the_start() {
    let Some(shared) = Shared::new().await else { return };
    let first = Server::start(shared.setup()).await;
    let second = Server::prepare(Setup::default().with("database.url", &shared.url));
    second.join_installation(&first);
    let (output, text) = run(&second, &["serve"]);
    assert!(!output.status.success(), "{text}");
    let data = second.directory().join("data");
    let expected = format!("storage.directory {}: it is not the store that this database has used", data.display());
    assert!(text.contains(&expected), "{text}");
    // All blobs of the database would count as missing.
    let (output, text) = run(&second, &["reconcile", "--mark"]);
    assert!(!output.status.success() && text.contains(&expected), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_was_restored_to_an_earlier_time_is_reconciled() {
    let (bucket, _directory) = bucket().await;
    let mut server = Server::start(Setup::default().with_bucket(&bucket)).await;
    let mut tenant = Tenant::new(server.client().await).await;
    tenant.check_squares(&[3]).await;
    server.stop();
    let (output, text) = run(&server, &["reconcile"]);
    assert!(output.status.success() && text.contains("blobs in the database, 0 of them without bytes."), "{text}");
    let largest = files(&bucket.directory.join("local")).into_iter().max_by_key(|(bytes, _)| *bytes);
    let (_, key) = largest.expect("parts of a key");
    std::fs::remove_file(&key).expect("a file");
    let name = key.file_name().expect("a name").to_string_lossy().into_owned();
    let (hash, _generation) = name.split_once('-').expect("two parts");
    let (output, text) = run(&server, &["reconcile"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let lost = text.lines().find(|line| line.starts_with("lost  local ")).expect("a lost blob");
    assert!(lost.contains(" key ") && lost.contains(hash), "{text}");
    let unknown = bucket.directory.join(format!("local/ab/{}-0000000000000001", "ab".repeat(32)));
    std::fs::create_dir_all(unknown.parent().expect("a directory")).expect("a directory");
    std::fs::write(&unknown, "of a later time").expect("a file");
    make_old(&unknown);
    let (output, text) = run(&server, &["reconcile", "--mark"]);
    assert!(output.status.success() && text.contains("1 blobs are marked as missing."), "{text}");
    assert!(text.contains(" 1 of them unknown to the database."), "{text}");
    server.restart().await;
    eventually("the unknown object is removed", || async { !unknown.exists() }).await;
    tenant.continue_with(server.client().await).await;
    let error = tenant.client.run(&tenant.squares(&[5])).await.expect_err("a part of the key is missing");
    assert_eq!(error.reason(), Some("KEY_QUARANTINED"), "{error:?}");
    tenant.client.push_key(&tenant.keys, &Progress::none()).await.expect("the part is uploaded again");
    tenant.check_squares(&[5]).await;
    let is_of_key = |(_, path): &(u64, PathBuf)| path.to_string_lossy().contains(hash);
    assert_eq!(files(&bucket.directory).iter().filter(|file| is_of_key(file)).count(), 1);
}

/// The parts of this key have tens of megabytes. A worker whose store is another one gets the bytes
/// from the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_reads_large_blobs_from_the_store_itself() {
    let (bucket, _directory) = bucket().await;
    let server = Server::start(Setup::default().without_worker().with_bucket(&bucket)).await;
    let token = server.token("workers", "worker");
    let tenant = Tenant::of_set(server.client().await, "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128").await;
    let mut sent_before = 0.0;
    for (store, bytes_sent) in [(bucket.endpoint.as_str(), 0..1_000_000), (NOWHERE, 1_000_000..i64::MAX)] {
        let mut worker = Worker::start_with(&server, "worker", &token, &["--blob-store", store]);
        let job = tenant.check_squares(&[3]);
        timeout(Duration::from_secs(120), job).await.unwrap_or_else(|_| panic!("{store}: {}", worker.process().log()));
        worker.process().kill();
        let sent = server.metric("cloakwork_download_bytes_total").await;
        assert!(bytes_sent.contains(&((sent - sent_before) as i64)), "{store}: {sent_before} {sent}");
        sent_before = sent;
    }
    assert!(server.metric("cloakwork_blob_urls_total").await >= 2.0);
}

/// Sizes and paths of all files in a directory and below.
fn files(directory: &Path) -> Vec<(u64, PathBuf)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push((path.metadata().expect("a file").len(), path)),
        }
    }
    found
}
