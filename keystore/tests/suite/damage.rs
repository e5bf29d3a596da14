//! Bytes that change or vanish at rest, and leftovers of a dead process.

use cloakwork_keystore::{ClaimError, Digest, Error, KeyState, claim};
use cloakwork_storage::{Asker, Rows};
use tokio::time::timeout;

use crate::{
    home::{DAY, DEADLINE, HOUR, Home, Kind, collect, eventually, other_tenant, read, tenant},
    objects::{KEY, bootstrap_key, key_switch_key, list, toy},
};

on_both_stores!(damage_at_rest_is_found_and_healed, orphans_are_removed);

async fn damage_at_rest_is_found_and_healed(home: Home) {
    let keystore = home.open().await;
    let blobs = [bootstrap_key(toy(), KEY, 1), key_switch_key(toy(), KEY, 1)];
    let digests = [Digest::of(&blobs[0]), Digest::of(&blobs[1])];
    for bytes in &blobs {
        home.upload(&keystore, bytes).await.expect("well formed");
    }
    keystore.register_key(&tenant(), &home.request(), &digests).await.expect("parts");
    assert_eq!(keystore.is_intact(&tenant(), &digests[0]).await, Ok(true));
    let mut bytes = std::fs::read(home.blob_file(&digests[0])).expect("there");
    bytes[20_000] ^= 4;
    for damaged in [Some(&bytes[..]), Some(&blobs[0][..30_000]), None] {
        let path = home.blob_file(&digests[0]);
        std::fs::remove_file(&path).expect("there");
        if let Some(bytes) = damaged {
            std::fs::write(&path, bytes).expect("a directory");
        }
        let found = match keystore.read_verified(&tenant(), &digests[0]).await {
            Ok(stream) => collect(stream).await,
            Err(error) => Err(error),
        };
        // An S3 client may itself notice missing bytes.
        let found = found.expect_err("damaged");
        assert!(matches!(&*found.kind(), "BlobDamaged" | "StorageFailed"), "{found}");
        assert_ne!(keystore.is_intact(&tenant(), &digests[0]).await, Ok(true));
        keystore.quarantine(&tenant(), KEY, &digests[0]).await.expect("a part");
        assert_eq!(keystore.key(&tenant(), KEY).await.expect("there").state, KeyState::Quarantined);
        assert_eq!(keystore.active_key(&tenant(), KEY).await, Err(Error::KeyQuarantined { key_id: KEY }));
        assert_eq!(read(&keystore, &digests[0], 0).await, Err(Error::BlobDamaged { digest: digests[0] }));
        assert_eq!(keystore.find_missing(&tenant(), &digests).await.expect("asked"), digests[..1]);
        let refused = keystore.register_key(&tenant(), &home.request(), &digests).await;
        assert_eq!(refused, Err(Error::BlobDamaged { digest: digests[0] }));
        home.upload(&keystore, &blobs[0]).await.expect("well formed");
        let key = keystore.register_key(&tenant(), &home.request(), &digests).await.expect("parts");
        assert_eq!(key.state, KeyState::Active);
        let healed = keystore.read_verified(&tenant(), &digests[0]).await.expect("there");
        assert_eq!(collect(healed).await.expect("good"), blobs[0]);
    }
    let foreign = keystore.quarantine(&tenant(), KEY, &Digest::of(b"nowhere")).await;
    assert_eq!(foreign.expect_err("no part").kind(), "BlobNotFound");
}

async fn orphans_are_removed(home: Home) {
    let database = home.database().await;
    claim(&home.options(home.root()).store, &database, [1; 16], DEADLINE).await.expect("a new store");
    let keystore = home.open_on(&database).await;
    let bytes = list(5, 1);
    let kept = home.upload(&keystore, &bytes).await.expect("well formed").digest;
    let open = home.begin(&keystore, &Digest::of(&list(5, 2))).await.expect("opened");
    let mut writer = keystore.append(&tenant(), &open.id, 0).await.expect("opened");
    writer.write(list(5, 2).slice(..500)).await.expect("well formed");
    writer.pause().await.expect("kept");
    // Leftovers: a commit with bytes and no row, a commit before its rename, and files of unknown
    // uploads.
    let orphan = home.blob_file(&Digest::of(b"orphan"));
    let kept_file = home.blob_file(&kept);
    let half = kept_file.with_extension("new");
    std::fs::create_dir_all(orphan.parent().expect("a directory")).expect("a directory");
    let staging = home.root().join("staging/alice");
    for path in [&orphan, &half, &staging.join("put-7"), &staging.join("0".repeat(32))] {
        std::fs::write(path, b"left behind").expect("a directory");
    }
    let keystore = home.open_on(&database).await;
    keystore.remove_orphans().await.expect("the store answers");
    let mut files = home.blob_files();
    files.retain(|file| !file.ends_with("marker.txt"));
    // A bucket has no halves of commits, and an operator may have put other objects there.
    files.retain(|file| home.is_local() || *file != half);
    assert_eq!(files, [kept_file]);
    assert_eq!(home.staged_files(), [staging.join(open.id.as_str())]);
    assert_eq!(read(&keystore, &kept, 0).await.expect("there"), bytes);
    assert_eq!(keystore.upload(&tenant(), &open.id).await.expect("open").committed_bytes, 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_young_object_in_a_bucket_is_no_orphan() {
    let mut home = Home::s3().await;
    let orphan = home.blob_file(&Digest::of(b"orphan"));
    std::fs::create_dir_all(orphan.parent().expect("a directory")).expect("a directory");
    std::fs::write(&orphan, b"left behind").expect("a directory");
    let database = home.database().await;
    let refused = home.open_on(&database).await.remove_orphans().await;
    assert_eq!(refused, Err(ClaimError::Unmarked), "the store may belong to another database");
    claim(&home.options(home.root()).store, &database, [1; 16], DEADLINE).await.expect("a new store");
    // The object is a day old by the keystore's clock.
    for (orphan_age, is_kept) in [(DAY + HOUR, true), (DAY - HOUR, false)] {
        home.limits.orphan_age = orphan_age;
        home.open_on(&database).await.remove_orphans().await.expect("the store answers");
        assert_eq!(orphan.exists(), is_kept, "{orphan_age:?}");
    }
}

/// The object is a day old by the keystore's clock, as after an upload that takes a day. Its row
/// waits for another writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_whose_row_is_not_written_yet_is_no_orphan() {
    let home = Home::s3().await;
    let database = home.database().await;
    claim(&home.options(home.root()).store, &database, [1; 16], DEADLINE).await.expect("a new store");
    let keystore = home.open_on(&database).await;
    home.gate().close(&["PutObject"]);
    let putting = tokio::spawn({
        let keystore = keystore.clone();
        async move { keystore.put(&tenant(), list(5, 1), None).await }
    });
    timeout(DEADLINE, home.gate().reached("PutObject", 1)).await.expect("in time");
    let writing = database.write(Asker::Server, Rows::All).await.expect("a transaction");
    home.gate().open();
    let object = || home.blob_file(&Digest::of(&list(5, 1)));
    eventually("the object is there", || object().exists()).await;
    eventually("its row waits", || database.waiting_writers() == 1).await;
    keystore.remove_orphans().await.expect("the store answers");
    assert!(object().exists(), "it is being committed");
    drop(writing);
    let blob = timeout(DEADLINE, putting).await.expect("in time").expect("no panic").expect("stored");
    assert_eq!(read(&keystore, &blob.digest, 0).await.expect("there"), list(5, 1));
}

#[tokio::test]
async fn a_blob_is_found_by_its_hash_until_it_is_damaged() {
    let home = Home::local();
    let keystore = home.open().await;
    let blob = keystore.put(&tenant(), list(5, 1), None).await.expect("well formed");
    let (digest, hash) = (blob.digest, blob.digest.blake3);
    assert_eq!(keystore.blob_named(&tenant(), &hash).await, Ok(Some(blob)));
    assert_eq!(keystore.blob_named(&other_tenant(), &hash).await, Ok(None));
    keystore.condemn(&tenant(), &digest).await.expect("there");
    assert_eq!(keystore.blob_named(&tenant(), &hash).await, Ok(None));
}
