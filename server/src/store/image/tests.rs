//! Folded writes leave the same rows as writes that are applied one by one.

use std::sync::Arc;

use bytes::Bytes;
use cloakwork_proto::v1::{Attestation, JobState};
use cloakwork_storage::{Asker, Database, Rows, Server, Survival};
use proptest::prelude::*;

use super::*;
use crate::{
    database::SCHEMAS,
    jobs::JobMeta,
    store::{Ended, Store, tests::new_job},
};

const JOBS: usize = 3;

/// A step of one job. Steps that the job's state does not allow are left out.
#[derive(Clone, Copy, Debug)]
enum Step {
    Submit { promised: bool },
    Confirm,
    Attempt { suspect: bool },
    Requeue,
    End { state: JobState, outputs: usize },
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<bool>().prop_map(|promised| Step::Submit { promised }),
        Just(Step::Confirm),
        any::<bool>().prop_map(|suspect| Step::Attempt { suspect }),
        Just(Step::Requeue),
        (prop_oneof![Just(JobState::Succeeded), Just(JobState::Failed)], 0_usize..3)
            .prop_map(|(state, outputs)| Step::End { state, outputs }),
        Just(Step::Close),
    ]
}

/// The state of a job, as far as it limits the next step.
#[derive(Clone, Copy, Default)]
struct Life {
    begun: bool,
    running: bool,
    ended: bool,
    closed: bool,
    epoch: u64,
}

impl Life {
    /// The write of a step, or `None` if the job's state does not allow the step.
    fn take(&mut self, number: u8, step: Step) -> Option<Write> {
        let job = JobId(number.into());
        let live = self.begun && !self.ended;
        match step {
            Step::Submit { promised } if !self.begun => {
                self.begun = true;
                let inputs = [Content::inline(Bytes::from(vec![number; 5])), blob(number), blob(number + 100)];
                Some(Write::Submitted(NewJob { promised, inputs: inputs.into(), ..new_job("a", number) }))
            }
            Step::Confirm if live => Some(Write::Confirmed(job)),
            Step::Attempt { suspect } if live && !self.running => {
                self.running = true;
                self.epoch += 1;
                let (epoch, suspect) = (self.epoch, suspect.then_some(9));
                let attempts = u32::try_from(epoch).unwrap() - 1;
                Some(Write::Attempt(Attempt { job, epoch, attempts, worker: 5, suspect, solo_crashes: attempts }))
            }
            Step::Requeue if live && self.running => {
                self.running = false;
                let attempts = u32::try_from(self.epoch).unwrap();
                Some(Write::Requeued(Requeued { job, epoch: self.epoch, attempts, suspect: None, solo_crashes: 1 }))
            }
            Step::End { state, outputs } if live => {
                self.ended = true;
                let outputs = (0..outputs).map(|bytes| Content::inline(Bytes::from(vec![1; bytes])));
                let error = (state == JobState::Failed).then(Default::default);
                let end = End {
                    state,
                    ended_micros: 3,
                    outputs_expire_micros: Some(4),
                    error,
                    outputs: outputs.collect(),
                    latency: LatencyRecord::default(),
                    attestation: Some(attestation()),
                };
                Some(Write::Ended(Ended { job, end: Arc::new(end) }))
            }
            Step::Close if self.ended && !self.closed => {
                self.closed = true;
                Some(Write::Closed(job, LatencyRecord { attempts: 7, ..LatencyRecord::default() }))
            }
            _ => None,
        }
    }
}

fn blob(number: u8) -> Content {
    Content { digest: [number; 32], size_bytes: 1 << 20, bytes: None }
}

async fn open(directory: &tempfile::TempDir, name: &str) -> (Store, Database) {
    let database = cloakwork_tests_database::open(&directory.path().join(name), &SCHEMAS, 1).await;
    (Store::new(database.clone()), database)
}

/// Tables that writes change, the order of their rows, and their columns with their types:
/// integers, text or bytes.
const TABLES: [(&str, &str); 6] = [
    (
        "SELECT * FROM jobs ORDER BY id",
        "id:b tenant:t request_id:b request_digest:b state:i program:b key_id:b parameter_set:i row_count:i pbs_count:i \
         priority:i inline_outputs:i keep_outputs_micros:i created_micros:i deadline_micros:i promised:i \
         ended_micros:i outputs_expire_micros:i attempts:i epoch:i worker:b suspect:i solo_crashes:i reason:t \
         message:t latency:b cost:i key_parts:b has_outputs:i attestation:b",
    ),
    ("SELECT * FROM job_inputs ORDER BY job, place", "job:b place:i digest:b size_bytes:i bytes:b"),
    ("SELECT * FROM job_outputs ORDER BY job, place", "job:b place:i digest:b size_bytes:i bytes:b done:i"),
    ("SELECT * FROM pins ORDER BY holder, digest", "tenant:t digest:b holder:b until_micros:i"),
    ("SELECT * FROM programs ORDER BY digest", "tenant:t digest:b bytes:b registered:i created_micros:i"),
    ("SELECT * FROM tenant_usage ORDER BY tenant", "tenant:t inline_bytes:i ended_jobs:i"),
];

/// Every row of every table that writes change, as text.
async fn rows(database: &Database) -> Vec<String> {
    let mut reader = database.read(Asker::Upkeep).await.unwrap();
    let mut all = Vec::new();
    for (query, columns) in TABLES {
        for row in reader.query(query).all().await.unwrap() {
            let cell = |column: &str| {
                let (name, kind) = column.split_once(':').unwrap();
                match kind {
                    "i" => format!("{:?}", row.int_or_null(name).unwrap()),
                    "t" => format!("{:?}", row.text_or_null(name).unwrap()),
                    _ => format!("{:?}", row.bytes_or_null(name).unwrap()),
                }
            };
            all.push(columns.split_whitespace().map(cell).collect::<Vec<_>>().join(" "));
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn folded_writes_leave_the_rows_of_single_ones(
        steps in prop::collection::vec((0..JOBS, step(), prop::bool::weighted(0.3)), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let directory = tempfile::tempdir().unwrap();
            let (single, single_rows) = open(&directory, "single.db").await;
            let (folded, folded_rows) = open(&directory, "folded.db").await;
            let (mut lives, mut batch) = ([Life::default(); JOBS], Vec::new());
            for (job, step, commit) in steps {
                let Some(write) = lives[job].take(u8::try_from(job).unwrap() + 1, step) else { continue };
                single.apply(Survival::Crash, std::slice::from_ref(&write)).await.unwrap();
                batch.push(write);
                if commit {
                    folded.apply(Survival::Crash, &std::mem::take(&mut batch)).await.unwrap();
                }
            }
            folded.apply(Survival::Crash, &batch).await.unwrap();
            assert_eq!(rows(&folded_rows).await, rows(&single_rows).await);
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn both_databases_store_the_same_rows(
        steps in prop::collection::vec((0..JOBS, step(), prop::bool::weighted(0.2)), 1..60),
    ) {
        let Some(postgres) = cloakwork_tests_postgres::shared() else { return Ok(()) };
        let server = Server::new(&postgres.database(), None, None).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let directory = tempfile::tempdir().unwrap();
            let file = Database::open(&directory.path().join("file.db"), &SCHEMAS, 1).await.unwrap();
            let server = Database::connect(server, &SCHEMAS, 1).await.unwrap();
            let stores = [Store::new(file.clone()), Store::new(server.clone())];
            let (mut lives, mut batch) = ([Life::default(); JOBS], Vec::new());
            for (job, step, commit) in steps {
                batch.extend(lives[job].take(u8::try_from(job).unwrap() + 1, step));
                if commit {
                    for store in &stores {
                        store.apply(Survival::Crash, &batch).await.unwrap();
                    }
                    batch.clear();
                }
            }
            assert_eq!(rows(&server).await, rows(&file).await);
        });
    }
}

/// Each column has its own value.
fn attestation() -> Attestation {
    Attestation { signed: Bytes::from_static(b"signed"), key_parts: vec![Bytes::from_static(b"part")] }
}

#[tokio::test]
async fn a_folded_row_reads_back() {
    let directory = tempfile::tempdir().unwrap();
    let (store, _) = open(&directory, "jobs.db").await;
    let job = JobId(1);
    let meta = JobMeta {
        rows: 2,
        pbs_count: 3,
        priority: -4,
        inline_outputs: false,
        keep_outputs_micros: 5,
        created_micros: 6,
        deadline_micros: 8,
        request_digest: [9; 32],
        ..(*new_job("a", 1).meta).clone()
    };
    let submitted = Write::Submitted(NewJob { meta: Arc::new(meta.clone()), ..new_job("a", 1) });
    let attempt =
        Attempt { job, epoch: 3, attempts: 2, worker: u128::MAX - 5, suspect: Some(u64::MAX - 6), solo_crashes: 4 };
    store.apply(Survival::Crash, &[submitted, Write::Attempt(attempt)]).await.unwrap();
    let live = store.live_jobs().await.unwrap();
    let [found] = &live[..] else { panic!("{} jobs", live.len()) };
    assert_eq!(format!("{:?}", found.meta), format!("{meta:?}"));
    let scheduled = (found.epoch, found.attempts, found.worker, found.suspect, found.solo_crashes);
    assert_eq!(scheduled, (3, 2, Some(u128::MAX - 5), Some(u64::MAX - 6), 4));
    let end = End {
        state: JobState::Failed,
        ended_micros: 10,
        outputs_expire_micros: Some(11),
        error: Some(cloakwork_proto::v1::JobError { reason: "R".to_owned(), message: "M".to_owned() }),
        outputs: vec![Content::inline(Bytes::from_static(b"x"))],
        latency: LatencyRecord { attempts: 12, ..LatencyRecord::default() },
        attestation: Some(attestation()),
    };
    let attempt = Attempt { epoch: 4, ..attempt };
    let ended = Write::Ended(Ended { job, end: Arc::new(end.clone()) });
    store.apply(Survival::Crash, &[Write::Attempt(attempt), ended]).await.unwrap();
    let view = store.job("a", job, true).await.unwrap().unwrap();
    let found = view.end.unwrap();
    assert_eq!((view.state, view.attempts, found.ended_micros), (JobState::Failed, 4, 10));
    assert_eq!((found.outputs_expire_micros, &found.error), (Some(11), &end.error));
    assert_eq!((found.latency.clone(), found.outputs.len()), (end.latency, 1));
    assert_eq!(found.attestation, Some(attestation()));
    assert!(store.live_jobs().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_job_has_any_number_of_outputs_in_their_order() {
    // More than SQLite inserts with one statement.
    const OUTPUTS: usize = 129;
    let directory = tempfile::tempdir().unwrap();
    let (store, _) = open(&directory, "jobs.db").await;
    let mut life = Life::default();
    let submitted = life.take(1, Step::Submit { promised: true }).unwrap();
    let ended = life.take(1, Step::End { state: JobState::Succeeded, outputs: OUTPUTS }).unwrap();
    store.apply(Survival::Crash, &[submitted, ended]).await.unwrap();
    let view = store.job("a", JobId(1), true).await.unwrap().unwrap();
    let sizes: Vec<u64> = view.end.unwrap().outputs.iter().map(|output| output.size_bytes).collect();
    assert_eq!(sizes, (0..OUTPUTS as u64).collect::<Vec<_>>());
}

/// Outputs that a worker handed in for a job are kept only if the job succeeded. The rule also
/// holds if the end shares a transaction with the job's first row.
#[tokio::test]
async fn outputs_of_a_failed_job_are_released() {
    let directory = tempfile::tempdir().unwrap();
    let (store, database) = open(&directory, "jobs.db").await;
    for (number, state, together, kept) in [
        (1, JobState::Succeeded, true, 1),
        (2, JobState::Failed, true, 0),
        (3, JobState::Succeeded, false, 1),
        (4, JobState::Failed, false, 0),
    ] {
        let pin = Pin { holder: id::output_holder(JobId(number.into())), until_micros: None };
        let hand_in = |batch: &mut Batch| Pinning::of(batch).add(&pin, "a", [&[7; 32]].into_iter());
        database.apply(Asker::Upkeep, Rows::All, Survival::Crash, hand_in).await.unwrap();
        let mut life = Life::default();
        let steps = [Step::Submit { promised: true }, Step::End { state, outputs: 0 }];
        let writes: Vec<Write> = steps.into_iter().filter_map(|step| life.take(number, step)).collect();
        let transactions = if together { writes.chunks(2) } else { writes.chunks(1) };
        for writes in transactions {
            store.apply(Survival::Crash, writes).await.unwrap();
        }
        let mut reader = database.read(Asker::Upkeep).await.unwrap();
        let query = reader.query("SELECT COUNT(*) AS pins FROM pins WHERE holder = $1").bind(pin.holder);
        assert_eq!(query.one().await.unwrap().int("pins"), Ok(kept), "job {number}");
        let query = reader.query("SELECT COUNT(*) AS pins FROM pins WHERE holder = $1");
        let inputs = query.bind(id::to_bytes(JobId(number.into()))).one().await.unwrap();
        assert_eq!(inputs.int("pins"), Ok(0), "job {number} has ended");
    }
}

/// A batch has at most one statement for each row of `jobs`.
#[test]
fn a_batch_changes_each_job_once() {
    let mut life = Life::default();
    let steps = [
        Step::Submit { promised: false },
        Step::Attempt { suspect: false },
        Step::Requeue,
        Step::Attempt { suspect: true },
        Step::Confirm,
        Step::End { state: JobState::Succeeded, outputs: 1 },
        Step::Close,
    ];
    let writes: Vec<Write> = steps.into_iter().filter_map(|step| life.take(1, step)).collect();
    assert_eq!(writes.len(), steps.len());
    assert_eq!(Images::of(&writes).images.len(), 1);
}
