use cloakwork_clock::{ManualClock, unix_micros_after};
use cloakwork_keystore::{Digest, Error, Pin, TenantId};
use cloakwork_proto::v1::{JobState, LatencyRecord};
use cloakwork_scheduler::JobId;
use cloakwork_storage::Survival;

use super::*;
use crate::{
    database::SCHEMAS,
    jobs::{Content, End},
    keys,
    store::{Ended, Write, tests::job},
    test_backend::TestBackend,
    test_objects::key_part,
};

const DAY: Duration = Duration::from_secs(86_400);

/// Job 1 is live. Job 2 has ended and keeps a blob. Job 3 has ended with an output in its row. Job
/// 4 is unknown.
async fn jobs(store: &Store) {
    store.apply(Survival::Crash, &[job("a", 1, 1), job("a", 2, 1), job("a", 3, 1)]).await.unwrap();
    let end = |number, output| {
        let end = End {
            state: JobState::Succeeded,
            ended_micros: 0,
            outputs_expire_micros: Some(i64::MAX),
            error: None,
            outputs: [output].into(),
            latency: LatencyRecord::default(),
            attestation: None,
        };
        Write::Ended(Ended { job: JobId(number), end: Arc::new(end) })
    };
    let blob = Content { digest: [9; 32], size_bytes: 1 << 40, bytes: None };
    let inline = Content::inline(bytes::Bytes::from_static(&[1]));
    store.apply(Survival::Crash, &[end(2, blob), end(3, inline)]).await.unwrap();
}

#[tokio::test]
async fn a_start_releases_unneeded_pins_and_keeps_outputs() {
    let directory = tempfile::tempdir().unwrap();
    let database = cloakwork_tests_database::open(&directory.path().join("server.db"), &SCHEMAS, 1).await;
    let store = Store::new(database.clone());
    jobs(&store).await;
    let clock = ManualClock::at(0).clock();
    let keystore = keys::tests::keystore(directory.path(), clock.clone(), &database).await;
    let (keys, limits) = (KeyUses::default(), Arc::default());
    let sweeper = Sweeper { store, keystore: keystore.clone(), keys, clock, limits };
    let (tenant, bytes) = (TenantId::new("a").unwrap(), key_part());
    let digest = Digest::of(&bytes);
    let inputs = |number| id::to_bytes(JobId(number));
    let outputs = |number| id::output_holder(JobId(number));
    for (what, holder, needed) in [
        ("inputs of a live job", inputs(1), true),
        ("outputs of a live job", outputs(1), true),
        ("inputs of a job that has ended", inputs(2), false),
        ("outputs that are kept", outputs(2), true),
        ("outputs that no row names", outputs(3), false),
        ("inputs of a job that was never stored", inputs(4), false),
    ] {
        for until_micros in [None, Some(unix_micros_after(0, DAY))] {
            keystore.put(&tenant, bytes.clone(), None).await.unwrap();
            keystore.pin(&tenant, &[digest], &Pin { holder, until_micros }).await.unwrap();
            sweeper.begin().await.unwrap();
            let released = match keystore.delete(&tenant, &digest).await {
                Ok(()) => true,
                Err(Error::BlobInUse { .. }) => false,
                Err(error) => panic!("{error}"),
            };
            assert_eq!(released, !needed, "{what}, until {until_micros:?}");
            keystore.unpin(&holder).await.unwrap();
        }
    }
}

/// The keep time of outputs, and then the time for which records of ended jobs are kept.
#[tokio::test]
async fn outputs_and_records_go_at_their_time() {
    let limits = Limits { job_record_seconds: 2 * 86_400, ..Limits::default() };
    let TestBackend { store, keystore, dispatcher, time, limits, directory: _directory, .. } =
        TestBackend::start(limits).await;
    let clock = time.clock();
    let sweeper = Sweeper { store: store.clone(), keystore, keys: KeyUses::default(), clock, limits };
    let now_micros = sweeper.clock.unix_micros();
    let end = End {
        state: JobState::Succeeded,
        ended_micros: now_micros,
        outputs_expire_micros: Some(unix_micros_after(now_micros, DAY)),
        error: None,
        outputs: [Content::inline(bytes::Bytes::from_static(&[1]))].into(),
        latency: LatencyRecord::default(),
        attestation: None,
    };
    let ended = Write::Ended(Ended { job: JobId(1), end: Arc::new(end) });
    store.apply(Survival::Crash, &[job("a", 1, 1), ended]).await.unwrap();
    let outputs = async || {
        sweeper.round(&dispatcher).await;
        let job = store.job("a", JobId(1), true).await.unwrap();
        job.map(|job| job.end.expect("an end").outputs.len())
    };
    let moment = Duration::from_micros(1);
    time.advance(DAY);
    assert_eq!(outputs().await, Some(1), "outputs are kept to the end of their time");
    time.advance(moment);
    assert_eq!(outputs().await, Some(0));
    time.advance(DAY - moment);
    assert_eq!(outputs().await, Some(0), "the record is kept to the end of its time");
    time.advance(moment);
    assert_eq!(outputs().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_round_that_panics_does_not_end_the_sweeper() {
    let rounds = std::sync::atomic::AtomicU32::new(0);
    let begun = tokio::time::Instant::now();
    let sweeping = in_rounds(|| async {
        let round = rounds.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        assert!(round != 0, "on purpose");
    });
    // The first round begins at once.
    let ended = tokio::time::timeout(2 * SWEEP_INTERVAL + SWEEP_INTERVAL / 2, sweeping).await;
    assert!(ended.is_err(), "the sweeper never ends");
    assert_eq!((rounds.into_inner(), begun.elapsed()), (3, 2 * SWEEP_INTERVAL + SWEEP_INTERVAL / 2));
}
