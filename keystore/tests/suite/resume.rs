//! Interrupted uploads: every interruption leads to the same blob.

use std::{pin::pin, time::Duration};

use bytes::Bytes;
use cloakwork_keystore::{Digest, Error, Swept};
use cloakwork_storage::{Asker, Rows};
use futures_util::FutureExt as _;
use proptest::prelude::*;

use crate::{
    home::{Home, Kind, eventually, read, tenant},
    objects::list,
};

/// Event between two pieces.
#[derive(Clone, Copy, Debug)]
enum Break {
    Nothing,
    Pause,
    Drop,
    Restart,
}

fn plan() -> impl Strategy<Value = Vec<(usize, Break)>> {
    let what = prop_oneof![
        4 => Just(Break::Nothing), 1 => Just(Break::Pause), 1 => Just(Break::Drop), 1 => Just(Break::Restart)
    ];
    proptest::collection::vec((1usize..60_000, what), 0..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_interruptions_give_the_same_blob(count in 1u32..150, window in 200u32..100_000, plan in plan()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
        runtime.block_on(follow(count, window, plan));
    }
}

async fn follow(count: u32, window: u32, plan: Vec<(usize, Break)>) {
    let mut home = Home::local();
    home.limits.window_bytes = window;
    let bytes = list(count, 1);
    let digest = Digest::of(&bytes);
    let mut keystore = home.open().await;
    let id = home.begin(&keystore, &digest).await.expect("opened").id;
    let mut writer = keystore.append(&tenant(), &id, 0).await.expect("opened");
    let mut sent = 0;
    for (step, then) in plan {
        let end = (sent + step).min(bytes.len());
        writer.write(bytes.slice(sent..end)).await.expect("well formed");
        sent = end;
        match then {
            Break::Nothing => continue,
            Break::Pause => {
                let kept = writer.pause().await.expect("kept");
                // All bytes are kept, unless even the header was incomplete.
                assert!(kept == sent as u64 || (kept == 0 && sent < 112), "{kept} of {sent}");
            }
            Break::Drop => drop(writer),
            Break::Restart => {
                writer.pause().await.expect("kept");
                keystore = home.open().await;
            }
        }
        // The thread of a dropped writer may still take bytes from its window.
        sent = loop {
            let offset = keystore.upload(&tenant(), &id).await.expect("open").committed_bytes;
            match keystore.append(&tenant(), &id, offset).await {
                Ok(again) => {
                    writer = again;
                    break offset as usize;
                }
                Err(Error::UploadOffsetMismatch { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        };
    }
    writer.write(bytes.slice(sent..)).await.expect("well formed");
    let blob = writer.finish().await.expect("well formed");
    assert_eq!((blob.digest, blob.count), (digest, u64::from(count)));
    assert_eq!(read(&keystore, &digest, 0).await.expect("there"), bytes);
    assert!(home.staged_files().is_empty());
}

/// Large uploads are written in blocks, from any offset on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interruptions_of_a_large_upload_give_the_same_blob() {
    let bytes = list(25_000, 1);
    assert!(bytes.len() > 48 << 20, "the rest is large after the first interruption, too");
    let plan = vec![
        (1 << 20, Break::Nothing),
        (2_000_001, Break::Pause),
        (7_000_000, Break::Drop),
        (5_000_000, Break::Restart),
        (30_000_000, Break::Pause),
    ];
    follow(25_000, 8 << 20, plan).await;
}

#[tokio::test]
async fn a_wrong_offset_names_the_right_one() {
    let home = Home::local();
    let keystore = home.open().await;
    let bytes = list(50, 1);
    let id = home.begin(&keystore, &Digest::of(&bytes)).await.expect("opened").id;
    let mut writer = keystore.append(&tenant(), &id, 0).await.expect("opened");
    writer.write(bytes.slice(..5000)).await.expect("well formed");
    assert_eq!(writer.pause().await, Ok(5000));
    for got in [0, 4999, 5001, u64::MAX] {
        let refused = keystore.append(&tenant(), &id, got).await;
        assert_eq!(refused.err(), Some(Error::UploadOffsetMismatch { committed_bytes: 5000, got }));
    }
}

#[tokio::test]
async fn an_early_or_damaged_finish_discards_the_bytes() {
    let home = Home::local();
    let keystore = home.open().await;
    let bytes = list(50, 1);
    let digest = Digest::of(&bytes);
    let id = home.begin(&keystore, &digest).await.expect("opened").id;
    let mut damaged = bytes.to_vec();
    damaged[60_000] ^= 1;
    let mut writer = keystore.append(&tenant(), &id, 0).await.expect("opened");
    writer.write(Bytes::from(damaged)).await.expect("well formed so far");
    let error = writer.finish().await.expect_err("damaged");
    assert_eq!(error.kind(), "DigestMismatch");
    assert_eq!(keystore.upload(&tenant(), &id).await.expect("still open").committed_bytes, 0);
    assert!(home.staged_files().is_empty());
    home.upload(&keystore, &bytes).await.expect("well formed");
    // Finishing too early is refused, and the upload is removed.
    let bytes = list(50, 2);
    let id = home.begin(&keystore, &Digest::of(&bytes)).await.expect("opened").id;
    let mut writer = keystore.append(&tenant(), &id, 0).await.expect("opened");
    writer.write(bytes.slice(..70_000)).await.expect("well formed");
    assert_eq!(writer.finish().await.expect_err("too early").kind(), "SizeMismatch");
    assert_eq!(keystore.upload(&tenant(), &id).await.expect_err("gone").kind(), "UploadNotFound");
    assert!(home.staged_files().is_empty());
}

#[tokio::test]
async fn an_upload_without_a_writer_expires() {
    let home = Home::local();
    let keystore = home.open().await;
    let bytes = list(50, 1);
    let id = home.begin(&keystore, &Digest::of(&bytes)).await.expect("opened").id;
    let mut writer = keystore.append(&tenant(), &id, 0).await.expect("opened");
    writer.write(bytes.slice(..5000)).await.expect("well formed");
    home.wait(home.limits.upload_expiry + Duration::from_secs(1));
    // An upload with a writer does not expire.
    assert_eq!(keystore.sweep().await.expect("swept").uploads, 0);
    writer.pause().await.expect("kept");
    // The upload does not expire right after its writer either: the time runs from the writer's
    // end.
    assert_eq!(keystore.sweep().await.expect("swept").uploads, 0);
    assert_eq!(keystore.upload(&tenant(), &id).await.expect("still open").committed_bytes, 5000);
    home.wait(home.limits.upload_expiry + Duration::from_secs(1));
    assert_eq!(keystore.sweep().await.expect("swept").uploads, 1);
    assert!(home.staged_files().is_empty());
    assert_eq!(keystore.upload(&tenant(), &id).await, Err(Error::UploadNotFound { id }));
}

/// The expiry of a complete upload counts from its end: a client that lost the answer may ask for
/// that long, however slow its upload was.
#[tokio::test]
async fn a_complete_upload_expires_after_its_end() {
    let home = Home::local();
    let keystore = home.open().await;
    let bytes = list(50, 1);
    let id = home.begin(&keystore, &Digest::of(&bytes)).await.expect("opened").id;
    let mut writer = keystore.append(&tenant(), &id, 0).await.expect("opened");
    writer.write(bytes.clone()).await.expect("well formed");
    home.wait(home.limits.upload_expiry / 2);
    writer.finish().await.expect("well formed");
    home.wait(home.limits.upload_expiry - Duration::from_secs(1));
    assert_eq!(keystore.sweep().await.expect("swept").uploads, 0);
    assert_eq!(keystore.upload(&tenant(), &id).await.expect("known").committed_bytes, bytes.len() as u64);
    home.wait(Duration::from_secs(1));
    assert_eq!(keystore.sweep().await.expect("swept").uploads, 1);
    assert_eq!(keystore.upload(&tenant(), &id).await, Err(Error::UploadNotFound { id }));
}

/// The client begins its upload again after the sweep has found it, and before the sweep writes.
#[tokio::test]
async fn a_sweep_spares_an_expired_upload_that_begins_again() {
    // Several connections to a server write, so the sweep does not wait for this one.
    if cloakwork_tests_database::on_postgres() {
        return;
    }
    let home = Home::local();
    let keystore = home.open().await;
    let bytes = list(50, 1);
    let digest = Digest::of(&bytes);
    home.begin_and_pause(&keystore, &bytes).await;
    home.wait(home.limits.upload_expiry);
    // The client stands in front of the sweep, and both wait for the writer.
    let busy = home.opened().write(Asker::Server, Rows::All).await.expect("a turn");
    let mut beginning = pin!(home.begin(&keystore, &digest));
    assert!((&mut beginning).now_or_never().is_none());
    let sweeping = tokio::spawn({
        let keystore = keystore.clone();
        async move { keystore.sweep().await }
    });
    eventually("the sweep waits for the writer", || home.opened().waiting_writers() == 2).await;
    busy.commit().await.expect("committed");
    let upload = beginning.await.expect("begun again");
    assert_eq!(sweeping.await.expect("no panic"), Ok(Swept::default()));
    assert_eq!(keystore.upload(&tenant(), &upload.id).await.expect("open").committed_bytes, 5000);
}
