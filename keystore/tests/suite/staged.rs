//! The limit on the bytes of unfinished uploads.

use bytes::Bytes;
use cloakwork_keystore::{BlobInfo, Digest, Error, Keystore, UploadInfo, UploadWriter};

use crate::{
    home::{DAY, HOUR, Home, Kind as _, other_tenant, tenant},
    objects::list,
};

on_both_stores!(unfinished_uploads_of_all_tenants_share_the_staging_directory);

/// An upload that receives takes room for all its bytes.
async fn unfinished_uploads_of_all_tenants_share_the_staging_directory(mut home: Home) {
    let blobs = [1, 2, 3].map(|salt| list(50, salt));
    let size = blobs[0].len() as u64;
    home.limits.staged_bytes = 2 * size;
    let keystore = home.open().await;
    let uploads = begin_all(&home, &keystore, &blobs).await;
    let [first, second, third] = &uploads;
    let mut paused = keystore.append(&tenant(), &first.id, 0).await.expect("there is room");
    let open = keystore.append(&other_tenant(), &second.id, 0).await.expect("there is room");
    assert_eq!(keystore.append(&tenant(), &third.id, 0).await.err(), Some(Error::StorageFull));
    assert_eq!(keystore.put(&tenant(), list(1, 4), None).await, Err(Error::StorageFull));
    // A paused upload keeps the room of its bytes alone, and an aborted one keeps none.
    paused.write(blobs[0].slice(..5000)).await.expect("well formed");
    assert_eq!(paused.pause().await.expect("kept"), 5000);
    keystore.put(&tenant(), list(1, 4), None).await.expect("there is room");
    assert_eq!(keystore.append(&tenant(), &third.id, 0).await.err(), Some(Error::StorageFull));
    keystore.abort_upload(&tenant(), &first.id).await.expect("aborted");
    let third = keystore.append(&tenant(), &third.id, 0).await.expect("there is room");
    // A stored blob and a refused one need no more room.
    assert_eq!(fill(third, &blobs[0]).await.expect_err("other bytes").kind(), "DigestMismatch");
    fill(open, &blobs[1]).await.expect("well formed");
    assert!(home.staged_files().is_empty());
    let [first, ..] = begin_all(&home, &keystore, &blobs).await;
    let open = keystore.append(&tenant(), &first.id, 0).await.expect("there is room");
    home.upload(&keystore, &blobs[2]).await.expect("there is room for two");
    fill(open, &blobs[0]).await.expect("well formed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_uploads_take_room_after_a_restart_until_they_expire() {
    let mut home = Home::local();
    let blobs = [1, 2, 3].map(|salt| list(50, salt));
    let size = blobs[0].len() as u64;
    home.limits.staged_bytes = 2 * size;
    home.begin_and_pause(&home.open().await, &blobs[0]).await;
    home.close().await;
    let keystore = home.open().await;
    let [first, second, third] = begin_all(&home, &keystore, &blobs).await;
    let open = keystore.append(&other_tenant(), &second.id, 0).await.expect("there is room");
    assert_eq!(keystore.append(&tenant(), &third.id, 0).await.err(), Some(Error::StorageFull));
    // The rest of the old upload fits, because its first bytes count only once.
    let resumed = keystore.append(&tenant(), &first.id, 5000).await.expect("there is room");
    assert_eq!(resumed.pause().await.expect("kept"), 5000);
    assert_eq!(keystore.append(&tenant(), &third.id, 0).await.err(), Some(Error::StorageFull));
    home.wait(DAY + HOUR);
    // The upload with a writer stays.
    assert_eq!(keystore.sweep().await.expect("swept").uploads, 2);
    home.upload(&keystore, &blobs[2]).await.expect("there is room");
    fill(open, &blobs[1]).await.expect("well formed");
}

/// A client that waits for room would wait for ever.
#[tokio::test]
async fn a_blob_that_cannot_fit_into_the_staging_directory_is_too_large() {
    let mut home = Home::local();
    let bytes = list(50, 1);
    let got = bytes.len() as u64;
    home.limits.staged_bytes = got - 1;
    let refused = home.begin(&home.open().await, &Digest::of(&bytes)).await;
    assert_eq!(refused, Err(Error::BlobTooLarge { what: "any blob".to_owned(), limit: got - 1, got }));
    home.limits.staged_bytes = got;
    home.upload(&home.open().await, &bytes).await.expect("there is room");
}

/// Begins uploads of three blobs. The second one is of the other tenant.
async fn begin_all(home: &Home, keystore: &Keystore, blobs: &[Bytes; 3]) -> [UploadInfo; 3] {
    let [first, second, third] = blobs.each_ref().map(|bytes| Digest::of(bytes));
    let other = keystore.begin_upload(&other_tenant(), &home.request(), &second).await;
    [
        home.begin(keystore, &first).await.expect("opened"),
        other.expect("opened"),
        home.begin(keystore, &third).await.expect("opened"),
    ]
}

/// Sends all bytes of an upload.
async fn fill(mut writer: UploadWriter, bytes: &Bytes) -> Result<BlobInfo, Error> {
    writer.write(bytes.clone()).await?;
    writer.finish().await
}
