//! Clean-ups that fail. A failed clean-up must neither hide the result of a call nor stop its
//! remaining steps.

use std::{path::Path, time::Duration};

use cloakwork_keystore::Error;
use cloakwork_storage::{Asker, Rows};
use futures_util::{FutureExt as _, future::join};
use tokio::time::timeout;

use crate::{
    home::{DAY, DEADLINE, Home, eventually, read, tenant},
    objects::list,
};

/// Replaces a file by a directory, which no removal of a file removes.
fn make_unremovable(file: &Path) {
    std::fs::remove_file(file).expect("it is there");
    std::fs::create_dir(file).expect("a directory");
}

/// A blob is stored, although its staged file stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_staged_file_that_stays_does_not_fail_a_stored_blob() {
    let home = Home::s3().await;
    let keystore = home.open().await;
    let (owner, uploaded) = (tenant(), list(5, 2));
    let calls = [keystore.put(&owner, list(5, 1), None).boxed(), home.upload(&keystore, &uploaded).boxed()];
    for call in calls {
        home.gate().close(&["PutObject"]);
        let held = async {
            home.gate().reached("PutObject", 1).await;
            let staged = home.staged_files();
            assert_eq!(staged.len(), 1);
            make_unremovable(&staged[0]);
            home.gate().open();
        };
        let (stored, ()) = timeout(DEADLINE, join(call, held)).await.expect("in time");
        let digest = stored.expect("stored").digest;
        keystore.blob(&tenant(), &digest).await.expect("it has a row");
    }
}

/// One file of an expired upload stays, and the sweep removes the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_staged_file_that_stays_does_not_stop_a_sweep() {
    let home = Home::local();
    let keystore = home.open().await;
    for number in 0..3 {
        home.begin_and_pause(&keystore, &list(5, number)).await;
        // The sweep begins with the upload that expires first.
        home.wait(Duration::from_secs(1));
        if number == 0 {
            make_unremovable(&home.staged_files()[0]);
        }
    }
    home.wait(DAY);
    assert_eq!(keystore.sweep().await.expect("swept").uploads, 3);
    assert!(home.staged_files().is_empty());
}

/// The bytes of one evicted blob stay. The new blob is stored, and the bytes of the other evicted
/// blob go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evicted_bytes_that_stay_do_not_fail_a_stored_blob() {
    let mut home = Home::local();
    let size_bytes = list(5, 0).len() as u64;
    home.limits.unpinned_bytes = 2 * size_bytes;
    let keystore = home.open().await;
    let first = keystore.put(&tenant(), list(5, 1), None).await.expect("there is room").digest;
    home.wait(Duration::from_secs(1));
    keystore.put(&tenant(), list(5, 2), None).await.expect("there is room");
    home.wait(home.limits.keep);
    make_unremovable(&home.blob_file(&first));
    let large = list(10, 3);
    assert!(large.len() as u64 > size_bytes, "both blobs must go");
    let stored = keystore.put(&tenant(), large.clone(), None).await.expect("stored").digest;
    assert_eq!(home.blob_files(), [home.blob_file(&stored)]);
}

/// The disk or the database fails again while a failed commit is cleaned up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_clean_up_does_not_hide_the_reason_of_a_refusal() {
    let mut home = Home::local();
    home.limits.tenant_bytes = 1;
    let keystore = home.open().await;
    let database = home.opened();
    let bytes = list(5, 1);
    let got = bytes.len() as u64;
    // The put waits for its turn to write, while the readers close.
    let writing = database.write(Asker::Server, Rows::All).await.expect("a transaction");
    let putting = tokio::spawn(async move { keystore.put(&tenant(), bytes, None).await });
    eventually("the put waits", || database.waiting_writers() == 1).await;
    let closing = tokio::spawn({
        let database = database.clone();
        async move { database.close().await }
    });
    eventually("the readers close", || {
        database.read(Asker::Server).now_or_never().is_some_and(|reader| reader.is_err())
    })
    .await;
    drop(writing);
    let refused = timeout(DEADLINE, putting).await.expect("it ends").expect("no panic");
    assert_eq!(refused, Err(Error::QuotaExceeded { what: "bytes of the tenant", limit: 1, got }));
    timeout(DEADLINE, closing).await.expect("it ends").expect("no panic");
    // The next start removes the bytes.
    home.open().await;
    assert!(home.blob_files().is_empty() && home.staged_files().is_empty());
}

/// A server that was suspended sends its removals when another server has the blob again.
#[tokio::test]
async fn a_late_removal_spares_a_blob_that_was_committed_again() {
    let home = Home::s3().await;
    let keystore = home.open().await;
    let bytes = list(3, 1);
    let digest = keystore.put(&tenant(), bytes.clone(), None).await.expect("stored").digest;
    home.gate().close(&["DeleteObjects"]);
    let (removing, removed) = (keystore.clone(), digest);
    let late = tokio::spawn(async move { removing.delete(&tenant(), &removed).await });
    timeout(DEADLINE, home.gate().reached("DeleteObjects", 1)).await.expect("in time");
    let owner = tenant();
    let again = keystore.put(&owner, bytes.clone(), None);
    timeout(DEADLINE, again).await.expect("in time").expect("stored again");
    assert_eq!(home.blob_files().len(), 2);
    home.gate().open();
    timeout(DEADLINE, late).await.expect("in time").expect("no panic").expect("deleted");
    assert_eq!(read(&keystore, &digest, 0).await.expect("it is there"), bytes);
    assert_eq!(home.blob_files(), [home.blob_file(&digest)]);
}
