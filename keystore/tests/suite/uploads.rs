//! The ordinary way of a blob, and two clients on one upload.

use bytes::Bytes;
use cloakwork_keystore::{Digest, Error, UploadId};
use cloakwork_params::{AnySet, ObjectKind};

use crate::{
    home::{Home, Kind, other_tenant, read, tenant},
    objects::{KEY, list, toy},
};

on_both_stores!(
    an_empty_upload_can_be_gone_on_with_after_a_restart,
    a_blob_goes_in_and_comes_out,
    a_large_blob_goes_in_parts,
    no_tenant_sees_another_ones_blobs,
    request_ids_are_idempotent,
    two_clients_may_upload_one_blob,
    small_blobs_go_in_directly,
);

async fn a_blob_goes_in_and_comes_out(home: Home) {
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

/// More than two parts of a multi-part upload, and more than a window.
async fn a_large_blob_goes_in_parts(mut home: Home) {
    home.limits.window_bytes = 100_000;
    let keystore = home.open().await;
    let bytes = list(9_500, 1);
    assert!(bytes.len() > 18 << 20);
    let upload = home.begin(&keystore, &Digest::of(&bytes)).await.expect("opened");
    let mut writer = keystore.append(&tenant(), &upload.id, 0).await.expect("opened");
    // In one piece, which is much larger than the window.
    writer.write(bytes.clone()).await.expect("well formed");
    let blob = writer.finish().await.expect("well formed");
    assert_eq!(read(&keystore, &blob.digest, 5).await.expect("there"), bytes.slice(5..));
    let verified = keystore.read_verified(&tenant(), &blob.digest).await.expect("there");
    assert_eq!(crate::home::collect(verified).await.expect("good"), bytes);
}

async fn no_tenant_sees_another_ones_blobs(home: Home) {
    let keystore = home.open().await;
    let bytes = list(10, 1);
    let digest = Digest::of(&bytes);
    home.upload(&keystore, &bytes).await.expect("well formed");
    let bob = other_tenant();
    assert_eq!(keystore.find_missing(&bob, &[digest]).await.expect("asked"), [digest]);
    assert_eq!(keystore.blob(&bob, &digest).await, Err(Error::BlobNotFound { digest }));
    assert_eq!(keystore.read(&bob, &digest, 0).await.err(), Some(Error::BlobNotFound { digest }));
    assert_eq!(keystore.delete(&bob, &digest).await, Err(Error::BlobNotFound { digest }));
    // No deduplication: the other tenant must have the bytes. The upload's own name gives nothing away either.
    let upload = keystore.begin_upload(&bob, &home.request(), &digest).await.expect("opened");
    assert!(!upload.complete);
    let id = upload.id.clone();
    assert_eq!(keystore.upload(&tenant(), &id).await, Err(Error::UploadNotFound { id: id.clone() }));
    assert_eq!(keystore.append(&tenant(), &id, 0).await.err(), Some(Error::UploadNotFound { id }));
    // What one deletes, the other keeps.
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
    // Another tenant's ids are its own.
    keystore.begin_upload(&other_tenant(), &request, &two).await.expect("opened");
    // Complete at once, and the finished upload can still be asked for.
    home.upload(&keystore, &list(3, 1)).await.expect("well formed");
    assert!(keystore.begin_upload(&tenant(), &request, &one).await.expect("opened").complete);
    let info = keystore.upload(&tenant(), &begun.id).await.expect("remembered");
    assert_eq!((info.complete, info.committed_bytes), (true, one.size_bytes));
    // A client that did not hear of the end sends it again.
    let writer = keystore.append(&tenant(), &begun.id, one.size_bytes).await.expect("done");
    assert_eq!(writer.finish().await.expect("done").digest, one);
    let nowhere = UploadId::parse(&"0".repeat(32)).expect("well formed");
    assert_eq!(keystore.upload(&tenant(), &nowhere).await.expect_err("unknown").kind(), "UploadNotFound");
}

/// One goes on where the other fell silent; two that are both alive do not get in each other's way.
async fn two_clients_may_upload_one_blob(home: Home) {
    let keystore = home.open().await;
    let bytes = list(600, 1);
    let digest = Digest::of(&bytes);
    let upload = home.begin(&keystore, &digest).await.expect("opened");
    let mut stale = keystore.append(&tenant(), &upload.id, 0).await.expect("opened");
    stale.write(bytes.slice(..300_000)).await.expect("well formed");
    // Its connection broke without notice: the same client, coming back, is not locked out.
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
    // Eight at once, all with the whole blob and the patience to retry: one result.
    let bytes = list(500, 2);
    let tasks: Vec<_> = (0..8).map(|_| tokio::spawn(insist(keystore.clone(), home.request(), bytes.clone()))).collect();
    for task in tasks {
        assert_eq!(task.await.expect("no panic"), Digest::of(&bytes));
    }
    assert_eq!(read(&keystore, &Digest::of(&bytes), 0).await.expect("there"), bytes);
    assert_eq!(home.blob_files().len(), 2);
    assert!(home.staged_files().is_empty());
}

/// Sends all of it, or finds that somebody else has.
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

async fn small_blobs_go_in_directly(home: Home) {
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

async fn an_empty_upload_can_be_gone_on_with_after_a_restart(home: Home) {
    let bytes = list(50, 1);
    let digest = Digest::of(&bytes);
    let upload = home.begin(&home.open().await, &digest).await.expect("opened");
    let keystore = home.open().await;
    assert_eq!(keystore.upload(&tenant(), &upload.id).await.expect("durable").committed_bytes, 0);
    home.upload(&keystore, &bytes).await.expect("well formed");
}
