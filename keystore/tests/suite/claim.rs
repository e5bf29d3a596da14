//! Which store belongs to which database, and what is compared after one of them was restored.

use std::{path::PathBuf, time::Duration};

use cloakwork_clock::{Clock, ManualClock};
use cloakwork_keystore::{
    ClaimError, Digest, Error, Keystore, Options, StoreOptions, adopt, check, claim, compare, condemn, has_claimed,
};
use cloakwork_storage::{Asker, Database, Rows};
use tokio::time::timeout;

use crate::{
    home::{DAY, DEADLINE, Home, Kind, other_tenant, read, tenant},
    objects::{KEY, bootstrap_key, key_switch_key, list, toy},
};

on_both_stores!(
    a_store_of_another_database_is_refused_and_keeps_its_blobs,
    a_store_that_has_lost_its_marker_is_refused,
    a_first_start_that_was_interrupted_is_repeated,
    a_comparison_finds_lost_and_unknown_bytes,
);

fn store(home: &Home) -> StoreOptions {
    home.options(home.root()).store
}

fn marker(home: &Home) -> PathBuf {
    home.bytes_at().join("marker.txt")
}

/// A database that has nothing to do with the home's.
async fn other_database(home: &Home) -> Database {
    let path = home.root().join("other");
    std::fs::create_dir_all(&path).expect("a directory");
    crate::home::database(&path).await
}

async fn a_store_of_another_database_is_refused_and_keeps_its_blobs(home: Home) {
    let (ours, theirs) = (home.database().await, other_database(&home).await);
    claim(&store(&home), &ours, [1; 16], DEADLINE).await.expect("a new store");
    let keystore = home.open_on(&ours).await;
    let blob = keystore.put(&tenant(), list(5, 1), None).await.expect("stored").digest;
    let other = |ours: &str| ClaimError::Other { theirs: "01".repeat(16), ours: ours.to_owned() };
    for refused in
        [claim(&store(&home), &theirs, [2; 16], DEADLINE).await, check(&store(&home), &theirs, DEADLINE).await]
    {
        assert_eq!(refused, Err(other("none")));
    }
    let elsewhere = StoreOptions::Local(home.root().join("elsewhere"));
    claim(&elsewhere, &theirs, [3; 16], DEADLINE).await.expect("a new store");
    assert_eq!(claim(&store(&home), &theirs, [4; 16], DEADLINE).await, Err(other(&"03".repeat(16))));
    // A later start of the first database, whose sweep takes all objects for old ones.
    home.wait(DAY);
    claim(&store(&home), &ours, [5; 16], DEADLINE).await.expect("the same store");
    let keystore = home.open_on(&ours).await;
    keystore.blob(&tenant(), &blob).await.expect("it is there");
    assert!(home.blob_file(&blob).exists() && marker(&home).exists());
    // The operator decides otherwise.
    adopt(&store(&home), &theirs, [6; 16]).await.expect("adopted");
    claim(&store(&home), &theirs, [7; 16], DEADLINE).await.expect("the same store");
    let refused = ClaimError::Other { theirs: "06".repeat(16), ours: "01".repeat(16) };
    assert_eq!(check(&store(&home), &ours, DEADLINE).await, Err(refused));
}

async fn a_store_that_has_lost_its_marker_is_refused(home: Home) {
    let database = home.database().await;
    check(&store(&home), &database, DEADLINE).await.expect("neither has a number");
    claim(&store(&home), &database, [1; 16], DEADLINE).await.expect("a new store");
    std::fs::remove_file(marker(&home)).expect("a marker");
    for refused in
        [claim(&store(&home), &database, [2; 16], DEADLINE).await, check(&store(&home), &database, DEADLINE).await]
    {
        assert_eq!(refused, Err(ClaimError::Unmarked));
    }
    adopt(&store(&home), &database, [3; 16]).await.expect("adopted");
    claim(&store(&home), &database, [4; 16], DEADLINE).await.expect("it has a marker again");
    std::fs::write(marker(&home), [b'x'; 4096]).expect("a file");
    let refused = claim(&store(&home), &database, [5; 16], DEADLINE).await;
    let ours = "03".repeat(16);
    assert_eq!(refused, Err(ClaimError::Other { theirs: "unreadable".to_owned(), ours }));
}

/// The process ends between the number in the database and the marker in the store.
async fn a_first_start_that_was_interrupted_is_repeated(home: Home) {
    let database = home.database().await;
    if home.is_local() {
        let unwritable = marker(&home).with_extension("new");
        std::fs::create_dir_all(&unwritable).expect("a directory");
        claim(&store(&home), &database, [1; 16], DEADLINE).await.expect_err("no file replaces a directory");
        std::fs::remove_dir(unwritable).expect("a directory");
    } else {
        home.gate().close(&["PutObject"]);
        let options = store(&home);
        let mut interrupted = Box::pin(claim(&options, &database, [1; 16], DEADLINE));
        tokio::select! {
            _ = &mut interrupted => panic!("the store does not answer"),
            reached = timeout(DEADLINE, home.gate().reached("PutObject", 1)) => reached.expect("in time"),
        }
        drop(interrupted);
        home.gate().open();
    }
    claim(&store(&home), &database, [2; 16], DEADLINE).await.expect("repeated");
    let text = std::fs::read_to_string(marker(&home)).expect("a marker");
    assert!(text.ends_with(&format!("\n{}\n", "01".repeat(16))), "{text}");
}

async fn a_comparison_finds_lost_and_unknown_bytes(home: Home) {
    let database = home.database().await;
    claim(&store(&home), &database, [1; 16], DEADLINE).await.expect("a new store");
    let keystore = home.open_on(&database).await;
    let parts = [bootstrap_key(toy(), KEY, 1), key_switch_key(toy(), KEY, 1)];
    let digests = [Digest::of(&parts[0]), Digest::of(&parts[1])];
    for part in &parts {
        home.upload(&keystore, part).await.expect("well formed");
    }
    keystore.register_key(&tenant(), &home.request(), &digests).await.expect("parts");
    let kept = keystore.put(&tenant(), list(5, 1), None).await.expect("stored").digest;
    let lost = keystore.put(&tenant(), list(5, 2), None).await.expect("stored").digest;
    let foreign = keystore.put(&other_tenant(), list(5, 2), None).await.expect("stored").digest;
    let compared = compare(&store(&home), &database).await.expect("compared");
    assert_eq!((compared.blobs, compared.objects, compared.unknown), (5, 5, 0));
    assert_eq!(compared.lost, []);
    // The bucket is older than the database, and younger.
    for digest in [&digests[0], &lost] {
        std::fs::remove_file(home.blob_file(digest)).expect("there");
    }
    for unknown in [home.blob_file(&Digest::of(b"unknown")), home.bytes_at().join("alice/00/stray")] {
        std::fs::create_dir_all(unknown.parent().expect("a parent")).expect("a directory");
        std::fs::write(unknown, "bytes").expect("a file");
    }
    let compared = compare(&store(&home), &database).await.expect("compared");
    assert_eq!((compared.blobs, compared.objects, compared.unknown), (5, 5, 2));
    let mut expected = vec![(digests[0], true), (lost, false)];
    expected.sort_by_key(|(digest, _)| digest.blake3);
    let found: Vec<(Digest, bool)> = compared.lost.iter().map(|lost| (lost.digest, lost.is_key)).collect();
    assert_eq!((found, compared.lost[0].tenant.clone()), (expected, tenant()));
    keystore.blob(&tenant(), &lost).await.expect("the comparison changes nothing");
    condemn(&database, &compared.lost).await.expect("marked");
    let old = compared;
    assert_eq!(compare(&store(&home), &database).await.expect("compared").lost, []);
    is_missing(&keystore, &lost).await;
    is_missing(&keystore, &digests[0]).await;
    keystore.blob(&tenant(), &kept).await.expect("untouched");
    keystore.blob(&other_tenant(), &foreign).await.expect("a blob of another tenant");
    home.upload(&keystore, &parts[0]).await.expect("uploaded again");
    home.upload(&keystore, &list(5, 2)).await.expect("uploaded again");
    // A list of losses that is older than the uploads condemns nothing.
    condemn(&database, &old.lost).await.expect("nothing to mark");
    let compared = compare(&store(&home), &database).await.expect("compared");
    assert_eq!((compared.blobs, compared.lost.len()), (5, 0));
    keystore.blob(&tenant(), &lost).await.expect("the bytes of the second upload");
}

async fn is_missing(keystore: &Keystore, digest: &Digest) {
    assert_eq!(keystore.blob(&tenant(), digest).await.expect_err("marked").kind(), "BlobDamaged");
    assert_eq!(keystore.find_missing(&tenant(), &[*digest]).await.expect("asked"), [*digest]);
}

/// Two pages of the comparison are full, and the third is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comparison_reads_all_pages() {
    let home = Home::local();
    let database = home.database().await;
    let keystore = home.open_on(&database).await;
    let blob = keystore.put(&tenant(), list(1, 1), None).await.expect("stored").digest;
    let mut write = database.write(Asker::Upkeep, Rows::All).await.expect("a turn");
    for number in 0..2060_u128 {
        let copy = write.query(
            "INSERT INTO blobs (tenant, digest, size_bytes, kind, set_id, key_id, count, degree_max, noise_level_max,
                is_key, damaged, created_micros, touched_micros, keep_until_micros, dimensions)
             SELECT $1, $2, size_bytes, kind, set_id, key_id, count, degree_max, noise_level_max,
                is_key, damaged, created_micros, touched_micros, keep_until_micros, dimensions
             FROM blobs WHERE tenant = 'alice' AND digest = $3",
        );
        let mut digest = [0; 32];
        digest[..16].copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835).to_be_bytes());
        let owner = if number % 2 == 0 { "alice" } else { "bob" };
        copy.bind(owner).bind(digest).bind(blob.blake3).execute().await.expect("a row");
    }
    write.commit().await.expect("committed");
    let compared = compare(&store(&home), &database).await.expect("compared");
    assert_eq!((compared.blobs, compared.objects, compared.lost.len()), (2061, 1, 2060));
}

/// S3 refuses requests that are more than 15 minutes off. The clock of this machine is an hour
/// fast, or slow, and the server goes by the clock of its database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_to_a_bucket_have_the_time_of_the_database() {
    let home = Home::s3().await;
    let StoreOptions::S3(mut options) = store(&home) else { panic!("a bucket") };
    let database = home.database().await;
    let hour = 3_600_000_000;
    for (machine, moved) in [(hour, -hour), (-hour, hour)] {
        let now = Clock::system().unix_micros();
        options.clock = ManualClock::at(now + machine).clock();
        options.clock.move_by(2 * moved);
        let refused =
            claim(&StoreOptions::S3(options.clone()), &database, [1; 16], DEADLINE).await.expect_err("a wrong time");
        assert!(refused.to_string().contains("RequestTimeTooSkewed"), "{refused}");
        options.clock.move_by(moved);
        let right = StoreOptions::S3(options.clone());
        claim(&right, &database, [1; 16], DEADLINE).await.expect("the right time");
        let options = Options { store: right.clone(), ..home.options(home.root()) };
        let keystore = Keystore::open(options, &database).await.expect("it opens");
        let entry_bytes = list(2, 0).len() - list(1, 0).len();
        let several_parts = u32::try_from((17 << 20) / entry_bytes).expect("a count");
        for bytes in [list(5, 1), list(several_parts, 2)] {
            let blob = home.upload(&keystore, &bytes).await.expect("stored").digest;
            assert_eq!(read(&keystore, &blob, 0).await.expect("it is there"), bytes);
            let url = keystore.url(&tenant(), &blob, Duration::from_secs(60)).await.expect("there");
            assert_eq!(url, None, "a URL would have the time of this machine");
            keystore.delete(&tenant(), &blob).await.expect("unused");
        }
        let compared = compare(&right, &database).await.expect("compared");
        assert_eq!((compared.blobs, compared.objects), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_knows_whether_it_has_claimed_a_store() {
    let home = Home::s3().await;
    let database = home.database().await;
    assert_eq!(has_claimed(&database).await, Ok(false));
    claim(&store(&home), &database, [1; 16], DEADLINE).await.expect("a new store");
    assert_eq!(has_claimed(&database).await, Ok(true));
    let credentials = "aws_access_key_id = a\naws_secret_access_key = b\n";
    std::fs::write(home.root().join("credentials"), credentials).expect("a file");
    let refused = claim(&store(&home), &database, [1; 16], DEADLINE).await.expect_err("wrong credentials");
    assert!(matches!(refused, ClaimError::Failed(Error::StorageFailed { .. })), "it answers: {refused:?}");
}
