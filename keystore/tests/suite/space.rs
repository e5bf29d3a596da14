//! Limits: quota, numbers of uploads, eviction, and protection from eviction.

use std::{sync::Arc, time::Duration};

use cloakwork_keystore::{Digest, Error, OwnLimits, Pin, Pinning, Releasing};
use cloakwork_params::KeyId;
use cloakwork_storage::{Asker, Batch, Rows, Survival};

use crate::{
    home::{Home, Kind, other_tenant, read, tenant},
    objects::{KEY, bootstrap_key, key_switch_key, list, toy},
};

on_both_stores!(pinned_blobs_stay_and_the_oldest_unpinned_blob_is_evicted);

const JOB: [u8; 16] = [1; 16];

fn pin(holder: [u8; 16]) -> Pin {
    Pin { holder, until_micros: None }
}

async fn pinned_blobs_stay_and_the_oldest_unpinned_blob_is_evicted(mut home: Home) {
    let blobs: Vec<_> = (0..6).map(|salt| list(50, salt)).collect();
    let size = blobs[0].len() as u64;
    home.limits.unpinned_bytes = 3 * size;
    let keystore = home.open().await;
    let key = home.upload(&keystore, &bootstrap_key(toy(), KEY, 1)).await.expect("well formed").digest;
    let mut digests = Vec::new();
    for bytes in &blobs[..3] {
        digests.push(home.upload(&keystore, bytes).await.expect("well formed").digest);
        home.wait(Duration::from_secs(100));
    }
    // All blobs are recent, so none may be evicted yet, and a fourth blob is refused.
    let full = home.upload(&keystore, &blobs[3]).await;
    assert_eq!(full, Err(Error::CiphertextSpaceFull { limit: 3 * size }));
    // A result that is pinned from the start does not need the space.
    digests.push(keystore.put(&tenant(), blobs[3].clone(), Some(pin(JOB))).await.expect("well formed").digest);
    keystore.pin(&tenant(), &digests[..1], &pin(JOB)).await.expect("there");
    home.wait(home.limits.keep);
    // A query for a blob keeps it from eviction.
    assert_eq!(keystore.find_missing(&tenant(), &digests[1..2]).await.expect("asked"), []);
    for bytes in &blobs[4..] {
        digests.push(home.upload(&keystore, bytes).await.expect("well formed").digest);
    }
    let missing = keystore.find_missing(&tenant(), &digests).await.expect("asked");
    assert_eq!(missing, [digests[2]]);
    assert_eq!(read(&keystore, &digests[0], 0).await.expect("pinned"), blobs[0]);
    assert_eq!(keystore.delete(&tenant(), &digests[0]).await.expect_err("pinned").kind(), "BlobInUse");
    assert_eq!(home.blob_files().len(), 6);
    // The job ends: two more blobs count, and two are evicted.
    keystore.unpin(&JOB).await.expect("released");
    home.wait(home.limits.keep);
    assert_eq!(keystore.sweep().await.expect("swept").blobs, 2);
    assert_eq!(home.blob_files().len(), 4);
    assert_eq!(keystore.find_missing(&tenant(), &[key]).await.expect("asked"), [], "keys are never evicted");
}

#[tokio::test]
async fn pins_survive_a_restart_and_expire() {
    let home = Home::local();
    let keystore = home.open().await;
    let digest = home.upload(&keystore, &list(5, 1)).await.expect("well formed").digest;
    let other = home.upload(&keystore, &list(5, 2)).await.expect("well formed").digest;
    let nowhere = Digest::of(b"nowhere");
    let refused = keystore.pin(&tenant(), &[digest, nowhere], &pin(JOB)).await;
    assert_eq!(refused, Err(Error::BlobNotFound { digest: nowhere }));
    assert_eq!(keystore.pin(&other_tenant(), &[digest], &pin(JOB)).await, Err(Error::BlobNotFound { digest }));
    keystore.pin(&tenant(), &[digest], &pin(JOB)).await.expect("there");
    keystore.pin(&tenant(), &[digest], &pin([2; 16])).await.expect("there");
    let until_micros = Some(home.after(Duration::from_secs(1000)));
    keystore.pin(&tenant(), &[other], &Pin { holder: [3; 16], until_micros }).await.expect("there");
    let keystore = home.open().await;
    keystore.pin(&tenant(), &[other], &Pin { holder: [4; 16], until_micros }).await.expect("there");
    // Only the second job is still alive, and the third holder's pin lasts until its expiry.
    keystore.retain_holders(&[[2; 16], [3; 16]]).await.expect("released");
    assert_eq!(keystore.delete(&tenant(), &digest).await.expect_err("pinned").kind(), "BlobInUse");
    keystore.unpin(&[2; 16]).await.expect("released");
    keystore.delete(&tenant(), &digest).await.expect("free");
    assert_eq!(keystore.delete(&tenant(), &other).await.expect_err("pinned").kind(), "BlobInUse");
    home.wait(Duration::from_secs(1000));
    keystore.delete(&tenant(), &other).await.expect("free");
    // Pins of holders that are not retained are released, with or without an expiry.
    let third = home.upload(&keystore, &list(5, 3)).await.expect("well formed").digest;
    let until_micros = Some(home.after(Duration::from_secs(100_000)));
    keystore.pin(&tenant(), &[third], &Pin { holder: [5; 16], until_micros }).await.expect("there");
    keystore.pin(&tenant(), &[third], &pin([6; 16])).await.expect("there");
    keystore.retain_holders(&[[5; 16]]).await.expect("released");
    assert_eq!(keystore.delete(&tenant(), &third).await.expect_err("pinned").kind(), "BlobInUse");
    keystore.retain_holders(&[]).await.expect("released");
    keystore.delete(&tenant(), &third).await.expect("free");
}

#[tokio::test]
async fn reserved_blobs_stay_until_the_reservation_ends() {
    let mut home = Home::local();
    let bytes = [list(50, 1), list(50, 2), list(50, 3)];
    home.limits.unpinned_bytes = 2 * bytes[0].len() as u64;
    let keystore = home.open().await;
    let mut digests = Vec::new();
    for bytes in &bytes[..2] {
        digests.push(home.upload(&keystore, bytes).await.expect("well formed").digest);
        home.wait(Duration::from_secs(100));
    }
    home.wait(home.limits.keep);
    let nowhere = Digest::of(b"nowhere");
    let refused = keystore.reserve(&tenant(), &[digests[0], nowhere]).await;
    assert_eq!(refused.expect_err("one is missing"), Error::BlobNotFound { digest: nowhere });
    let (first, second) =
        (keystore.reserve(&tenant(), &digests[..1]).await, keystore.reserve(&tenant(), &digests[..1]).await);
    drop(first.expect("there"));
    assert_eq!(keystore.delete(&tenant(), &digests[0]).await.expect_err("reserved").kind(), "BlobInUse");
    // The oldest blob is reserved, so the next one goes.
    digests.push(home.upload(&keystore, &bytes[2]).await.expect("well formed").digest);
    assert_eq!(keystore.find_missing(&tenant(), &digests).await.expect("asked"), [digests[1]]);
    // A transaction pins the blob, and then the reservation ends.
    let claim = pin(JOB);
    let pins = |batch: &mut Batch| Pinning::of(batch).add(&claim, tenant().as_str(), [&digests[0].blake3].into_iter());
    home.opened().apply(Asker::Upkeep, Rows::All, Survival::PowerFailure, pins).await.expect("pinned");
    drop(second.expect("there"));
    assert_eq!(keystore.delete(&tenant(), &digests[0]).await.expect_err("pinned").kind(), "BlobInUse");
    let release = |batch: &mut Batch| Releasing::of(batch).add(&JOB);
    home.opened().apply(Asker::Upkeep, Rows::All, Survival::Crash, release).await.expect("released");
    keystore.delete(&tenant(), &digests[0]).await.expect("free");
}

/// Jobs are about to pin reserved ciphertexts, and pinned ones do not count.
#[tokio::test]
async fn ciphertexts_that_are_all_reserved_need_no_space() {
    let mut home = Home::local();
    let bytes = [list(50, 1), list(50, 2), list(50, 3)];
    let limit = 2 * bytes[0].len() as u64;
    home.limits.unpinned_bytes = limit;
    let keystore = home.open().await;
    for bytes in &bytes[..2] {
        keystore.put(&tenant(), bytes.clone(), None).await.expect("well formed");
    }
    let refused = keystore.put(&tenant(), bytes[2].clone(), None).await;
    assert_eq!(refused, Err(Error::CiphertextSpaceFull { limit }), "both are too recent");
    let digests = bytes.each_ref().map(|bytes| Digest::of(bytes));
    let _reservation = keystore.reserve(&tenant(), &digests[..2]).await.expect("there");
    keystore.put(&tenant(), bytes[2].clone(), None).await.expect("it has the space for itself");
    assert_eq!(keystore.find_missing(&tenant(), &digests).await.expect("asked"), []);
}

/// A mark of use costs a write, so reads within a minute of a mark leave none.
#[tokio::test]
async fn a_read_delays_the_eviction_of_a_blob_unused_for_over_a_minute() {
    const MINUTE: Duration = Duration::from_secs(60);
    for (age, evicted) in [(MINUTE, 0), (MINUTE + Duration::from_micros(1), 1)] {
        let mut home = Home::local();
        let bytes = [list(50, 1), list(50, 2), list(50, 3)];
        home.limits.unpinned_bytes = 2 * bytes[0].len() as u64;
        let keystore = home.open().await;
        let first = keystore.put(&tenant(), bytes[0].clone(), None).await.expect("well formed").digest;
        home.wait(Duration::from_secs(1));
        let second = keystore.put(&tenant(), bytes[1].clone(), None).await.expect("well formed").digest;
        home.wait(age - Duration::from_secs(1));
        read(&keystore, &first, 0).await.expect("there");
        home.wait(home.limits.keep);
        keystore.put(&tenant(), bytes[2].clone(), None).await.expect("one of the others goes");
        let digests = [first, second];
        let missing = keystore.find_missing(&tenant(), &digests).await.expect("asked");
        assert_eq!(missing, [digests[evicted]], "{age:?}");
    }
}

#[tokio::test]
async fn the_number_of_blobs_in_one_call_is_limited() {
    let mut home = Home::local();
    home.limits.digests_per_call = 2;
    let keystore = home.open().await;
    let digests = [1, 2, 3].map(|salt| Digest::of(&[salt]));
    assert_eq!(keystore.find_missing(&tenant(), &digests[..2]).await.expect("asked"), digests[..2]);
    let refusal = Error::QuotaExceeded { what: "digests in one call", limit: 2, got: 3 };
    assert_eq!(keystore.find_missing(&tenant(), &digests).await, Err(refusal.clone()));
    assert_eq!(keystore.pin(&tenant(), &digests, &pin(JOB)).await, Err(refusal.clone()));
    assert_eq!(keystore.reserve(&tenant(), &digests).await.err(), Some(refusal));
}

/// A reservation and a removal of the same blob may come at the same time. One of them fails, and a
/// reserved blob is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reserved_blob_is_removed() {
    let home = Home::local();
    let keystore = home.open().await;
    let bytes = list(5, 1);
    let (mut reserved, mut removed) = (0, 0);
    // How long the removal has to itself. The side that wins gets less time in the next round, so
    // that both calls come close together on a machine of any speed.
    let mut yields = 0_u32;
    while reserved < 20 || removed < 20 {
        let digest = keystore.put(&tenant(), bytes.clone(), None).await.expect("well formed").digest;
        let removing = tokio::spawn({
            let keystore = keystore.clone();
            async move { keystore.delete(&tenant(), &digest).await }
        });
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        let reservation = keystore.reserve(&tenant(), &[digest]).await;
        let gone = removing.await.expect("no panic").is_ok();
        let there = keystore.blob(&tenant(), &digest).await.is_ok();
        assert_eq!((reservation.is_ok(), there), (!gone, !gone));
        yields = if gone { yields / 2 } else { (2 * yields + 1).min(1 << 16) };
        (reserved, removed) = (reserved + u32::from(!gone), removed + u32::from(gone));
        assert!(reserved + removed < 10_000, "{reserved} reserved, {removed} removed: one side always wins");
    }
}

#[tokio::test]
async fn the_quota_counts_announced_bytes() {
    let mut home = Home::local();
    let bytes = [list(50, 1), list(50, 2), list(50, 3)];
    let size = bytes[0].len() as u64;
    home.limits.tenant_bytes = 2 * size;
    let keystore = home.open().await;
    home.upload(&keystore, &bytes[0]).await.expect("well formed");
    home.begin(&keystore, &Digest::of(&bytes[1])).await.expect("fits");
    let error = home.begin(&keystore, &Digest::of(&bytes[2])).await.expect_err("too much");
    assert_eq!(error, Error::QuotaExceeded { what: "bytes of the tenant", limit: 2 * size, got: 3 * size });
    let error = keystore.put(&tenant(), bytes[2].clone(), None).await.expect_err("too much");
    assert_eq!(error.kind(), "QuotaExceeded");
    assert_eq!(home.blob_files().len(), 1, "refused blobs leave no bytes");
    // Each tenant has its own quota, and deleted bytes are free again.
    keystore.put(&other_tenant(), bytes[2].clone(), None).await.expect("fits");
    keystore.delete(&tenant(), &Digest::of(&bytes[0])).await.expect("free");
    home.upload(&keystore, &bytes[2]).await.expect("fits");
}

/// The limits of [`tenant`].
#[derive(Debug)]
struct OfOne {
    bytes: u64,
    keys: u64,
}

impl OwnLimits for OfOne {
    fn bytes(&self, name: &str, of_all: u64) -> u64 {
        if name == tenant().as_str() { self.bytes } else { of_all }
    }

    fn keys(&self, name: &str, of_all: u64) -> u64 {
        if name == tenant().as_str() { self.keys } else { of_all }
    }
}

#[tokio::test]
async fn a_tenant_may_have_limits_of_its_own() {
    let mut home = Home::local();
    let (first, second) = (key_switch_key(toy(), KEY, 1), key_switch_key(toy(), KeyId([8; 16]), 1));
    let size = first.len() as u64;
    home.limits.tenant_bytes = size;
    home.limits.keys_per_tenant = 0;
    home.own_limits = Some(Arc::new(OfOne { bytes: 2 * size, keys: 1 }));
    let keystore = home.open().await;
    let digests = [first.clone(), second].map(|bytes| (Digest::of(&bytes), bytes));
    for (_, bytes) in &digests {
        home.upload(&keystore, bytes).await.expect("within the own limit");
    }
    let error = home.begin(&keystore, &Digest::of(&list(1, 1))).await.expect_err("too much");
    assert!(matches!(error, Error::QuotaExceeded { limit, .. } if limit == 2 * size), "{error}");
    keystore.register_key(&tenant(), &home.request(), &[digests[0].0]).await.expect("one key");
    let second = keystore.register_key(&tenant(), &home.request(), &[digests[1].0]).await;
    assert_eq!(second.expect_err("two keys").kind(), "QuotaExceeded");
    // Other tenants keep the limits of all.
    keystore.put(&other_tenant(), first.clone(), None).await.expect("one key fits");
    let error = keystore.put(&other_tenant(), list(1, 1), None).await.expect_err("too much");
    assert!(matches!(error, Error::QuotaExceeded { limit, .. } if limit == size), "{error}");
    let none = keystore.register_key(&other_tenant(), &home.request(), &[digests[0].0]).await;
    assert_eq!(none.expect_err("no key").kind(), "QuotaExceeded");
}

/// A tenant that fills the space and renews all of its blobs without end blocks only itself.
#[tokio::test]
async fn a_tenant_that_fills_the_space_does_not_shut_out_another() {
    let mut home = Home::local();
    let blobs: Vec<_> = (0..5).map(|salt| list(50, salt)).collect();
    let size = blobs[0].len() as u64;
    home.limits.unpinned_bytes = 4 * size;
    let keystore = home.open().await;
    let mut greedy = Vec::new();
    for bytes in &blobs[..4] {
        greedy.push(home.upload(&keystore, bytes).await.expect("well formed").digest);
        home.wait(Duration::from_secs(1));
    }
    assert_eq!(keystore.find_missing(&tenant(), &greedy).await.expect("asked"), []);
    // An even share is two blobs of four.
    for bytes in &blobs[3..] {
        keystore.put(&other_tenant(), bytes.clone(), None).await.expect("within an even share");
    }
    let theirs = [Digest::of(&blobs[3]), Digest::of(&blobs[4])];
    assert_eq!(keystore.find_missing(&tenant(), &greedy).await.expect("asked"), greedy[..2], "the oldest go");
    // Both tenants now have an even share. More space for a tenant must come from its own blobs,
    // and kept blobs stay.
    let more = keystore.put(&tenant(), blobs[0].clone(), None).await;
    assert_eq!(more, Err(Error::CiphertextSpaceFull { limit: 4 * size }));
    let more = keystore.put(&other_tenant(), blobs[0].clone(), None).await;
    assert_eq!(more, Err(Error::CiphertextSpaceFull { limit: 4 * size }));
    home.wait(home.limits.keep);
    keystore.put(&tenant(), blobs[0].clone(), None).await.expect("one of its own goes");
    assert_eq!(keystore.find_missing(&tenant(), &greedy[2..]).await.expect("asked"), greedy[2..3]);
    assert_eq!(keystore.find_missing(&other_tenant(), &theirs).await.expect("asked"), []);
}

/// A tenant must not displace the blobs of another that has as many bytes.
#[tokio::test]
async fn of_two_tenants_with_equal_bytes_the_one_that_asks_gives() {
    let mut home = Home::local();
    let blobs: Vec<_> = (0..4).map(|salt| list(50, salt)).collect();
    home.limits.unpinned_bytes = 3 * blobs[0].len() as u64;
    let keystore = home.open().await;
    let own = keystore.put(&tenant(), blobs[0].clone(), None).await.expect("well formed").digest;
    let mut theirs = Vec::new();
    for bytes in &blobs[1..3] {
        theirs.push(keystore.put(&other_tenant(), bytes.clone(), None).await.expect("well formed").digest);
    }
    home.wait(home.limits.keep);
    keystore.put(&tenant(), blobs[3].clone(), None).await.expect("its own blob goes");
    assert_eq!(keystore.find_missing(&tenant(), &[own]).await.expect("asked"), [own]);
    assert_eq!(keystore.find_missing(&other_tenant(), &theirs).await.expect("asked"), []);
}

/// The first tenant gives what it can, and the second has nothing to evict. The evicted bytes must
/// also be gone from the disk.
#[tokio::test]
async fn a_sweep_that_makes_too_little_room_removes_what_it_evicted() {
    let mut home = Home::local();
    let blobs: Vec<_> = (0..8).map(|salt| list(50, salt)).collect();
    let size = blobs[0].len() as u64;
    home.limits.unpinned_bytes = size;
    let keystore = home.open().await;
    // The blobs are pinned, so they need no space yet.
    for bytes in &blobs[..5] {
        keystore.put(&tenant(), bytes.clone(), Some(pin(JOB))).await.expect("well formed");
    }
    home.wait(home.limits.keep);
    for bytes in &blobs[5..] {
        keystore.put(&other_tenant(), bytes.clone(), Some(pin(JOB))).await.expect("well formed");
    }
    keystore.unpin(&JOB).await.expect("released");
    // The first tenant gives until the second has more, and all blobs of the second are too recent.
    assert_eq!(keystore.sweep().await.expect("swept").blobs, 3);
    let recent: Vec<_> = blobs[5..].iter().map(|bytes| Digest::of(bytes)).collect();
    assert_eq!(keystore.find_missing(&other_tenant(), &recent).await.expect("asked"), []);
    assert_eq!(home.blob_files().len(), 5);
}

#[tokio::test]
async fn one_tenant_cannot_take_all_seats() {
    let mut home = Home::local();
    home.limits.writers_total = 3;
    home.limits.writers_per_tenant = 2;
    let keystore = home.open().await;
    let digests: Vec<_> = (0..3).map(|salt| Digest::of(&list(5, salt))).collect();
    let mut writers = Vec::new();
    for digest in &digests[..2] {
        let upload = home.begin(&keystore, digest).await.expect("opened");
        writers.push(keystore.append(&tenant(), &upload.id, 0).await.expect("a seat"));
    }
    let third = home.begin(&keystore, &digests[2]).await.expect("opened");
    let refused = keystore.append(&tenant(), &third.id, 0).await.expect_err("two of three are enough");
    assert_eq!(refused, Error::TooManyUploads { what: "uploads of the tenant receiving", limit: 2 });
    let theirs = keystore.begin_upload(&other_tenant(), &home.request(), &digests[0]).await.expect("opened");
    let _theirs = keystore.append(&other_tenant(), &theirs.id, 0).await.expect("the last seat");
    for writer in writers {
        writer.pause().await.expect("kept");
    }
    keystore.append(&tenant(), &third.id, 0).await.expect("a seat is free again");
}

#[tokio::test]
async fn open_uploads_are_counted() {
    let mut home = Home::local();
    home.limits.uploads_per_tenant = 2;
    home.limits.uploads_total = 3;
    home.limits.writers_total = 1;
    let keystore = home.open().await;
    let digests: Vec<_> = (0..4).map(|salt| Digest::of(&list(5, salt))).collect();
    let first = home.begin(&keystore, &digests[0]).await.expect("first");
    let second = home.begin(&keystore, &digests[1]).await.expect("second");
    assert_eq!(home.begin(&keystore, &digests[2]).await.expect_err("third"), Error::UploadsUsedUp { limit: 2 });
    home.begin(&keystore, &digests[0]).await.expect("the same once more");
    keystore.begin_upload(&other_tenant(), &home.request(), &digests[0]).await.expect("third in all");
    let full = keystore.begin_upload(&other_tenant(), &home.request(), &digests[1]).await;
    assert_eq!(full.expect_err("fourth in all").kind(), "TooManyUploads");
    let writer = keystore.append(&tenant(), &first.id, 0).await.expect("a seat");
    let waiting = keystore.append(&tenant(), &second.id, 0).await;
    assert_eq!(waiting.expect_err("no seat").kind(), "TooManyUploads");
    // Taking over an upload of one's own needs no second seat.
    let writer_again = keystore.append(&tenant(), &first.id, 0).await.expect("the same seat");
    drop(writer);
    writer_again.pause().await.expect("kept");
    keystore.append(&tenant(), &second.id, 0).await.expect("a seat");
}

/// A client that begins uploads and goes away is not locked out for a day, and locks out no other
/// client.
#[tokio::test]
async fn idle_uploads_make_room_after_ten_minutes() {
    let mut home = Home::local();
    (home.limits.uploads_per_tenant, home.limits.uploads_total) = (3, 4);
    let keystore = home.open().await;
    let lists: Vec<_> = (0..7).map(|salt| list(5, salt)).collect();
    let digests: Vec<_> = lists.iter().map(|list| Digest::of(list)).collect();
    let begun = [
        home.begin(&keystore, &digests[0]).await.expect("first"),
        home.begin(&keystore, &digests[1]).await.expect("second"),
        home.begin(&keystore, &digests[2]).await.expect("third"),
    ];
    home.wait(Duration::from_secs(1));
    // The first upload is being sent, however slowly; the second has some bytes.
    let writing = keystore.append(&tenant(), &begun[0].id, 0).await.expect("a seat");
    let mut second = keystore.append(&tenant(), &begun[1].id, 0).await.expect("a seat");
    second.write(lists[1].slice(..1000)).await.expect("well formed");
    second.pause().await.expect("kept");
    assert_eq!(home.begin(&keystore, &digests[3]).await.expect_err("too early").kind(), "UploadsUsedUp");
    home.wait(Duration::from_secs(600));
    home.begin(&keystore, &digests[3]).await.expect("in place of the third, which was silent for longest");
    assert_eq!(keystore.upload(&tenant(), &begun[2].id).await.expect_err("given up").kind(), "UploadNotFound");
    assert_eq!(keystore.upload(&tenant(), &begun[1].id).await.expect("still there").committed_bytes, 1000);
    let staged = home.staged_files().len();
    // Another tenant comes, and takes the places beyond an even share.
    for digest in &digests[..2] {
        keystore.begin_upload(&other_tenant(), &home.request(), digest).await.expect("a place");
    }
    assert_eq!(keystore.upload(&tenant(), &begun[1].id).await.expect_err("given up").kind(), "UploadNotFound");
    assert_eq!(home.staged_files().len(), staged - 1, "its bytes went with it");
    let refused = keystore.begin_upload(&other_tenant(), &home.request(), &digests[2]).await;
    assert_eq!(refused.expect_err("two for each is even").kind(), "TooManyUploads");
    // An upload that was being sent until now is not idle.
    writing.pause().await.expect("still there");
    let refused = home.begin(&keystore, &digests[4]).await;
    assert_eq!(refused.expect_err("there is nothing to give up").kind(), "TooManyUploads");
    assert!(keystore.upload(&tenant(), &begun[0].id).await.is_ok());
}

/// Each tenant has half of the places, and all uploads are idle.
#[tokio::test]
async fn a_tenant_with_an_even_share_of_the_places_gives_none_to_another() {
    let mut home = Home::local();
    home.limits.uploads_total = 4;
    let keystore = home.open().await;
    let digests: Vec<_> = (0..3).map(|salt| Digest::of(&list(5, salt))).collect();
    let mut ids = Vec::new();
    for tenant in [tenant(), other_tenant()] {
        for digest in &digests[..2] {
            ids.push(keystore.begin_upload(&tenant, &home.request(), digest).await.expect("a place").id);
            home.wait(Duration::from_secs(1));
        }
    }
    home.wait(Duration::from_secs(600));
    let again = keystore.begin_upload(&other_tenant(), &home.request(), &digests[2]).await;
    again.expect("in place of the first of its own");
    assert_eq!(keystore.upload(&other_tenant(), &ids[2]).await.expect_err("given up").kind(), "UploadNotFound");
    for id in &ids[..2] {
        assert!(keystore.upload(&tenant(), id).await.is_ok());
    }
}

/// Announced bytes that never arrive do not occupy a tenant's quota for a day either.
#[tokio::test]
async fn announced_bytes_of_idle_uploads_make_room() {
    let mut home = Home::local();
    let [one, two] = [list(50, 1), list(60, 2)];
    home.limits.tenant_bytes = one.len() as u64 + two.len() as u64 - 1;
    let keystore = home.open().await;
    home.begin(&keystore, &Digest::of(&one)).await.expect("the first");
    let refused = home.begin(&keystore, &Digest::of(&two)).await;
    assert_eq!(refused.expect_err("the first may still come").kind(), "QuotaExceeded");
    home.wait(Duration::from_secs(600));
    home.upload(&keystore, &two).await.expect("in place of the first");
    let refused = home.begin(&keystore, &Digest::of(&one)).await;
    assert_eq!(refused.expect_err("what is stored stays").kind(), "QuotaExceeded");
}

/// A result takes no place, so giving it up frees none. A result does hold bytes.
#[tokio::test]
async fn results_are_given_up_for_bytes_and_not_for_places() {
    let mut home = Home::local();
    let lists: Vec<_> = (0..4).map(|salt| list(50, salt)).collect();
    let digests: Vec<_> = lists.iter().map(|list| Digest::of(list)).collect();
    home.limits.uploads_per_tenant = 1;
    home.limits.tenant_bytes = 2 * lists[0].len() as u64;
    let keystore = home.open().await;
    // The result has been idle for longest.
    let result = keystore.begin_result(&tenant(), &digests[0]).await.expect("opened");
    let mut writer = keystore.append_result(1, &tenant(), &result.id, 0).await.expect("opened");
    writer.write(lists[0].slice(..5000)).await.expect("well formed");
    writer.pause().await.expect("kept");
    home.wait(Duration::from_secs(1));
    let first = home.begin(&keystore, &digests[1]).await.expect("the only place");
    home.wait(Duration::from_secs(600));
    let second = home.begin(&keystore, &digests[2]).await.expect("in place of the first");
    assert_eq!(keystore.upload(&tenant(), &first.id).await.expect_err("given up").kind(), "UploadNotFound");
    assert_eq!(keystore.upload(&tenant(), &result.id).await.expect("it takes no place").committed_bytes, 5000);
    // A place is lacking, and only the result is idle.
    assert_eq!(home.begin(&keystore, &digests[3]).await, Err(Error::UploadsUsedUp { limit: 1 }));
    assert!(keystore.upload(&tenant(), &second.id).await.is_ok());
    assert!(keystore.upload(&tenant(), &result.id).await.is_ok());
    // Bytes are lacking, so the result is given up.
    keystore.begin_result(&tenant(), &digests[3]).await.expect("in place of the other result");
    assert_eq!(keystore.upload(&tenant(), &result.id).await.expect_err("given up").kind(), "UploadNotFound");
    assert!(keystore.upload(&tenant(), &second.id).await.is_ok());
}

/// Bytes that a worker announces and never sends occupy a tenant's quota for a short time only.
#[tokio::test]
async fn announced_bytes_of_idle_results_make_room_sooner() {
    let mut home = Home::local();
    let digests: Vec<_> = (0..3).map(|salt| Digest::of(&list(50, salt))).collect();
    home.limits.tenant_bytes = 2 * digests[0].size_bytes;
    let keystore = home.open().await;
    let upload = home.begin(&keystore, &digests[0]).await.expect("there is room");
    let result = keystore.begin_result(&tenant(), &digests[1]).await.expect("there is room");
    let refused = home.begin(&keystore, &digests[2]).await;
    assert_eq!(refused.expect_err("both may still come").kind(), "QuotaExceeded");
    home.wait(Duration::from_secs(60));
    home.begin(&keystore, &digests[2]).await.expect("in place of the result");
    assert_eq!(keystore.upload(&tenant(), &result.id).await.expect_err("given up").kind(), "UploadNotFound");
    assert!(keystore.upload(&tenant(), &upload.id).await.is_ok(), "an upload of a client keeps its room for longer");
}

#[tokio::test]
async fn the_latest_request_ids_of_a_tenant_are_remembered() {
    let mut home = Home::local();
    home.limits.request_ids_per_tenant = 3;
    let keystore = home.open().await;
    let digests: Vec<_> = (0..2).map(|salt| Digest::of(&list(5, salt))).collect();
    let requests: Vec<_> = (0..5).map(|_| home.request()).collect();
    keystore.begin_upload(&other_tenant(), &requests[0], &digests[0]).await.expect("begun");
    for request in &requests {
        keystore.begin_upload(&tenant(), request, &digests[0]).await.expect("begun");
    }
    for request in &requests[2..] {
        assert_eq!(keystore.begin_upload(&tenant(), request, &digests[1]).await, Err(Error::RequestIdReused));
    }
    let theirs = keystore.begin_upload(&other_tenant(), &requests[0], &digests[1]).await;
    assert_eq!(theirs, Err(Error::RequestIdReused), "the request ids of one tenant do not displace those of another");
    for request in &requests[..2] {
        keystore.begin_upload(&tenant(), request, &digests[1]).await.expect("the request id was forgotten");
    }
    // Calls without a request id leave nothing to remember.
    keystore.begin_upload_once(&tenant(), &digests[1]).await.expect("begun");
    assert_eq!(keystore.begin_upload(&tenant(), &requests[1], &digests[0]).await, Err(Error::RequestIdReused));
    home.wait(home.limits.request_memory);
    keystore.sweep().await.expect("swept");
    let reused = keystore.begin_upload(&tenant(), &requests[1], &digests[0]).await;
    assert_eq!(reused, Err(Error::RequestIdReused), "the request id is remembered for the whole time");
    home.wait(Duration::from_micros(1));
    keystore.sweep().await.expect("swept");
    keystore.begin_upload(&tenant(), &requests[1], &digests[0]).await.expect("all request ids are forgotten");
}
