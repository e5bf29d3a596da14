//! Refusals of bad blobs, and the removal of all their bytes.

use bytes::Bytes;
use cloakwork_keystore::{Digest, Error};
use cloakwork_params::{
    Layout, ObjectKind,
    envelope::{HEADER_BYTES, TRAILER_BYTES},
    set::Standing,
    table,
};

use crate::{
    home::{Home, Kind, tenant},
    objects::{bootstrap_key, client_key, list, object, served, toy},
};

on_both_stores!(nothing_of_a_refused_blob_stays);

async fn nothing_of_a_refused_blob_stays(mut home: Home) {
    home.allow_weak_sets = false;
    home.limits.list_bytes = 1 << 20;
    let keystore = home.open().await;
    let good = object(cloakwork_params::ObjectKind::LweList, served(), crate::objects::KEY, 4, 1);
    let flipped = |at: usize| {
        let mut bytes = good.to_vec();
        bytes[at] ^= 0x40;
        Bytes::from(bytes)
    };
    let cases = [
        ("SecretKeyRejected", Bytes::from(client_key())),
        ("WeakSetRefused", list(4, 1)),
        ("WeakSetRefused", bootstrap_key(toy(), crate::objects::KEY, 1)),
        ("EnvelopeInvalid", Bytes::from(vec![0; 4000])),
        ("EnvelopeInvalid", flipped(32)),
        ("EnvelopeInvalid", flipped(good.len() - 1)),
        ("EntryOutOfRange", flipped(112)),
        ("BlobTooLarge", object(cloakwork_params::ObjectKind::LweList, served(), crate::objects::KEY, 100, 1)),
        ("SizeMismatch", good.slice(..good.len() - 1)),
    ];
    for (reason, bytes) in cases {
        for step in [bytes.len(), 1000, 37] {
            let digest = Digest::of(&bytes);
            let upload = home.begin(&keystore, &digest).await.expect("opened");
            let mut writer = keystore.append(&tenant(), &upload.id, 0).await.expect("opened");
            let mut refused = Ok(());
            for piece in bytes.chunks(step) {
                refused = refused.and(writer.write(Bytes::copy_from_slice(piece)).await);
            }
            let error = writer.finish().await.expect_err(reason);
            assert_eq!(error.kind(), reason, "{error}");
            assert!(refused.is_ok() || refused == Err(error));
            assert!(home.staged_files().is_empty(), "{reason}");
            assert!(home.blob_files().is_empty(), "{reason}");
            let gone = keystore.upload(&tenant(), &upload.id).await;
            assert_eq!(gone, Err(Error::UploadNotFound { id: upload.id }), "{reason}");
        }
        let direct = keystore.put(&tenant(), bytes, None).await.expect_err(reason);
        assert_eq!(direct.kind(), reason, "{direct}");
        assert!(home.staged_files().is_empty(), "{reason}");
    }
    home.upload(&keystore, &good).await.expect("well formed");
}

/// No byte of a secret key reaches the disk, however the upload is split, and the refusal comes
/// with the header.
#[tokio::test]
async fn a_secret_key_is_refused_with_its_header() {
    let home = Home::local();
    let keystore = home.open().await;
    let bytes = Bytes::from(client_key());
    let digest = Digest::of(&bytes);
    for cut in [11, 12, 111] {
        let upload = home.begin(&keystore, &digest).await.expect("opened");
        let mut writer = keystore.append(&tenant(), &upload.id, 0).await.expect("opened");
        writer.write(bytes.slice(..cut)).await.expect("nothing to be seen yet");
        // Less than a header is not kept.
        assert_eq!(writer.pause().await, Ok(0));
        let mut writer = keystore.append(&tenant(), &upload.id, 0).await.expect("opened");
        writer.write(bytes.slice(..112)).await.expect("handed over");
        // Only the header has arrived, and then the connection ends.
        let ended = writer.pause().await;
        assert_eq!(ended, Err(Error::SecretKeyRejected));
        assert!(home.staged_files().is_empty());
    }
}

#[tokio::test]
async fn a_wrong_announced_size_is_refused_early() {
    let mut home = Home::local();
    home.limits.list_bytes = 1 << 20;
    home.allow_weak_sets = false;
    let keystore = home.open().await;
    let bytes = list(40, 1);
    let huge = Digest { size_bytes: 1 << 50, ..Digest::of(&bytes) };
    assert_eq!(home.begin(&keystore, &huge).await.expect_err("too large").kind(), "BlobTooLarge");
    // A large blob under a small announced size is refused by its header, before the announced size
    // is exceeded.
    let small = Digest { size_bytes: 500, ..Digest::of(&bytes) };
    let upload = home.begin(&keystore, &small).await.expect("opened");
    let mut writer = keystore.append(&tenant(), &upload.id, 0).await.expect("opened");
    let _ = writer.write(bytes.clone()).await;
    assert_eq!(writer.finish().await.expect_err("a lie").kind(), "SizeMismatch");
    assert!(home.staged_files().is_empty());
}

/// No served key is larger than the largest bootstrap key.
#[tokio::test]
async fn the_largest_served_key_may_begin_and_a_byte_more_is_refused() {
    let mut home = Home::local();
    home.limits.list_bytes = 1 << 20;
    home.allow_weak_sets = false;
    let keystore = home.open().await;
    let served = table::SETS.iter().filter(|set| set.standing == Standing::Served);
    let layouts = served.map(|set| Layout::of(ObjectKind::SeededBootstrapKey, set, &[0; 8]).expect("such a key"));
    let payload_bytes = layouts.map(|layout| layout.payload_len).max().expect("a served set");
    let limit = HEADER_BYTES as u64 + payload_bytes + TRAILER_BYTES as u64;
    let largest = Digest { size_bytes: limit, ..Digest::of(b"a key") };
    home.begin(&keystore, &largest).await.expect("as large as a key");
    let got = limit + 1;
    let refused = home.begin(&keystore, &Digest { size_bytes: got, ..largest }).await;
    assert_eq!(refused, Err(Error::BlobTooLarge { what: "any blob".to_owned(), limit, got }));
}
