//! A child process that is killed in the middle of an upload.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use bytes::Bytes;
use cloakwork_keystore::Digest;

use crate::{
    home::{Home, database_for_child, read, tenant},
    objects::list,
};

const CHUNK_BYTES: usize = 64 << 10;
const CHILD: &str = "CLOAKWORK_TEST_UPLOAD_INTO";
const CHILD_UPLOADS_LARGE: &str = "CLOAKWORK_TEST_UPLOAD_LARGE";

/// An upload, and the window of its keystore.
struct Upload {
    blob: Bytes,
    window_bytes: u32,
}

impl Upload {
    fn small() -> Self {
        Self { blob: list(8_000, 1), window_bytes: 256 << 10 }
    }

    /// An upload that is written in blocks.
    fn large() -> Self {
        Self { blob: list(30_000, 1), window_bytes: 8 << 20 }
    }
}

/// The child: uploads the blob, and prints the offset at its start and after each chunk. In a usual
/// test run it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_uploads() {
    let Some(root) = std::env::var_os(CHILD) else { return };
    let is_large = std::env::var_os(CHILD_UPLOADS_LARGE).is_some();
    let Upload { blob: bytes, window_bytes } = if is_large { Upload::large() } else { Upload::small() };
    let mut home = Home::local();
    home.limits.window_bytes = window_bytes;
    let mut options = home.options(root.as_ref());
    options.store = cloakwork_keystore::StoreOptions::Local(std::path::Path::new(&root).join("blobs"));
    let database = crate::home::database(root.as_ref()).await;
    let keystore = cloakwork_keystore::Keystore::open(options, &database).await.expect("it opens");
    let upload = keystore.begin_upload(&tenant(), &[9; 16], &Digest::of(&bytes)).await.expect("opened");
    let mut writer = keystore.append(&tenant(), &upload.id, upload.committed_bytes).await.expect("opened");
    let mut sent = upload.committed_bytes as usize;
    println!("\nsent {sent}");
    while sent < bytes.len() {
        let end = bytes.len().min(sent + CHUNK_BYTES);
        writer.write(bytes.slice(sent..end)).await.expect("well formed");
        sent = end;
        println!("\nsent {sent}");
    }
    writer.finish().await.expect("well formed");
    println!("\nfinished");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_costs_at_most_a_chunk_and_the_window() {
    kill(Upload::small(), &[200_000, 3_000_000, 8_000_000, 15_000_000], &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_costs_no_more_of_a_large_upload() {
    kill(Upload::large(), &[9_000_000, 21_000_000, 28_000_000], &[CHILD_UPLOADS_LARGE]).await;
}

/// Kills children in the middle of an upload, and then completes the upload.
async fn kill(upload: Upload, kills_at: &[u64], variables: &[&str]) {
    let Upload { blob: bytes, window_bytes } = upload;
    let mut home = Home::local();
    home.limits.window_bytes = window_bytes;
    // Each kill comes later, and each child continues where the previous child was killed.
    let mut committed_bytes = 0;
    for kill_at in kills_at {
        let (started_at, sent) = upload_until(home.root(), *kill_at, variables);
        assert_eq!(started_at, committed_bytes);
        let keystore = home.open().await;
        let upload = keystore.begin_upload(&tenant(), &[9; 16], &Digest::of(&bytes)).await.expect("opened");
        committed_bytes = upload.committed_bytes;
        let lost = sent.saturating_sub(committed_bytes);
        assert!(lost <= u64::from(window_bytes) + CHUNK_BYTES as u64, "{lost} bytes of {sent} were lost");
        assert!(!upload.complete);
        home.close().await;
    }
    let keystore = home.open().await;
    home.upload(&keystore, &bytes).await.expect("well formed");
    assert_eq!(read(&keystore, &Digest::of(&bytes), 0).await.expect("there"), bytes);
    assert!(home.staged_files().is_empty());
}

/// Starts a child, kills it after it has handed over the bytes up to `kill_at`, and returns the
/// first and the last offset that it printed.
fn upload_until(root: &std::path::Path, kill_at: u64, variables: &[&str]) -> (u64, u64) {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "crash::child_that_uploads", "--nocapture", "--test-threads=1"])
        .env(CHILD, root)
        .envs(database_for_child(root))
        .envs(variables.iter().map(|name| (name, "1")))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let mut killed = false;
    let mut started_at = None;
    let mut sent = 0;
    // Reading continues after the kill, because lines from before the kill count.
    for line in BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok) {
        assert_ne!(line, "finished", "the child was too fast to be killed");
        if let Some(bytes) = line.strip_prefix("sent ") {
            sent = bytes.parse().expect("a number");
            started_at.get_or_insert(sent);
        }
        if sent >= kill_at && !killed {
            child.kill().expect("it runs");
            killed = true;
        }
    }
    assert!(killed, "the child ended after {sent} bytes without being killed");
    child.wait().expect("it ended");
    (started_at.expect("an offset"), sent)
}
