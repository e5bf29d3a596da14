//! Lists and aborts of uploads.

use std::{pin::pin, time::Duration};

use bytes::Bytes;
use cloakwork_keystore::{BlobInfo, Digest, Error, Keystore, TenantId, UploadId, UploadWriter};
use futures_util::{
    FutureExt as _,
    future::{Either, join, join_all, select},
};
use tokio::time::timeout;

use crate::{
    home::{DEADLINE, Home, Kind, eventually, other_tenant, read, tasks, tenant},
    objects::list,
};

on_both_stores!(
    an_abort_gives_place_and_bytes_back_at_once,
    an_abort_works_after_a_restart,
    an_abort_ends_the_writer_and_those_that_wait,
    an_abort_that_meets_the_end_of_a_write_leaves_a_whole_blob_or_nothing,
    an_abort_spares_stored_blobs_and_results,
);

/// Time that suffices for a step of a write or an abort.
const STEP_TIME: Duration = Duration::from_millis(300);

async fn write_all(mut writer: UploadWriter, bytes: Bytes) -> Result<BlobInfo, Error> {
    writer.write(bytes).await?;
    writer.finish().await
}

async fn abort(keystore: &Keystore, tenant: &TenantId, id: &UploadId) {
    timeout(DEADLINE, keystore.abort_upload(tenant, id)).await.expect("an abort does not wait").expect("aborted");
}

async fn names(keystore: &Keystore) -> Vec<UploadId> {
    let page = keystore.list_uploads(&tenant(), None, 0).await.expect("a page");
    assert_eq!(page.next, None);
    page.uploads.into_iter().map(|upload| upload.id).collect()
}

async fn an_abort_gives_place_and_bytes_back_at_once(mut home: Home) {
    let bytes = [list(50, 1), list(50, 2), list(50, 3)];
    let size = bytes[0].len() as u64;
    home.limits.uploads_per_tenant = 2;
    home.limits.tenant_bytes = 2 * size;
    let keystore = home.open().await;
    assert_eq!(names(&keystore).await, []);
    let first = home.begin(&keystore, &Digest::of(&bytes[0])).await.expect("first");
    let second = home.begin(&keystore, &Digest::of(&bytes[1])).await.expect("second");
    let mut writer = keystore.append(&tenant(), &first.id, 0).await.expect("a seat");
    writer.write(bytes[0].slice(..5000)).await.expect("well formed");
    writer.pause().await.expect("kept");
    let refused = home.begin(&keystore, &Digest::of(&bytes[2])).await;
    assert_eq!(refused, Err(Error::UploadsUsedUp { limit: 2 }));
    let listed = keystore.list_uploads(&tenant(), None, 0).await.expect("a page").uploads;
    let first = keystore.upload(&tenant(), &first.id).await.expect("open");
    let second = keystore.upload(&tenant(), &second.id).await.expect("open");
    assert_eq!((first.committed_bytes, second.committed_bytes), (5000, 0));
    assert!(listed.contains(&first) && listed.contains(&second) && listed.len() == 2, "{listed:?}");

    // Another tenant sees neither upload, and its aborts of these ids change nothing.
    assert_eq!(keystore.list_uploads(&other_tenant(), None, 0).await.expect("a page").uploads, []);
    abort(&keystore, &other_tenant(), &first.id).await;
    assert_eq!(keystore.upload(&tenant(), &first.id).await, Ok(first.clone()));

    for _ in 0..2 {
        abort(&keystore, &tenant(), &first.id).await;
        assert_eq!(names(&keystore).await, std::slice::from_ref(&second.id));
        assert!(home.staged_files().is_empty());
    }
    let gone = Error::UploadNotFound { id: first.id.clone() };
    assert_eq!(keystore.upload(&tenant(), &first.id).await, Err(gone.clone()));
    assert_eq!(keystore.append(&tenant(), &first.id, 0).await.err(), Some(gone));
    // The place and the announced bytes are both free.
    home.upload(&keystore, &bytes[2]).await.expect("there is room");
    // An aborted upload can begin again, under its former id and from the first byte.
    abort(&keystore, &tenant(), &second.id).await;
    let again = home.begin(&keystore, &Digest::of(&bytes[0])).await.expect("there is room");
    assert_eq!((again.id, again.committed_bytes), (first.id, 0));
    home.upload(&keystore, &bytes[0]).await.expect("well formed");
    assert_eq!(read(&keystore, &Digest::of(&bytes[0]), 0).await.expect("there"), bytes[0]);
}

async fn an_abort_works_after_a_restart(home: Home) {
    let bytes = list(50, 1);
    let keystore = home.open().await;
    let upload = home.begin(&keystore, &Digest::of(&bytes)).await.expect("opened");
    let mut writer = keystore.append(&tenant(), &upload.id, 0).await.expect("a seat");
    writer.write(bytes.slice(..5000)).await.expect("well formed");
    writer.pause().await.expect("kept");
    home.close().await;
    let keystore = home.open().await;
    assert_eq!(names(&keystore).await, std::slice::from_ref(&upload.id));
    abort(&keystore, &tenant(), &upload.id).await;
    assert!(home.staged_files().is_empty());
    home.close().await;
    let keystore = home.open().await;
    assert_eq!(names(&keystore).await, []);
    assert_eq!(keystore.upload(&tenant(), &upload.id).await.expect_err("gone").kind(), "UploadNotFound");
}

async fn an_abort_ends_the_writer_and_those_that_wait(home: Home) {
    let keystore = home.open().await;
    let bytes = list(600, 1);
    let upload = home.begin(&keystore, &Digest::of(&bytes)).await.expect("opened");
    let gone = Error::UploadNotFound { id: upload.id.clone() };
    let mut writer = keystore.append(&tenant(), &upload.id, 0).await.expect("a seat");
    writer.write(bytes.slice(..300_000)).await.expect("well formed");
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            let (keystore, id) = (keystore.clone(), upload.id.clone());
            tokio::spawn(async move { keystore.append(&tenant(), &id, 0).await.err() })
        })
        .collect();
    abort(&keystore, &tenant(), &upload.id).await;
    assert!(home.staged_files().is_empty());
    // A writer that waits for its client's next bytes learns of the abort, and so does a writer
    // that writes on.
    assert_eq!(timeout(DEADLINE, writer.ended()).await.expect("the writer ends without a further byte"), gone);
    assert_eq!(writer.write(bytes.slice(300_000..)).await, Err(gone.clone()));
    assert_eq!(writer.finish().await, Err(gone.clone()));
    for waiting in waiting {
        assert_eq!(timeout(DEADLINE, waiting).await.expect("told").expect("no panic"), Some(gone.clone()));
    }
    assert!(home.staged_files().is_empty());
    home.upload(&keystore, &bytes).await.expect("it can begin again");
}

async fn an_abort_that_meets_the_end_of_a_write_leaves_a_whole_blob_or_nothing(home: Home) {
    const ROUNDS: u64 = 24;
    let keystore = home.open().await;
    let (mut stored, mut aborted) = (0, 0);
    for round in 0..ROUNDS {
        let bytes = list(40, 100 + round);
        let digest = Digest::of(&bytes);
        let upload = home.begin(&keystore, &digest).await.expect("opened");
        let writer = keystore.append(&tenant(), &upload.id, 0).await.expect("a seat");
        if round == 0 {
            abort(&keystore, &tenant(), &upload.id).await;
        }
        let writing = tokio::spawn(write_all(writer, bytes.clone()));
        // Each round aborts at another step of the write: the first before the write, the last
        // after it.
        for _ in 0..round * 8 {
            tokio::task::yield_now().await;
        }
        if round == ROUNDS - 1 {
            eventually("the write ends", || writing.is_finished()).await;
        }
        abort(&keystore, &tenant(), &upload.id).await;
        let written = timeout(DEADLINE, writing).await.expect("it ends").expect("no panic");
        match written {
            Ok(blob) => {
                assert_eq!(read(&keystore, &blob.digest, 0).await.expect("acknowledged"), bytes);
                stored += 1;
            }
            Err(error) => {
                assert_eq!(error, Error::UploadNotFound { id: upload.id.clone() });
                assert_eq!(keystore.blob(&tenant(), &digest).await, Err(Error::BlobNotFound { digest }));
                aborted += 1;
            }
        }
        assert!(home.staged_files().is_empty(), "round {round}");
        assert_eq!(names(&keystore).await, []);
        eventually("only what was stored is there", || home.blob_files().len() == stored).await;
    }
    assert!(stored > 0 && aborted > 0, "{stored} stored, {aborted} aborted");
}

async fn an_abort_spares_stored_blobs_and_results(mut home: Home) {
    home.limits.uploads_per_tenant = 1;
    let keystore = home.open().await;
    let stored = list(50, 1);
    home.upload(&keystore, &stored).await.expect("well formed");
    let done = home.begin(&keystore, &Digest::of(&stored)).await.expect("complete at once");
    abort(&keystore, &tenant(), &done.id).await;
    assert_eq!(read(&keystore, &done.digest, 0).await.expect("there"), stored);
    assert!(keystore.upload(&tenant(), &done.id).await.expect("remembered").complete);

    // A worker hands in a result. No client sees the result, and no abort ends it, before its bytes
    // arrive or in between.
    let bytes = list(50, 2);
    let result = keystore.begin_result(&tenant(), &Digest::of(&bytes)).await.expect("opened");
    abort(&keystore, &tenant(), &result.id).await;
    let mut writer = keystore.append_result(1, &tenant(), &result.id, 0).await.expect("it goes on");
    writer.write(bytes.slice(..5000)).await.expect("well formed");
    assert_eq!(names(&keystore).await, []);
    // A client that begins the same blob does not turn the result into a client's upload.
    home.begin(&keystore, &Digest::of(&bytes)).await.expect("the one that is open");
    abort(&keystore, &tenant(), &result.id).await;
    writer.write(bytes.slice(5000..)).await.expect("it goes on");
    assert_eq!(writer.finish().await.expect("well formed").digest, Digest::of(&bytes));

    // A worker's unfinished result does not take the place of a client's upload either.
    keystore.begin_result(&tenant(), &Digest::of(&list(50, 3))).await.expect("opened");
    home.begin(&keystore, &Digest::of(&list(50, 4))).await.expect("the only place");
}

#[tokio::test]
async fn uploads_are_listed_page_by_page() {
    let mut home = Home::local();
    home.limits.page_entries = 3;
    let keystore = home.open().await;
    let mut begun = Vec::new();
    for salt in 0..7 {
        begun.push(home.begin(&keystore, &Digest::of(&list(5, salt))).await.expect("opened").id);
    }
    begun.sort_by(|left, right| left.as_str().cmp(right.as_str()));
    for (asked, sizes) in [(0, vec![3, 3, 1]), (2, vec![2, 2, 2, 1]), (100, vec![3, 3, 1])] {
        let (mut listed, mut pages, mut after) = (Vec::new(), Vec::new(), None);
        loop {
            let page = keystore.list_uploads(&tenant(), after.as_ref(), asked).await.expect("a page");
            pages.push(page.uploads.len());
            listed.extend(page.uploads.into_iter().map(|upload| upload.id));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!((listed, pages), (begun.clone(), sizes));
    }
    // A page whose last upload was removed meanwhile still determines where the next page begins.
    let first = keystore.list_uploads(&tenant(), None, 3).await.expect("a page").next.expect("more");
    abort(&keystore, &tenant(), &first).await;
    let rest = keystore.list_uploads(&tenant(), Some(&first), 3).await.expect("a page");
    assert_eq!(rest.uploads.into_iter().map(|upload| upload.id).collect::<Vec<_>>(), begun[3..6]);
}

/// An abort waits neither for the bucket, whatever request is in flight, nor for the calls that
/// clear away. After the bucket answers again, it keeps nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_does_not_wait_for_the_bucket_which_keeps_nothing() {
    let home = Home::s3().await;
    let keystore = home.open().await;
    let (small, large) = (list(50, 1), list(5_500, 1));
    assert!(large.len() > 8 << 20, "several parts");
    let cases: [(&Bytes, &'static [&'static str]); 4] = [
        (&small, &["PutObject", "DeleteObjects"]),
        (&large, &["CreateMultipartUpload", "AbortMultipartUpload", "DeleteObjects"]),
        (&large, &["UploadPart", "AbortMultipartUpload", "DeleteObjects"]),
        (&large, &["CompleteMultipartUpload", "AbortMultipartUpload", "DeleteObjects"]),
    ];
    for (bytes, held) in cases {
        let upload = home.begin(&keystore, &Digest::of(bytes)).await.expect("opened");
        let writer = keystore.append(&tenant(), &upload.id, 0).await.expect("a seat");
        home.gate().close(held);
        let writing = tokio::spawn(write_all(writer, bytes.clone()));
        timeout(DEADLINE, home.gate().reached(held[0], 1)).await.expect("the blob is on its way");
        abort(&keystore, &tenant(), &upload.id).await;
        let written = timeout(DEADLINE, writing).await.expect("it ends").expect("no panic");
        assert_eq!(written, Err(Error::UploadNotFound { id: upload.id.clone() }), "{held:?}");
        assert!(home.staged_files().is_empty());
        assert_eq!(names(&keystore).await, []);
        home.gate().open();
        timeout(DEADLINE, home.gate().reached("DeleteObjects", 1)).await.expect("what arrived late is removed");
        let empty = || home.unfinished_parts().is_empty() && home.blob_files().is_empty();
        eventually(&format!("the bucket keeps nothing: {held:?}"), empty).await;
    }
    home.upload(&keystore, &large).await.expect("it can begin again");
}

/// A late request of an aborted upload arrives after the client has sent the blob again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_that_was_sent_again_stays_when_its_aborted_upload_is_cleared_away() {
    let home = Home::s3().await;
    let keystore = home.open().await;
    let bytes = list(50, 1);
    let digest = Digest::of(&bytes);
    home.gate().close(&["PutObject"]);
    let mut writes = Vec::new();
    for times in 1..=2 {
        let upload = home.begin(&keystore, &digest).await.expect("opened");
        let writer = keystore.append(&tenant(), &upload.id, 0).await.expect("a seat");
        writes.push(tokio::spawn(write_all(writer, bytes.clone())));
        timeout(DEADLINE, home.gate().reached("PutObject", times)).await.expect("the blob is on its way");
        if times == 1 {
            abort(&keystore, &tenant(), &upload.id).await;
        }
    }
    home.gate().open();
    let [first, second] = <[_; 2]>::try_from(writes).expect("two");
    assert_eq!(first.await.expect("no panic").expect_err("aborted").kind(), "UploadNotFound");
    timeout(DEADLINE, second).await.expect("it ends").expect("no panic").expect("stored");
    // Time that suffices for a wrong removal.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(read(&keystore, &digest, 0).await.expect("there"), bytes);
}

/// The abort arrives after the bytes are in place and before the blob's row is written.
#[test]
fn an_abort_between_a_blobs_bytes_and_its_row_leaves_nothing() {
    // The runtime has one blocking thread. The test occupies that thread, and so delays the step
    // that puts the bytes in place.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.expect("a runtime").block_on(async {
        let home = Home::local();
        let keystore = home.open().await;
        let bytes = list(40, 1);
        let digest = Digest::of(&bytes);
        let upload = home.begin(&keystore, &digest).await.expect("opened");
        let writer = keystore.append(&tenant(), &upload.id, 0).await.expect("a seat");
        // The writer has the thread until its last byte arrives, and then the test has it.
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let (reached, at_the_gate) = tokio::sync::oneshot::channel();
        let holding = tokio::task::spawn_blocking(move || {
            reached.send(()).expect("the test waits");
            gate.recv().expect("the test opens it");
        });
        let writing = tokio::spawn(write_all(writer, bytes));
        timeout(DEADLINE, at_the_gate).await.expect("the last byte has come").expect("it is held");
        tokio::time::sleep(STEP_TIME).await;
        let (aborter, id) = (keystore.clone(), upload.id.clone());
        let aborting = tokio::spawn(async move { abort(&aborter, &tenant(), &id).await });
        tokio::time::sleep(STEP_TIME).await;
        assert!(!writing.is_finished() && !aborting.is_finished(), "both wait for the bytes");
        open.send(()).expect("it is held");
        holding.await.expect("no panic");
        aborting.await.expect("aborted");
        let written = timeout(DEADLINE, writing).await.expect("it ends").expect("no panic");
        assert_eq!(written, Err(Error::UploadNotFound { id: upload.id }));
        assert_eq!(keystore.blob(&tenant(), &digest).await, Err(Error::BlobNotFound { digest }));
        assert!(home.staged_files().is_empty());
        eventually("no bytes are left", || home.blob_files().is_empty()).await;
    });
}

/// Callers that go away and return leave a single abort behind, however long the writer takes to
/// end.
#[tokio::test]
async fn repeated_aborts_of_one_upload_are_one_abort() {
    let home = Home::local();
    let keystore = home.open().await;
    let bytes = list(50, 1);
    let upload = home.begin(&keystore, &Digest::of(&bytes)).await.expect("opened");
    // No abort ends the writer of a result.
    let mut writer = keystore.append_result(1, &tenant(), &upload.id, 0).await.expect("opened");
    writer.write(bytes.slice(..5000)).await.expect("well formed");
    let owner = tenant();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..10 {
        let calls = (0..10).map(|_| keystore.abort_upload(&owner, &upload.id).boxed());
        timeout(Duration::from_millis(50), join_all(calls.collect::<Vec<_>>())).await.expect_err("they wait");
    }
    // The database has a few tasks of its own.
    eventually("the calls left one task", || tasks() <= before + 4).await;
    let last = keystore.abort_upload(&owner, &upload.id);
    let (paused, aborted) = timeout(DEADLINE, join(writer.pause(), last)).await.expect("they end");
    assert_eq!((paused, aborted), (Ok(5000), Ok(())));
    assert_eq!(names(&keystore).await, []);
    assert!(home.staged_files().is_empty());
    // A later abort is a new abort, and ends the upload that has begun again.
    home.begin(&keystore, &Digest::of(&bytes)).await.expect("opened");
    abort(&keystore, &tenant(), &upload.id).await;
    assert_eq!(names(&keystore).await, []);
    home.upload(&keystore, &bytes).await.expect("it can begin again");
}

/// While an abort waits for its turn, a worker may begin the aborted blob as a result.
#[tokio::test]
async fn an_abort_spares_an_upload_that_becomes_a_result() {
    let home = Home::local();
    let keystore = home.open().await;
    let bytes = list(50, 1);
    let digest = Digest::of(&bytes);
    let upload = home.begin(&keystore, &digest).await.expect("opened");
    // No abort ends the writer of a result.
    let mut writer = keystore.append_result(1, &tenant(), &upload.id, 0).await.expect("opened");
    writer.write(bytes.slice(..5000)).await.expect("well formed");
    let owner = tenant();
    let tasks_before = tasks();
    let mut aborting = pin!(keystore.abort_upload(&owner, &upload.id));
    // The abort has found an open upload of a client, and its task waits for the turn.
    let begins = eventually("the abort begins", || tasks() > tasks_before);
    match select(&mut aborting, pin!(begins)).await {
        Either::Left((ended, _)) => panic!("the writer has the turn: {ended:?}"),
        Either::Right(((), _)) => {}
    }
    keystore.begin_result(&owner, &digest).await.expect("the one that is open");
    let ended = timeout(DEADLINE, join(writer.pause(), aborting)).await.expect("they end");
    assert_eq!(ended, (Ok(5000), Ok(())));
    assert_eq!(keystore.upload(&owner, &upload.id).await.expect("still open").committed_bytes, 5000);
}
