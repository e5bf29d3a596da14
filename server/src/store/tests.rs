//! The store against a real database.

use std::sync::Arc;

use bytes::Bytes;
use cloakwork_circuit::ProgramId;
use cloakwork_params::{AnySet, KeyId, table};
use cloakwork_proto::v1::{JobState, LatencyRecord};
use cloakwork_scheduler::JobId;
use cloakwork_storage::{Asker, Survival};

use super::*;
use crate::{
    database::SCHEMAS,
    jobs::{Content, End, JobMeta},
    store::{Done, Ended, NewJob, Write},
};

async fn store(directory: &tempfile::TempDir) -> Store {
    Store::new(cloakwork_tests_database::open(&directory.path().join("server.db"), &SCHEMAS, 1).await)
}

/// A job without inputs.
pub(crate) fn new_job(tenant: &str, number: u8) -> NewJob {
    let meta = JobMeta {
        id: JobId(number.into()),
        tenant: tenant.into(),
        request_id: [number; 16],
        request_digest: [0; 32],
        program: ProgramId([1; 32]),
        key_id: KeyId([7; 16]),
        set: AnySet::Tfhe(&table::SETS[0]),
        operation: "ADD",
        trace: None,
        rows: 1,
        pbs_count: 1,
        cost: 7,
        priority: 0,
        inline_outputs: true,
        keep_outputs_micros: 0,
        created_micros: 0,
        deadline_micros: 0,
    };
    NewJob {
        meta: Arc::new(meta),
        program: Bytes::from_static(&[1; 10]),
        inputs: [].into(),
        key_parts: Vec::new(),
        promised: true,
    }
}

/// A job with one input that lies in the database and one that does not.
pub(crate) fn job(tenant: &str, number: u8, input_bytes: usize) -> Write {
    let blob = Content { digest: [9; 32], size_bytes: 1 << 40, bytes: None };
    let inputs = [Content::inline(Bytes::from(vec![0; input_bytes])), blob];
    Write::Submitted(NewJob { inputs: inputs.into(), ..new_job(tenant, number) })
}

fn end(number: u8, outputs: &[usize]) -> Write {
    let outputs = outputs.iter().map(|bytes| Content::inline(Bytes::from(vec![0; *bytes])));
    let end = End {
        state: JobState::Succeeded,
        ended_micros: i64::from(number),
        outputs_expire_micros: Some(1000),
        error: None,
        outputs: outputs.collect(),
        latency: LatencyRecord::default(),
        attestation: None,
    };
    Write::Ended(Ended { job: JobId(number.into()), end: Arc::new(end) })
}

#[tokio::test]
async fn inline_bytes_of_a_tenant_follow_inserts_and_deletes() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    assert_eq!(store.inline_bytes("a").await.unwrap(), 0);
    store.apply(Survival::Crash, &[job("a", 1, 100), job("a", 2, 200), job("b", 3, 400)]).await.unwrap();
    // The program counts once for each tenant. Blobs do not count, because the key store counts
    // them.
    assert_eq!(store.inline_bytes("a").await.unwrap(), 10 + 100 + 200);
    assert_eq!(store.inline_bytes("b").await.unwrap(), 10 + 400);
    let closed = |number| Write::Closed(JobId(number), LatencyRecord::default());
    store.apply(Survival::Crash, &[end(1, &[50]), end(2, &[]), closed(1), closed(2)]).await.unwrap();
    assert_eq!(store.inline_bytes("a").await.unwrap(), 10 + 50);
    store.drop_outputs(&[JobId(1)]).await.unwrap();
    assert_eq!(store.inline_bytes("a").await.unwrap(), 10);
    assert_eq!(store.forget_jobs(10, 100).await.unwrap(), 2);
    assert_eq!(store.forget_programs(100).await.unwrap(), 1);
    assert_eq!(store.inline_bytes("a").await.unwrap(), 0);
    assert_eq!(store.inline_bytes("b").await.unwrap(), 10 + 400);
}

#[tokio::test]
async fn the_oldest_records_beyond_the_limit_are_removed_except_live_jobs_and_kept_outputs() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    store.apply(Survival::Crash, &(1..=6).map(|number| job("a", number, 1)).collect::<Vec<_>>()).await.unwrap();
    store.apply(Survival::Crash, &[job("b", 7, 1), end(7, &[])]).await.unwrap();
    assert_eq!(store.too_many_ended(1).await.unwrap(), []);
    // Of six jobs, the first is still live and the second one's output is kept.
    store.apply(Survival::Crash, &[end(2, &[5]), end(3, &[]), end(4, &[]), end(5, &[]), end(6, &[])]).await.unwrap();
    assert_eq!(store.too_many_ended(3).await.unwrap(), [("a".to_owned(), 2)]);
    assert_eq!(store.forget_oldest("a", 2).await.unwrap(), 2);
    assert_eq!(store.too_many_ended(3).await.unwrap(), []);
    for (number, there) in [(1, true), (2, true), (3, false), (4, false), (5, true), (6, true)] {
        assert_eq!(store.job("a", JobId(number), false).await.unwrap().is_some(), there, "job {number}");
    }
    assert_eq!(store.forget_oldest("a", 100).await.unwrap(), 2, "all other jobs have outputs, or have not ended");
    assert!(store.job("b", JobId(7), false).await.unwrap().is_some(), "another tenant's stay");
}

#[tokio::test]
async fn an_output_waits_for_the_others_of_its_job() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    store.apply(Survival::Crash, &[job("a", 1, 1), end(1, &[10, 20, 30])]).await.unwrap();
    let expires = async || {
        let view = store.job("a", JobId(1), true).await.unwrap().unwrap();
        let end = view.end.unwrap();
        assert_eq!(end.outputs.len(), 3, "the index is part of an output's name and never changes");
        end.outputs_expire_micros
    };
    store.done_with("a", JobId(1), 0, Done::Fetched, 700).await.unwrap();
    store.done_with("a", JobId(1), 0, Done::Fetched, 700).await.unwrap();
    store.done_with("a", JobId(1), 2, Done::Deleted, 600).await.unwrap();
    assert_eq!(expires().await, Some(1000), "the second output was not fetched");
    assert!(store.is_deleted("a", JobId(1), 2).await.unwrap());
    assert!(!store.is_deleted("a", JobId(1), 0).await.unwrap() && !store.is_deleted("a", JobId(1), 1).await.unwrap());
    // Fetching a deleted output does not restore it.
    store.done_with("a", JobId(1), 2, Done::Fetched, 700).await.unwrap();
    assert!(store.is_deleted("a", JobId(1), 2).await.unwrap());
    store.done_with("a", JobId(1), 1, Done::Fetched, 700).await.unwrap();
    assert_eq!(expires().await, Some(700));
    store.done_with("a", JobId(1), 1, Done::Fetched, 900).await.unwrap();
    assert_eq!(expires().await, Some(700), "never later");
}

#[tokio::test]
async fn a_program_that_a_job_carried_is_not_a_registered_one() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    let id = ProgramId([1; 32]);
    assert_eq!(store.is_registered("a", id).await.unwrap(), None);
    store.apply(Survival::Crash, &[job("a", 1, 1)]).await.unwrap();
    assert_eq!(store.is_registered("a", id).await.unwrap(), Some(false));
    let bytes = store.inline_bytes("a").await.unwrap();
    store.put_program("a", id, &Bytes::from_static(&[1; 10]), 0).await.unwrap();
    assert_eq!(store.is_registered("a", id).await.unwrap(), Some(true));
    assert_eq!(store.inline_bytes("a").await.unwrap(), bytes, "the bytes were counted with the job");
    assert_eq!(store.is_registered("b", id).await.unwrap(), None);
}

#[tokio::test]
async fn a_promised_job_is_promised_from_its_first_row() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    store.apply(Survival::Crash, &[Write::Submitted(new_job("a", 1))]).await.unwrap();
    assert_eq!(promised(&store).await, 1);
}

/// Whether the only job is promised.
async fn promised(store: &Store) -> i64 {
    let mut reader = store.database.read(Asker::Upkeep).await.unwrap();
    reader.query("SELECT promised FROM jobs").one().await.unwrap().int("promised").unwrap()
}

#[tokio::test]
async fn a_confirmation_is_a_change_that_reaches_the_disk() {
    // The test reads the files of SQLite.
    if cloakwork_tests_database::on_postgres() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    let unpromised = NewJob { promised: false, ..new_job("a", 1) };
    store.apply(Survival::Crash, &[Write::Submitted(unpromised)]).await.unwrap();
    assert_eq!(promised(&store).await, 0);
    let log = || std::fs::metadata(directory.path().join("server.db-wal")).unwrap().len();
    let before = log();
    store.apply(Survival::PowerFailure, &[Write::Confirmed(JobId(1))]).await.unwrap();
    assert_eq!(promised(&store).await, 1);
    assert!(log() > before, "SQLite waits for the disk only if the log has a new frame");
}

/// The numbers of the jobs on a page, and of the job before which the next page begins.
fn numbers(page: &JobPage) -> (Vec<u128>, Option<u128>) {
    (page.jobs.iter().map(|job| job.meta.id.0).collect(), page.next.map(|job| job.0))
}

#[tokio::test]
async fn jobs_are_listed_by_their_states() {
    use JobState::{Cancelled, Failed, Queued, Running, Succeeded, Unspecified};
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    store.apply(Survival::Crash, &(1..=9).map(|number| job("a", number, 1)).collect::<Vec<_>>()).await.unwrap();
    store.apply(Survival::Crash, &[job("b", 10, 1), end(10, &[])]).await.unwrap();
    let mut states = [Queued; 9];
    for (number, state) in [(2, Failed), (3, Running), (5, Succeeded), (6, Succeeded), (7, Cancelled), (9, Succeeded)] {
        states[usize::from(number) - 1] = state;
        let job = JobId(number.into());
        let attempt = Attempt { job, epoch: 1, attempts: 0, worker: 1, suspect: None, solo_crashes: 0 };
        let Write::Ended(Ended { end, .. }) = end(number, &[1]) else { panic!("an end") };
        let ended = Write::Ended(Ended { job, end: Arc::new(End { state, ..End::clone(&end) }) });
        let write = if state == Running { Write::Attempt(attempt) } else { ended };
        store.apply(Survival::Crash, &[write]).await.unwrap();
    }
    let expected = |wanted: &[JobState]| -> Vec<u128> {
        let newest_first = states.iter().enumerate().rev();
        let found = newest_first.filter(|(_, state)| wanted.is_empty() || wanted.contains(state));
        found.map(|(index, _)| index as u128 + 1).collect()
    };
    for wanted in [
        &[][..],
        &[Queued],
        &[Running],
        &[Succeeded],
        &[Failed],
        &[Cancelled],
        &[Queued, Running],
        &[Running, Failed, Cancelled],
        &[Queued, Running, Succeeded, Failed, Cancelled],
        &[Unspecified],
    ] {
        let all = store.jobs("a", wanted, None, 100).await.unwrap();
        assert_eq!(numbers(&all), (expected(wanted), None), "{wanted:?}");
        // Page by page.
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = store.jobs("a", wanted, before, 2).await.unwrap();
            assert!(page.jobs.len() <= 2);
            found.extend(numbers(&page).0);
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(found, expected(wanted), "{wanted:?}");
    }
}

#[tokio::test]
async fn an_unfinished_job_tells_the_bytes_of_its_work() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    store.apply(Survival::Crash, &[job("a", 1, 100), job("b", 2, 0), job("b", 3, 7), end(3, &[])]).await.unwrap();
    let live = store.live_jobs().await.unwrap();
    let bytes: Vec<_> = live.iter().map(|job| (job.meta.id.0, job.work_bytes)).collect();
    assert_eq!(bytes, [(1, 10 + 100), (2, 10)], "the program has 10 bytes");
    assert_eq!(store.live_ids().await.unwrap(), [JobId(1), JobId(2)]);
}

/// A query that visits all jobs or programs takes the longer the more of them a tenant has. Other
/// tenants wait for it.
#[tokio::test]
async fn queries_over_many_rows_use_their_indexes() {
    // PostgreSQL plans by the number of rows, which is small here.
    if cloakwork_tests_database::on_postgres() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    let mut reader = store.database.read(Asker::Upkeep).await.unwrap();
    for (sql, index, uses) in [
        (jobs::PAGE_OF_STATES.as_str(), "jobs_by_state", 5),
        (outputs::STORED, "job_outputs_stored", 1),
        (jobs::EXPIRED, "jobs_by_expiry", 1),
        (jobs::FORGET_ENDED, "jobs_by_end", 1),
        (usage::FORGET_OLDEST, "jobs_spent", 1),
        (programs::UNUSED, "programs_carried", 1),
    ] {
        let plan = reader.query(format!("EXPLAIN QUERY PLAN {sql}").leak()).all().await.unwrap();
        let steps: Vec<&str> = plan.iter().map(|step| step.text("detail").unwrap()).collect();
        let used = steps.iter().filter(|step| step.split([' ', '(']).any(|word| word == index)).count();
        assert_eq!(used, uses, "{sql}: {steps:#?}");
        assert!(!steps.iter().any(|step| step.starts_with("SCAN jobs")), "{sql}: {steps:#?}");
    }
}

/// A crash of the database has undone the end, which did not wait for the disk.
#[tokio::test]
async fn the_record_of_an_end_that_was_undone_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    store.apply(Survival::Crash, &[job("a", 1, 100), job("a", 2, 200)]).await.unwrap();
    store.apply(Survival::Crash, &[end(2, &[])]).await.unwrap();
    let closed = |number| Write::Closed(JobId(number), LatencyRecord { queue_nanos: 5, ..LatencyRecord::default() });
    store.apply(Survival::PowerFailure, &[closed(1), closed(2)]).await.unwrap();
    let mut reader = store.database.read(Asker::Server).await.unwrap();
    let rows = reader.query("SELECT size_bytes FROM job_inputs WHERE bytes IS NOT NULL").all().await.unwrap();
    assert_eq!(rows.iter().map(|row| row.int("size_bytes").unwrap()).collect::<Vec<_>>(), [100]);
    drop(reader);
    let ended = async |number| store.job("a", JobId(number), false).await.unwrap().unwrap().end.is_some();
    assert_eq!((ended(1).await, ended(2).await), (false, true));
}

/// A crash came between the end of the job and the record that removes the inputs.
#[tokio::test]
async fn inputs_of_ended_jobs_are_removed_after_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    store.apply(Survival::Crash, &[job("a", 1, 100), job("b", 2, 200), job("a", 3, 300)]).await.unwrap();
    store.apply(Survival::Crash, &[end(2, &[])]).await.unwrap();
    store.drop_leftover_inputs().await.unwrap();
    let mut reader = store.database.read(Asker::Server).await.unwrap();
    let rows =
        reader.query("SELECT size_bytes FROM job_inputs WHERE bytes IS NOT NULL ORDER BY job").all().await.unwrap();
    assert_eq!(rows.iter().map(|row| row.int("size_bytes").unwrap()).collect::<Vec<_>>(), [100, 300]);
}

#[tokio::test]
async fn a_program_goes_with_its_last_job() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    store.apply(Survival::Crash, &[job("a", 1, 1), job("b", 2, 1), end(2, &[])]).await.unwrap();
    let registered = ProgramId([2; 32]);
    store.put_program("a", registered, &Bytes::from_static(&[2; 10]), 0).await.unwrap();
    assert_eq!(store.forget_programs(10).await.unwrap(), 0);
    assert_eq!(store.forget_oldest("b", 10).await.unwrap(), 1);
    assert_eq!(store.forget_programs(10).await.unwrap(), 1);
    assert_eq!(store.forget_programs(10).await.unwrap(), 0);
    let carried = ProgramId([1; 32]);
    assert!(store.program("a", carried).await.unwrap().is_some(), "a job uses it");
    assert!(store.program("a", registered).await.unwrap().is_some());
    assert!(store.program("b", carried).await.unwrap().is_none());
    // A later job stores the program again.
    store.apply(Survival::Crash, &[job("b", 3, 1)]).await.unwrap();
    assert!(store.program("b", carried).await.unwrap().is_some());
}
