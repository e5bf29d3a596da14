use cloakwork_clock::{DAY_MICROS, ManualClock};
use cloakwork_proto::v1::{JobState, LatencyRecord};
use cloakwork_scheduler::JobId;
use cloakwork_storage::{Asker, Database, Rows, Survival};

use super::*;
use crate::{
    database::SCHEMAS,
    jobs::End,
    store::{Attempt, DayUsage, Ended, Write, tests::new_job},
};

async fn open(directory: &tempfile::TempDir) -> (Store, Database) {
    let database = cloakwork_tests_database::open(&directory.path().join("server.db"), &SCHEMAS, 1).await;
    (Store::new(database.clone()), database)
}

/// The job `number` ends in `state` with a record of this size.
fn end(number: u8, state: JobState, day: i64, size: u64) -> Write {
    let end = End {
        state,
        ended_micros: day * DAY_MICROS + 1,
        outputs_expire_micros: None,
        error: None,
        outputs: Vec::new(),
        latency: LatencyRecord { pbs_count: size, device_nanos: 10 * size, ..LatencyRecord::default() },
        attestation: None,
    };
    Write::Ended(Ended { job: JobId(number.into()), end: Arc::new(end) })
}

#[tokio::test]
async fn sums_of_a_day_are_those_of_the_latency_records() {
    let directory = tempfile::tempdir().unwrap();
    let (store, database) = open(&directory).await;
    let submitted = |tenant, number| Write::Submitted(new_job(tenant, number));
    // Two jobs are stored before their end, and one together with it.
    let first = [submitted("a", 1), submitted("a", 2), submitted("b", 4)];
    store.apply(Survival::Crash, &first).await.unwrap();
    let ends = [
        end(1, JobState::Succeeded, 7, 100),
        end(2, JobState::Failed, 7, 0),
        submitted("a", 3),
        end(3, JobState::Succeeded, 7, 30),
        end(4, JobState::Succeeded, 8, 5),
    ];
    store.apply(Survival::Crash, &ends).await.unwrap();
    let usage = |tenant: &str, day, jobs, unsuccessful_jobs, bootstraps| DayUsage {
        tenant: tenant.to_owned(),
        day,
        jobs,
        unsuccessful_jobs,
        bootstraps,
        device_nanos: 10 * bootstraps,
        ..DayUsage::default()
    };
    let all = [usage("a", 7, 3, 1, 130), usage("b", 8, 1, 0, 5)];
    assert_eq!(store.days(None, 0..=10, 10).await.unwrap(), all);
    // The records themselves have these sums.
    let mut reader = database.read(Asker::Upkeep).await.unwrap();
    let rows = reader.query("SELECT latency FROM jobs WHERE tenant = 'a'").all().await.unwrap();
    let records =
        rows.iter().map(|row| <LatencyRecord as prost::Message>::decode(row.bytes("latency").unwrap()).unwrap());
    let of_records = records.fold((0, 0), |sum, record| (sum.0 + record.pbs_count, sum.1 + record.device_nanos));
    assert_eq!(of_records, (130, 1300));
    drop(reader);
    // Repeating an end changes nothing.
    store.apply(Survival::Crash, &[end(1, JobState::Succeeded, 7, 100)]).await.unwrap();
    assert_eq!(store.days(None, 0..=10, 10).await.unwrap(), all);
    assert_eq!(store.days(Some("b"), 0..=10, 10).await.unwrap(), all[1..]);
    assert_eq!(store.days(None, 0..=7, 10).await.unwrap(), all[..1]);
    assert_eq!(store.days(None, 0..=10, 1).await.unwrap(), all[..1]);
    // The quota counts the bootstraps of the programs. Each program here has one. No worker had
    // the job that failed.
    assert_eq!(store.bootstraps_of_day("a", 7).await.unwrap(), 2);
    store.apply(Survival::Crash, &[submitted("a", 5)]).await.unwrap();
    let unfinished = new_job("a", 5).meta.pbs_count;
    assert_eq!(store.bootstraps_of_day("a", 7).await.unwrap(), 2 + unfinished);
    assert_eq!(store.bootstraps_of_day("a", 8).await.unwrap(), unfinished);
    // A job that a worker had counts in full, although the job was cancelled.
    let attempt = Attempt { job: JobId(5), epoch: 1, attempts: 0, worker: 1, suspect: None, solo_crashes: 0 };
    store.apply(Survival::Crash, &[Write::Attempt(attempt), end(5, JobState::Cancelled, 7, 0)]).await.unwrap();
    assert_eq!(store.bootstraps_of_day("a", 7).await.unwrap(), 2 + unfinished);
    assert_eq!(store.bootstraps_of_day("a", 8).await.unwrap(), 0);
}

#[tokio::test]
async fn sums_that_are_too_large_stay_at_a_large_value() {
    let directory = tempfile::tempdir().unwrap();
    let (store, _database) = open(&directory).await;
    let large = u64::MAX / 10;
    for number in 1..=6 {
        // Half of the jobs are stored before their end.
        if number % 2 == 0 {
            store.apply(Survival::Crash, &[Write::Submitted(new_job("a", number))]).await.unwrap();
            store.apply(Survival::Crash, &[end(number, JobState::Succeeded, 7, large)]).await.unwrap();
        } else {
            let both = [Write::Submitted(new_job("a", number)), end(number, JobState::Succeeded, 7, large)];
            store.apply(Survival::Crash, &both).await.unwrap();
        }
    }
    let days = store.days(Some("a"), 7..=7, 1).await.unwrap();
    // The triggers limit the old sum to this value before they add to it.
    let least = 4_000_000_000_000_000_000;
    assert!(days[0].jobs == 6 && days[0].device_nanos >= least && days[0].bootstraps >= least, "{days:?}");
}

#[tokio::test]
async fn stored_bytes_count_for_the_time_between_samples() {
    let directory = tempfile::tempdir().unwrap();
    let (store, database) = open(&directory).await;
    let mut write = database.write(Asker::Upkeep, Rows::All).await.unwrap();
    for sql in [
        "INSERT INTO usage (tenant, blob_bytes, ciphertext_bytes) VALUES ('a', 4096, 0), ('b', 0, 0)",
        "INSERT INTO keys (tenant, key_id, deleting, created_micros) VALUES ('a', X'01', 0, 0), ('a', X'02', 0, 0)",
        "INSERT INTO received_days (tenant, day, bytes) VALUES ('a', 3, 70), ('c', 4, 9)",
    ] {
        // PostgreSQL writes bytes in another form.
        let sql = if database.is_on_server() { sql.replace("X'", "'\\x") } else { sql.to_owned() };
        write.query(sql.leak()).execute().await.unwrap();
    }
    write.commit().await.unwrap();
    let time = ManualClock::at(3 * DAY_MICROS);
    let limits = Arc::new(Limits { usage_seconds: 86_400, ..Limits::default() });
    let mut metering = Metering::new(store.clone(), time.clock(), limits);
    metering.sample().await.unwrap();
    let stored = async |day| {
        let days = store.days(Some("a"), day..=day, 10).await.unwrap();
        days.first().map(|usage| (usage.stored_kib_seconds, usage.key_seconds, usage.received_bytes))
    };
    assert_eq!(stored(3).await, Some((0, 0, 70)), "no time has passed");
    time.advance(Duration::from_secs(60));
    metering.sample().await.unwrap();
    assert_eq!(stored(3).await, Some((240, 120, 70)));
    // The server was away for an hour.
    time.advance(Duration::from_secs(3600));
    metering.sample().await.unwrap();
    assert_eq!(stored(3).await, Some((240 + 480, 120 + 240, 70)));
    assert_eq!(store.days(None, 0..=9, 9).await.unwrap().len(), 2, "a tenant without bytes has no row");
    // Days that are too old are forgotten.
    time.advance(Duration::from_secs(2 * 86_400));
    metering.sample().await.unwrap();
    assert_eq!((stored(3).await, stored(5).await), (None, Some((480, 240, 0))));
}
