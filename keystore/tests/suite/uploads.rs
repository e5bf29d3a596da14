//! The usual path of a blob, and two clients on one upload.

use std::{pin::pin, time::Duration};

use bytes::Bytes;
use cloakwork_keystore::{Digest, Error, Keystore, UploadId, UploadWriter};
use cloakwork_params::{AnySet, ObjectKind};
use cloakwork_storage::{Asker, Rows};
use futures_util::FutureExt as _;
use tokio::time::timeout;

use crate::{
    home::{Home, Kind, other_tenant, read, tenant},
    objects::{KEY, list, toy},
};

on_both_stores!(
    an_empty_upload_continues_after_a_restart,
    an_uploaded_blob_can_be_read,
    received_bytes_count_once_for_each_upload,
    a_large_blob_is_sent_in_parts,
    no_tenant_sees_the_blobs_of_another,
    request_ids_are_idempotent,
    two_clients_may_upload_one_blob,
    small_blobs_are_stored_directly,
);

async fn an_uploaded_blob_can_be_read(home: Home) {
    let keystore = home.open().await;
    let bytes = list(100, 1);
    let digest = Digest::of(&bytes);
    assert_eq!(keystore.find_missing(&tenant(), &[digest]).await.expect("asked"), [digest]);
    let blob = home.upload(&keystore, &bytes).await.expect("well formed");
    assert_eq!((blob.kind, blob.set, blob.key_id, blob.count), (ObjectKind::LweList, AnySet::Tfhe(toy()), KEY, 100));
    assert_eq!((blob.degree_max, blob.noise_level_max), (3, 1));
    assert_eq!(keystore.find_missing(&tenant(), &[digest]).await.expect("asked"), []);
    assert!(home.staged_files().is_empty());
    let reopened = home.open().await;
    assert_eq!(reopened.blob(&tenant(), &digest).await.expect("there"), blob);
    for offset in [0, 1, 112, bytes.len() as u64 - 1, bytes.len() as u64] {
        assert_eq!(read(&reopened, &digest, offset).await.expect("there"), bytes.slice(offset as usize..), "{offset}");
    }
    let beyond = read(&reopened, &digest, bytes.len() as u64 + 1).await.expect_err("beyond");
    assert_eq!(beyond.kind(), "OffsetOutOfRange");
    reopened.delete(&tenant(), &digest).await.expect("free");
    assert_eq!(read(&reopened, &digest, 0).await, Err(Error::BlobNotFound { digest }));
    assert!(home.blob_files().is_empty());
}

/// Blobs that are put from memory, such as small results, were not uploaded.
async fn received_bytes_count_once_for_each_upload(home: Home) {
    let database = home.database().await;
    let keystore = home.open_on(&database).await;
    let (first, second) = (list(100, 1), list(50, 2));
    home.upload(&keystore, &first).await.expect("well formed");
    home.upload(&keystore, &first).await.expect("the blob is there already");
    home.upload(&keystore, &second).await.expect("well formed");
    keystore.put(&tenant(), list(70, 3), None).await.expect("well formed");
    let mut reader = database.read(Asker::Upkeep).await.expect("a reader");
    let rows = reader.query("SELECT tenant, bytes FROM received_days").all().await.expect("rows");
    let received: i64 = rows.iter().map(|row| row.int("bytes").expect("a number")).sum();
    assert_eq!(received, (first.len() + second.len()) as i64);
    assert!(rows.iter().all(|row| row.text("tenant") == Ok(tenant().as_str())));
}

/// The blob has more than two parts of a multi-part upload, and more bytes than a window.
async fn a_large_blob_is_sent_in_parts(mut home: Home) {
    home.limits.window_bytes = 100_000;
    let keystore = home.open().await;
    let bytes = list(9_500, 1);
    assert!(bytes.len() > 18 << 20);
    let upload = home.begin(&keystore, &Digest::of(&bytes)).await.expect("opened");
    let mut writer = keystore.append(&tenant(), &upload.id, 0).await.expect("opened");
    // A single piece, much larger than the window.
    writer.write(bytes.clone()).await.expect("well formed");
    let blob = writer.finish().await.expect("well formed");
    assert_eq!(read(&keystore, &blob.digest, 5).await.expect("there"), bytes.slice(5..));
    let verified = keystore.read_verified(&tenant(), &blob.digest).await.expect("there");
    assert_eq!(crate::home::collect(verified).await.expect("good"), bytes);
}

async fn no_tenant_sees_the_blobs_of_another(home: Home) {
    let keystore = home.open().await;
    let bytes = list(10, 1);
    let digest = Digest::of(&bytes);
    home.upload(&keystore, &bytes).await.expect("well formed");
    let bob = other_tenant();
    assert_eq!(keystore.find_missing(&bob, &[digest]).await.expect("asked"), [digest]);
    assert_eq!(keystore.blob(&bob, &digest).await, Err(Error::BlobNotFound { digest }));
    assert_eq!(keystore.read(&bob, &digest, 0).await.err(), Some(Error::BlobNotFound { digest }));
    assert_eq!(keystore.delete(&bob, &digest).await, Err(Error::BlobNotFound { digest }));
    // There is no deduplication between tenants: the other tenant must send the bytes. The upload's
    // id reveals nothing either.
    let upload = keystore.begin_upload(&bob, &home.request(), &digest).await.expect("opened");
    assert!(!upload.complete);
    let id = upload.id.clone();
    assert_eq!(keystore.upload(&tenant(), &id).await, Err(Error::UploadNotFound { id: id.clone() }));
    assert_eq!(keystore.append(&tenant(), &id, 0).await.err(), Some(Error::UploadNotFound { id }));
    // A deletion by one tenant leaves the other tenant's blob.
    let mut writer = keystore.append(&bob, &upload.id, 0).await.expect("opened");
    writer.write(bytes.clone()).await.expect("well formed");
    writer.finish().await.expect("well formed");
    keystore.delete(&bob, &digest).await.expect("free");
    assert_eq!(read(&keystore, &digest, 0).await.expect("there"), bytes);
}

async fn request_ids_are_idempotent(home: Home) {
    let keystore = home.open().await;
    let [one, two] = [list(3, 1), list(3, 2)].map(|bytes| Digest::of(&bytes));
    let request = home.request();
    let begun = keystore.begin_upload(&tenant(), &request, &one).await.expect("opened");
    let again = keystore.begin_upload(&tenant(), &request, &one).await.expect("opened");
    assert_eq!(begun.id, again.id);
    assert_eq!(keystore.begin_upload(&tenant(), &request, &two).await, Err(Error::RequestIdReused));
    // Another tenant's request ids are independent.
    keystore.begin_upload(&other_tenant(), &request, &two).await.expect("opened");
    // The upload is complete at once, and the finished upload can still be looked up.
    home.upload(&keystore, &list(3, 1)).await.expect("well formed");
    assert!(keystore.begin_upload(&tenant(), &request, &one).await.expect("opened").complete);
    let info = keystore.upload(&tenant(), &begun.id).await.expect("remembered");
    assert_eq!((info.complete, info.committed_bytes), (true, one.size_bytes));
    // A client that missed the end of the upload sends the end again.
    let writer = keystore.append(&tenant(), &begun.id, one.size_bytes).await.expect("done");
    assert_eq!(writer.finish().await.expect("done").digest, one);
    let nowhere = UploadId::parse(&"0".repeat(32)).expect("well formed");
    assert_eq!(keystore.upload(&tenant(), &nowhere).await.expect_err("unknown").kind(), "UploadNotFound");
}

/// A client continues where another fell silent, and two active clients do not disturb each other.
async fn two_clients_may_upload_one_blob(home: Home) {
    let keystore = home.open().await;
    let bytes = list(600, 1);
    let digest = Digest::of(&bytes);
    let upload = home.begin(&keystore, &digest).await.expect("opened");
    let mut stale = keystore.append(&tenant(), &upload.id, 0).await.expect("opened");
    stale.write(bytes.slice(..300_000)).await.expect("well formed");
    // The first connection broke without notice. A client that returns is not locked out.
    let same = home.begin(&keystore, &digest).await.expect("opened");
    assert_eq!(same.id, upload.id);
    let mut offset = same.committed_bytes;
    let mut writer = loop {
        match keystore.append(&tenant(), &upload.id, offset).await {
            Ok(writer) => break writer,
            Err(Error::UploadOffsetMismatch { committed_bytes, got }) => {
                assert_ne!(committed_bytes, got);
                offset = committed_bytes;
            }
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(offset, 300_000, "nothing that came is lost");
    writer.write(bytes.slice(offset as usize..)).await.expect("well formed");
    assert_eq!(stale.write(bytes.slice(..1000)).await, Err(Error::UploadTakenOver));
    assert_eq!(stale.finish().await, Err(Error::UploadTakenOver));
    writer.finish().await.expect("well formed");
    assert_eq!(read(&keystore, &digest, 0).await.expect("there"), bytes);
    // Eight clients send the whole blob at once and retry: the result is one blob.
    let bytes = list(500, 2);
    let tasks: Vec<_> = (0..8).map(|_| tokio::spawn(insist(keystore.clone(), home.request(), bytes.clone()))).collect();
    for task in tasks {
        assert_eq!(task.await.expect("no panic"), Digest::of(&bytes));
    }
    assert_eq!(read(&keystore, &Digest::of(&bytes), 0).await.expect("there"), bytes);
    assert_eq!(home.blob_files().len(), 2);
    assert!(home.staged_files().is_empty());
}

/// Sends the whole blob, or finds that another client has sent it.
async fn insist(keystore: cloakwork_keystore::Keystore, request: [u8; 16], bytes: Bytes) -> Digest {
    loop {
        let upload = keystore.begin_upload(&tenant(), &request, &Digest::of(&bytes)).await.expect("opened");
        let mut writer = match keystore.append(&tenant(), &upload.id, upload.committed_bytes).await {
            Ok(writer) => writer,
            Err(Error::UploadOffsetMismatch { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        for piece in bytes[upload.committed_bytes as usize..].chunks(1 << 16) {
            writer.write(Bytes::copy_from_slice(piece)).await.expect("undisturbed");
        }
        return writer.finish().await.expect("well formed").digest;
    }
}

async fn small_blobs_are_stored_directly(home: Home) {
    let keystore = home.open().await;
    let bytes = list(2, 1);
    let blob = keystore.put(&tenant(), bytes.clone(), None).await.expect("well formed");
    assert_eq!(blob.digest, Digest::of(&bytes));
    assert_eq!(keystore.put(&tenant(), bytes.clone(), None).await.expect("well formed"), blob);
    assert_eq!(read(&keystore, &blob.digest, 0).await.expect("there"), bytes);
    let refused = keystore.put(&tenant(), Bytes::from_static(b"CLOAKWRK, or is it?"), None).await;
    assert_eq!(refused.expect_err("no envelope").kind(), "EnvelopeInvalid");
    assert!(home.staged_files().is_empty());
    assert_eq!(home.blob_files().len(), 1);
}

async fn an_empty_upload_continues_after_a_restart(home: Home) {
    let bytes = list(50, 1);
    let digest = Digest::of(&bytes);
    let upload = home.begin(&home.open().await, &digest).await.expect("opened");
    let keystore = home.open().await;
    assert_eq!(keystore.upload(&tenant(), &upload.id).await.expect("durable").committed_bytes, 0);
    home.upload(&keystore, &bytes).await.expect("well formed");
}

/// Timeout for steps that need almost no time.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// The list is longer than one statement.
#[tokio::test]
async fn missing_blobs_are_found_in_a_long_list() {
    let home = Home::local();
    let keystore = home.open().await;
    let (mut asked, mut missing) = (Vec::new(), Vec::new());
    for salt in 0..70_u64 {
        let stored = keystore.put(&tenant(), list(1, salt), None).await.expect("well formed").digest;
        let unknown = Digest::of(&salt.to_le_bytes());
        // A digest of another size names another blob.
        let other_size = Digest { size_bytes: stored.size_bytes + 1, ..stored };
        asked.extend([stored, unknown, other_size]);
        missing.extend([unknown, other_size]);
    }
    assert_eq!(keystore.find_missing(&tenant(), &asked).await.expect("asked"), missing);
    assert_eq!(keystore.find_missing(&other_tenant(), &asked).await.expect("asked"), asked);
    assert_eq!(keystore.find_missing(&tenant(), &[]).await.expect("asked"), []);
}

#[tokio::test]
async fn a_search_for_missing_blobs_lets_other_calls_pass() {
    let home = Home::local();
    let keystore = home.open().await;
    let stored = keystore.put(&tenant(), list(1, 1), None).await.expect("well formed").digest;
    let unknown: Vec<Digest> = (0..4096_u64).map(|number| Digest::of(&number.to_le_bytes())).collect();
    // Two of the tenant's three readers are in use. The other calls share the third.
    let (database, tenant) = (home.opened(), tenant());
    let asker = Asker::Tenant(tenant.as_str());
    let held = [database.read(asker).await.expect("a reader"), database.read(asker).await.expect("a reader")];
    // The search finds no blob to keep, so it does not wait for the writer.
    let busy = database.write(Asker::Upkeep, Rows::All).await.expect("a turn");
    let searching = tokio::spawn({
        let (keystore, tenant, unknown) = (keystore.clone(), tenant.clone(), unknown.clone());
        async move { keystore.find_missing(&tenant, &unknown).await }
    });
    tokio::task::yield_now().await;
    keystore.blob(&tenant, &stored).await.expect("there");
    assert!(!searching.is_finished(), "the other call waits for all queries of the search");
    let missing = timeout(STEP_TIMEOUT, searching).await.expect("in time").expect("no panic");
    assert_eq!(missing.expect("asked"), unknown);
    busy.commit().await.expect("committed");
    drop(held);
}

/// The tenants store equal bytes, so their blobs have equal hashes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_does_not_wait_for_another_tenants_commit() {
    /// Less than the time after which the client repeats a request to the bucket.
    const DEADLINE: Duration = Duration::from_secs(20);
    let home = Home::s3().await;
    let keystore = home.open().await;
    let bytes = list(50, 1);
    home.gate().close(&["PutObject"]);
    let puts = [tenant(), other_tenant()].map(|tenant| {
        let (keystore, bytes) = (keystore.clone(), bytes.clone());
        tokio::spawn(async move { keystore.put(&tenant, bytes, None).await })
    });
    timeout(DEADLINE, home.gate().reached("PutObject", 2)).await.expect("both blobs are on their way");
    home.gate().open();
    for put in puts {
        timeout(DEADLINE, put).await.expect("it ends").expect("no panic").expect("stored");
    }
}

/// Begins to receive a result of a worker.
async fn receive_result(keystore: &Keystore, worker: u128, bytes: &Bytes) -> UploadWriter {
    let result = keystore.begin_result(&tenant(), &Digest::of(bytes)).await.expect("opened");
    keystore.append_result(worker, &tenant(), &result.id, 0).await.expect("opened")
}

/// Each result that receives occupies a thread. A worker's further results wait, and do not hold up
/// the results of another worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_a_worker_wait_for_a_place_to_receive() {
    /// Number of results of one worker that receive at the same time.
    const PLACES: usize = 16;
    let home = Home::local();
    let keystore = home.open().await;
    let lists: Vec<_> = (0..PLACES as u64 + 2).map(|salt| list(5, salt)).collect();
    let mut writers = Vec::new();
    for bytes in &lists[..PLACES] {
        writers.push(receive_result(&keystore, 1, bytes).await);
    }
    let mut waiting = pin!(receive_result(&keystore, 1, &lists[PLACES]));
    let other = &lists[PLACES + 1];
    let stored = async {
        let mut writer = receive_result(&keystore, 2, other).await;
        writer.write(other.clone()).await.expect("well formed");
        writer.finish().await.expect("well formed")
    };
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("a worker has more results that receive than places"),
        blob = stored => assert_eq!(blob.digest, Digest::of(other)),
    }
    drop(writers.pop());
    let next = timeout(STEP_TIMEOUT, waiting).await.expect("a place is free again");
    assert_eq!(next.pause().await.expect("kept"), 0);
}

/// A commit into a bucket takes minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_commits_of_results_keep_no_place_to_receive() {
    /// Number of results of one worker that receive at the same time, and of one tenant that are
    /// committed at the same time.
    const PLACES: usize = 16;
    /// Less than the time after which the client repeats a request to the bucket.
    const DEADLINE: Duration = Duration::from_secs(20);
    let home = Home::s3().await;
    let keystore = home.open().await;
    let lists: Vec<_> = (0..=PLACES as u64).map(|salt| list(5, salt)).collect();
    home.gate().close(&["PutObject"]);
    let mut commits = Vec::new();
    for bytes in &lists[..PLACES] {
        let mut writer = receive_result(&keystore, 1, bytes).await;
        writer.write(bytes.clone()).await.expect("well formed");
        commits.push(tokio::spawn(writer.finish()));
    }
    timeout(DEADLINE, home.gate().reached("PutObject", PLACES)).await.expect("all are on their way");
    // The worker sends its next result. The result's commit waits, until its caller goes away.
    let last = &lists[PLACES];
    let mut writer = timeout(DEADLINE, receive_result(&keystore, 1, last)).await.expect("a place in time");
    writer.write(last.clone()).await.expect("well formed");
    let mut finish = Box::pin(writer.finish());
    assert!((&mut finish).now_or_never().is_none(), "the commit has to wait");
    drop(finish);
    let result = keystore.begin_result(&tenant(), &Digest::of(last)).await.expect("opened");
    let tenant = tenant();
    let again = keystore.append_result(1, &tenant, &result.id, last.len() as u64);
    let again = timeout(DEADLINE, again).await.expect("a commit that waits ends with its caller").expect("all is kept");
    home.gate().open();
    assert_eq!(again.finish().await.expect("well formed").digest, Digest::of(last));
    for commit in commits {
        timeout(DEADLINE, commit).await.expect("it ends").expect("no panic").expect("stored");
    }
}
