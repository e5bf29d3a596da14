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
const PATIENCE: Duration = Duration::from_secs(30);

/// A dispatcher with one worker, and its database.
struct House {
    dispatcher: Dispatcher,
    database: Database,
    store: Store,
    wishes: watch::Receiver<Wish>,
    keys: KeyUses,
    _directory: TempDir,
}

impl House {
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
        timeout(PATIENCE, self.wishes.wait_for(held)).await.expect("a wish in time").unwrap();
    }

    /// Waits until the store says that job `number` has succeeded.
    async fn stored(&self, number: u8) {
        let begun = Instant::now();
        loop {
            let view = self.store.job(TENANT, JobId(number.into()), true).await.unwrap().expect("the job");
            if view.state == JobState::Succeeded {
                return assert_eq!(view.end.expect("an end").outputs.len(), 1);
            }
            assert!(begun.elapsed() < PATIENCE, "the end is not stored");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the dispatcher waits for the store, which the test keeps busy. At that point the
    /// dispatcher has sent every answer that does not need the store.
    async fn waits_for_store(&self) {
        let begun = Instant::now();
        while self.database.waiting_writers() == 0 {
            assert!(begun.elapsed() < PATIENCE, "the dispatcher writes nothing");
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
    let end = timeout(PATIENCE, watched.wait_for(|view| view.end.is_some())).await.expect("an end in time").unwrap();
    assert_eq!(end.state, JobState::Succeeded);
}

#[tokio::test]
async fn what_nobody_relies_on_begins_and_is_told_while_the_store_is_busy() {
    let mut house = House::new().await;
    let busy = house.database.write().await.unwrap();
    let submitted = house.submit(1, false);
    house.wished(&[1]).await;
    assert!(!submitted.is_finished());
    busy.commit().await.unwrap();
    let mut watched = submitted.await.unwrap().unwrap();

    let busy = house.database.write().await.unwrap();
    let committed = house.commit(1);
    succeeded(&mut watched).await;
    let dispatcher = house.dispatcher.clone();
    let settled = tokio::spawn(async move { dispatcher.settled().await });
    house.waits_for_store().await;
    assert!(!committed.is_finished() && !settled.is_finished());
    busy.commit().await.unwrap();
    settled.await.unwrap().unwrap();
    let stored = house.store.job(TENANT, JobId(1), true).await.unwrap().expect("the job");
    assert_eq!(stored.state, JobState::Succeeded, "the store has it by then");
    assert!(committed.await.unwrap().unwrap());
    house.wished(&[]).await;
}

#[tokio::test]
async fn what_somebody_relies_on_waits_for_the_store() {
    let mut house = House::new().await;
    let busy = house.database.write().await.unwrap();
    let submitted = house.submit(1, true);
    house.waits_for_store().await;
    assert!(house.wishes.borrow().as_ref().is_none_or(|leases| leases.is_empty()) && !submitted.is_finished());
    busy.commit().await.unwrap();
    let mut watched = submitted.await.unwrap().unwrap();
    house.wished(&[1]).await;

    let busy = house.database.write().await.unwrap();
    let committed = house.commit(1);
    house.waits_for_store().await;
    assert!(watched.borrow().end.is_none() && !committed.is_finished());
    busy.commit().await.unwrap();
    succeeded(&mut watched).await;
    assert!(committed.await.unwrap().unwrap());
}

#[tokio::test]
async fn an_end_that_was_told_outlasts_a_store_that_fails() {
    let mut house = House::new().await;
    let mut watched = house.submit(1, false).await.unwrap().unwrap();
    house.wished(&[1]).await;
    house.break_store(ENDS).await;
    assert!(house.commit(1).await.unwrap().is_err());
    succeeded(&mut watched).await;
    // A caller that asks during the failure learns of the end, too.
    let job = JobId(1);
    let found = house.dispatcher.find(TENANT, job).await.unwrap().expect("the job");
    assert_eq!(found.borrow().state, JobState::Succeeded);
    assert_eq!(house.store.job(TENANT, job, true).await.unwrap().expect("the job").state, JobState::Running);
    house.heal_store().await;
    house.stored(1).await;
    house.wished(&[]).await;
    house.dispatcher.settled().await.unwrap();
    assert!(house.dispatcher.watch(TENANT, job).await.unwrap().is_none(), "the store alone knows it now");
    assert_eq!(house.commit(1).await.unwrap().ok(), Some(false), "handed in twice");
}

#[tokio::test]
async fn a_job_that_cannot_be_stored_is_taken_back_from_its_worker() {
    let mut house = House::new().await;
    house.break_store(NEW_JOBS).await;
    let submitted = house.submit(1, false);
    let refused = submitted.await.unwrap().expect_err("refused");
    assert_eq!(refused.reason().grpc, tonic::Code::Unavailable, "{refused}");
    house.wished(&[]).await;
    house.heal_store().await;
    let again = loop {
        // Right after the failure, the dispatcher still refuses new jobs.
        match house.submit(1, false).await.unwrap() {
            Ok(watched) => break watched,
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    };
    assert!(again.borrow().end.is_none());
    house.wished(&[1]).await;
    assert!(house.commit(1).await.unwrap().unwrap());
    house.stored(1).await;
}

#[tokio::test]
async fn what_begins_early_takes_nothing_away_from_its_worker() {
    let mut house = House::new().await;
    house.submit(1, false).await.unwrap().unwrap();
    house.wished(&[1]).await;
    let mut busy = house.database.write().await.unwrap();
    let held_up = house.submit(2, false);
    house.wished(&[1, 2]).await;
    // Both commands form one batch behind the blocked transaction. Job 1 ends only with their
    // commit, which fails.
    let (committed, submitted) = (house.commit(1), house.submit(3, false));
    sqlx::query(sqlx::AssertSqlSafe(broken(ENDS))).execute(&mut *busy).await.unwrap();
    busy.commit().await.unwrap();
    held_up.await.unwrap().unwrap();
    house.wished(&[1, 2, 3]).await;
    assert!(committed.await.unwrap().is_err() && submitted.await.unwrap().is_err());
    house.heal_store().await;
    house.stored(1).await;
    house.wished(&[2]).await;
}

fn broken(change: &str) -> String {
    format!("CREATE TRIGGER broken BEFORE {change} BEGIN SELECT RAISE(ABORT, 'broken'); END")
}
