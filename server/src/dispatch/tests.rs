//! Actions that do not wait for the store, tested against a real store that is blocked or fails.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use cloakwork_keystore::TenantId;
use cloakwork_proto::v1::{JobState, LatencyRecord};
use cloakwork_scheduler::{JobId, Report, WorkerId};
use tempfile::TempDir;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::*;
use crate::{
    clock,
    database::{Database, MIGRATIONS},
    jobs::{JobMeta, Pins, Timeline},
    keys::{self, KeyUses},
    store::tests::new_job,
};

const TENANT: &str = "tenant";
const WORKER: WorkerId = WorkerId(1);
/// Timeout for steps that need almost no time.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// A dispatcher with one worker, and its database.
struct Fixture {
    dispatcher: Dispatcher,
    database: Database,
    store: Store,
    wishes: watch::Receiver<Wish>,
    keys: KeyUses,
    _directory: TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(&directory.path().join("server.db"), &MIGRATIONS, 1).await.unwrap();
        let store = Store::new(database.clone());
        let parts = Parts {
            store: store.clone(),
            keystore: keys::tests::keystore(directory.path()).await,
            limits: Arc::default(),
            telemetry: Arc::new(Telemetry::new().unwrap()),
        };
        let (dispatcher, running) = Dispatcher::start(parts).await.unwrap();
        tokio::spawn(running);
        let report = WorkerReport {
            worker: WORKER,
            name: "worker".into(),
            report: Report {
                pool: "cpu".to_owned(),
                sets: vec![new_job(TENANT, 1).meta.set.id()],
                wanted_cost: 1 << 40,
                leases: Vec::new(),
                resident: Vec::new(),
                draining: false,
            },
            waves: Vec::new(),
            resident: Vec::new(),
            resident_bytes: 0,
        };
        let (mut wishes, _) = dispatcher.attach(report).await.unwrap();
        wishes.wait_for(Option::is_some).await.unwrap();
        Self { dispatcher, database, store, wishes, keys: KeyUses::default(), _directory: directory }
    }

    /// Submits job `number`. The answer comes once the job is committed.
    fn submit(&self, number: u8, promised: bool) -> tokio::task::JoinHandle<Result<Watched, ApiError>> {
        let meta = JobMeta {
            deadline_micros: clock::unix_micros() + 3_600_000_000,
            ..(*new_job(TENANT, number).meta).clone()
        };
        let job = Admitted {
            key_use: self.keys.begin(&TenantId::new(TENANT).unwrap(), meta.key_id),
            meta: Arc::new(meta),
            program: Bytes::from_static(&[1; 10]),
            inputs: [].into(),
            key_parts: Vec::new(),
            companion_parts: Vec::new(),
            pins: Arc::new(Pins::none()),
            timeline: Timeline::start(std::time::Instant::now()),
        };
        let dispatcher = self.dispatcher.clone();
        tokio::spawn(async move { dispatcher.submit(job, promised).await })
    }

    /// Hands in job `number` as the worker, with a short output.
    fn commit(&self, number: u8) -> tokio::task::JoinHandle<Result<bool, ApiError>> {
        let now = std::time::Instant::now();
        let outcome = Outcome {
            worker: WORKER,
            job: JobId(number.into()),
            epoch: 1,
            result: Ok(vec![Content::inline(Bytes::from_static(b"output"))]),
            latency: LatencyRecord::default(),
            returned: now,
            stored: now,
        };
        let dispatcher = self.dispatcher.clone();
        tokio::spawn(async move { dispatcher.commit(TENANT, outcome).await })
    }

    /// Waits until the worker is to hold exactly the jobs `numbers`.
    async fn wished(&mut self, numbers: &[u8]) {
        let wanted: BTreeSet<JobId> = numbers.iter().map(|&number| JobId(number.into())).collect();
        let held = |wish: &Wish| {
            wish.as_ref().is_some_and(|leases| leases.keys().map(|(job, _)| *job).collect::<BTreeSet<_>>() == wanted)
        };
        timeout(STEP_TIMEOUT, self.wishes.wait_for(held)).await.expect("a wish in time").unwrap();
    }

    /// Waits until the store says that job `number` has succeeded.
    async fn stored(&self, number: u8) {
        let begun = Instant::now();
        loop {
            let view = self.store.job(TENANT, JobId(number.into()), true).await.unwrap().expect("the job");
            if view.state == JobState::Succeeded {
                return assert_eq!(view.end.expect("an end").outputs.len(), 1);
            }
            assert!(begun.elapsed() < STEP_TIMEOUT, "the end is not stored");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the dispatcher waits for the store, which the test keeps busy. At that point the
    /// dispatcher has sent every answer that does not need the store.
    async fn waits_for_store(&self) {
        let begun = Instant::now();
        while self.database.waiting_writers() == 0 {
            assert!(begun.elapsed() < STEP_TIMEOUT, "the dispatcher writes nothing");
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Makes the store refuse the given kind of change from now on.
    async fn break_store(&self, change: &str) {
        self.alter(broken(change)).await;
    }

    async fn heal_store(&self) {
        self.alter("DROP TRIGGER broken".to_owned()).await;
    }

    async fn alter(&self, sql: String) {
        let mut transaction = self.database.write().await.unwrap();
        sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut *transaction).await.unwrap();
        transaction.commit().await.unwrap();
    }
}

const ENDS: &str = "UPDATE ON jobs WHEN NEW.ended_micros IS NOT NULL";
const NEW_JOBS: &str = "INSERT ON jobs";

async fn succeeded(watched: &mut Watched) {
    let end =
        timeout(STEP_TIMEOUT, watched.wait_for(|view| view.end.is_some())).await.expect("an end in time").unwrap();
    assert_eq!(end.state, JobState::Succeeded);
}

#[tokio::test]
async fn an_unpromised_job_begins_and_ends_while_the_store_is_busy() {
    let mut fixture = Fixture::new().await;
    let busy = fixture.database.write().await.unwrap();
    let submitted = fixture.submit(1, false);
    fixture.wished(&[1]).await;
    assert!(!submitted.is_finished());
    busy.commit().await.unwrap();
    let mut watched = submitted.await.unwrap().unwrap();

    let busy = fixture.database.write().await.unwrap();
    let committed = fixture.commit(1);
    succeeded(&mut watched).await;
    let dispatcher = fixture.dispatcher.clone();
    let settled = tokio::spawn(async move { dispatcher.settled().await });
    fixture.waits_for_store().await;
    assert!(!committed.is_finished() && !settled.is_finished());
    busy.commit().await.unwrap();
    settled.await.unwrap().unwrap();
    let stored = fixture.store.job(TENANT, JobId(1), true).await.unwrap().expect("the job");
    assert_eq!(stored.state, JobState::Succeeded, "the store has it by then");
    assert!(committed.await.unwrap().unwrap());
    fixture.wished(&[]).await;
}

#[tokio::test]
async fn a_promised_job_waits_for_the_store() {
    let mut fixture = Fixture::new().await;
    let busy = fixture.database.write().await.unwrap();
    let submitted = fixture.submit(1, true);
    fixture.waits_for_store().await;
    assert!(fixture.wishes.borrow().as_ref().is_none_or(|leases| leases.is_empty()) && !submitted.is_finished());
    busy.commit().await.unwrap();
    let mut watched = submitted.await.unwrap().unwrap();
    fixture.wished(&[1]).await;

    let busy = fixture.database.write().await.unwrap();
    let committed = fixture.commit(1);
    fixture.waits_for_store().await;
    assert!(watched.borrow().end.is_none() && !committed.is_finished());
    busy.commit().await.unwrap();
    succeeded(&mut watched).await;
    assert!(committed.await.unwrap().unwrap());
}

#[tokio::test]
async fn a_handed_over_end_survives_a_failing_store() {
    let mut fixture = Fixture::new().await;
    let mut watched = fixture.submit(1, false).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    fixture.break_store(ENDS).await;
    assert!(fixture.commit(1).await.unwrap().is_err());
    succeeded(&mut watched).await;
    // A caller that asks during the failure learns of the end, too.
    let job = JobId(1);
    let found = fixture.dispatcher.find(TENANT, job).await.unwrap().expect("the job");
    assert_eq!(found.borrow().state, JobState::Succeeded);
    assert_eq!(fixture.store.job(TENANT, job, true).await.unwrap().expect("the job").state, JobState::Running);
    fixture.heal_store().await;
    fixture.stored(1).await;
    fixture.wished(&[]).await;
    fixture.dispatcher.settled().await.unwrap();
    assert!(fixture.dispatcher.watch(TENANT, job).await.unwrap().is_none(), "the store alone knows it now");
    assert_eq!(fixture.commit(1).await.unwrap().ok(), Some(false), "handed in twice");
}

#[tokio::test]
async fn a_job_that_cannot_be_stored_is_taken_back_from_its_worker() {
    let mut fixture = Fixture::new().await;
    fixture.break_store(NEW_JOBS).await;
    let submitted = fixture.submit(1, false);
    let refused = submitted.await.unwrap().expect_err("refused");
    assert_eq!(refused.reason().grpc, tonic::Code::Unavailable, "{refused}");
    fixture.wished(&[]).await;
    fixture.heal_store().await;
    let again = loop {
        // Right after the failure, the dispatcher still refuses new jobs.
        match fixture.submit(1, false).await.unwrap() {
            Ok(watched) => break watched,
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    };
    assert!(again.borrow().end.is_none());
    fixture.wished(&[1]).await;
    assert!(fixture.commit(1).await.unwrap().unwrap());
    fixture.stored(1).await;
}

#[tokio::test]
async fn an_early_attempt_withdraws_no_job_from_its_worker() {
    let mut fixture = Fixture::new().await;
    fixture.submit(1, false).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    let mut busy = fixture.database.write().await.unwrap();
    let held_up = fixture.submit(2, false);
    fixture.wished(&[1, 2]).await;
    // Both commands form one batch behind the blocked transaction. Job 1 ends only with their
    // commit, which fails.
    let (committed, submitted) = (fixture.commit(1), fixture.submit(3, false));
    sqlx::query(sqlx::AssertSqlSafe(broken(ENDS))).execute(&mut *busy).await.unwrap();
    busy.commit().await.unwrap();
    held_up.await.unwrap().unwrap();
    fixture.wished(&[1, 2, 3]).await;
    assert!(committed.await.unwrap().is_err() && submitted.await.unwrap().is_err());
    fixture.heal_store().await;
    fixture.stored(1).await;
    fixture.wished(&[2]).await;
}

fn broken(change: &str) -> String {
    format!("CREATE TRIGGER broken BEFORE {change} BEGIN SELECT RAISE(ABORT, 'broken'); END")
}
