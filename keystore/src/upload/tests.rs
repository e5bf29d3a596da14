//! Waits of results for a place to receive.

use std::time::{Duration, Instant};

use cloakwork_clock::Clock;
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::*;
use crate::{Limits, Options, SCHEMA, StoreOptions};

/// Timeout for steps that need almost no time.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_secs(24 * 3600);

async fn keystore(directory: &tempfile::TempDir) -> Keystore {
    let root = directory.path();
    let database = cloakwork_tests_database::open(&root.join("catalogue.db"), &[SCHEMA], 4).await;
    let limits = Limits {
        window_bytes: 1 << 20,
        uploads_per_tenant: 1024,
        uploads_total: 1024,
        writers_total: 128,
        writers_per_tenant: 32,
        list_bytes: 1 << 20,
        tenant_bytes: 1 << 30,
        unpinned_bytes: 1 << 30,
        keys_per_tenant: 16,
        parts_per_key: 16,
        page_entries: 16,
        digests_per_call: 16,
        staged_bytes: 1 << 40,
        upload_expiry: DAY,
        keep: DAY,
        request_memory: DAY,
        request_ids_per_tenant: 16,
        orphan_age: DAY,
    };
    let options = Options {
        staging: root.join("staging"),
        store: StoreOptions::Local(root.join("blobs")),
        allow_weak_sets: true,
        limits,
        clock: Clock::system(),
        own_limits: None,
        watch: None,
    };
    Keystore::open(options, &database).await.expect("it opens")
}

fn tenant() -> TenantId {
    TenantId::new("alice").expect("a name")
}

fn digest(number: u64) -> Digest {
    Digest::of(&number.to_le_bytes())
}

/// Begins to receive result `number`, and sends none of its bytes.
async fn receive(keystore: &Keystore, worker: u128, number: u64) -> Result<UploadWriter, Error> {
    let result = keystore.begin_result(&tenant(), &digest(number)).await?;
    keystore.append_result(worker, &tenant(), &result.id, 0).await
}

/// Results of four workers, which have all places.
async fn take_all_places(keystore: &Keystore) -> Vec<UploadWriter> {
    let mut writers = Vec::new();
    for number in 0..RESULTS_MAX {
        let worker = number / WORKER_RESULTS_MAX;
        let receiving = timeout(STEP_TIMEOUT, receive(keystore, worker.into(), number)).await;
        writers.push(receiving.expect("a place in time").expect("opened"));
    }
    assert_eq!(keystore.results().held(), RESULTS_MAX);
    writers
}

/// Begins to receive a result in a task. Returns when the result waits for its place.
async fn wait_in_line(keystore: &Keystore, worker: u128, number: u64) -> JoinHandle<Result<UploadWriter, Error>> {
    let before = keystore.results().tenants();
    let waiting = tokio::spawn({
        let keystore = keystore.clone();
        async move { receive(&keystore, worker, number).await }
    });
    until("the result is in line", || keystore.results().tenants() > before).await;
    assert_eq!(keystore.results().held(), RESULTS_MAX, "the result has a place");
    waiting
}

async fn until(what: &str, is_met: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_met() {
        assert!(begun.elapsed() < STEP_TIMEOUT, "not in time: {what}");
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_all_workers_share_the_places_to_receive() {
    let directory = tempfile::tempdir().expect("a directory");
    let keystore = keystore(&directory).await;
    let mut writers = take_all_places(&keystore).await;
    // No worker has more than its share, and yet the next worker waits.
    let waiting = wait_in_line(&keystore, 100, 100).await;
    drop(writers.pop());
    let next = timeout(STEP_TIMEOUT, waiting).await.expect("a place is free again").expect("no panic");
    assert_eq!(next.expect("opened").pause().await.expect("kept"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_result_leaves_the_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let keystore = keystore(&directory).await;
    let mut writers = take_all_places(&keystore).await;
    let cancelled = wait_in_line(&keystore, 100, 100).await;
    let second = wait_in_line(&keystore, 101, 101).await;
    cancelled.abort();
    until("the line is left", || keystore.results().tenants() == 5).await;
    drop(writers.pop());
    let second = timeout(STEP_TIMEOUT, second).await.expect("the only free place").expect("no panic");
    drop((second.expect("opened"), writers));
    until("all places are free", || keystore.results().tenants() == 0).await;
    // The turn of the cancelled result is free, too.
    let again = timeout(STEP_TIMEOUT, receive(&keystore, 100, 100)).await.expect("a turn in time");
    again.expect("opened");
}

/// Places may take long to come free, and the client's blob does not depend on them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_does_not_wait_for_the_place_of_a_result() {
    let directory = tempfile::tempdir().expect("a directory");
    let keystore = keystore(&directory).await;
    let _writers = take_all_places(&keystore).await;
    let (tenant, digest) = (tenant(), digest(100));
    let waiting = wait_in_line(&keystore, 100, 100).await;
    let upload = keystore.begin_upload_once(&tenant, &digest).await.expect("opened");
    let writer = timeout(STEP_TIMEOUT, keystore.append(&tenant, &upload.id, 0)).await;
    let writer = writer.expect("a turn in time").expect("opened");
    let ended = timeout(STEP_TIMEOUT, waiting).await.expect("it ends").expect("no panic");
    assert_eq!(ended.err(), Some(Error::UploadTakenOver));
    assert_eq!(writer.pause().await.expect("kept"), 0);
}

#[test]
fn all_tests_pass_on_postgres() {
    cloakwork_tests_database::run_again_on_postgres(&[]);
}
