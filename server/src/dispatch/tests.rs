//! Tests of a dispatcher with a real store and a clock that the tests move.

mod checks;
mod decisions;
mod placement;
mod store;
mod workers;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use cloakwork_clock::{Clock, ManualClock, unix_micros_after};
use cloakwork_keystore::{Digest, Keystore, Reservation, TenantId};
use cloakwork_params::{AnySet, ckks::CKKS_SETS};
use cloakwork_proto::v1::{self, JobState, LatencyRecord};
use cloakwork_scheduler::{Event, JobId, LeaseReport, Report, Stage, WorkerId};
use cloakwork_share::Share;
use cloakwork_storage::{Asker, Database, Reader, Rows};
use cloakwork_tests_database::on_postgres;
use tempfile::TempDir;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::*;
use crate::{
    database::SCHEMAS,
    jobs::{JobMeta, Timeline},
    keys::{self, KeyUses},
    owner::{self, Candidate, Ownership, Replica},
    store::tests::new_job,
};

pub(super) const TENANT: &str = "tenant";
pub(super) const WORKER: WorkerId = WorkerId(1);
/// Time limit of the jobs.
const TIME_LIMIT: Duration = Duration::from_secs(3600);
/// Timeout for steps that need almost no time.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// A dispatcher with one worker, and its database.
pub(super) struct Fixture {
    pub(super) time: ManualClock,
    dispatcher: Dispatcher,
    running: JoinHandle<()>,
    database: Database,
    pub(super) store: Store,
    pub(super) keystore: Keystore,
    telemetry: Arc<Telemetry>,
    wishes: watch::Receiver<Wish>,
    keys: KeyUses,
    _directory: TempDir,
}

impl Fixture {
    pub(super) async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let database = cloakwork_tests_database::open(&directory.path().join("server.db"), &SCHEMAS, 1).await;
        Self::on(directory, database.clone(), Store::new(database)).await
    }

    /// A dispatcher of a server that owns its database, or `None` on a database that needs no
    /// owner.
    async fn owned() -> Option<(Self, Ownership)> {
        if !on_postgres() {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let [own, catalogue] = SCHEMAS;
        let schemas = [own, catalogue, owner::SCHEMA];
        let database = cloakwork_tests_database::open(&directory.path().join("server.db"), &schemas, 1).await;
        let (anchor, replica) = (owner::tests::anchor(&[1]), Replica::new().unwrap());
        let candidate = Candidate { replica, url: owner::tests::URL, anchor: &anchor, database: &database };
        let (ownership, database) = candidate.take(&Clock::system()).await.unwrap();
        let store = Store::owned(database.clone(), ownership.clone());
        Some((Self::on(directory, database, store).await, ownership))
    }

    async fn on(directory: TempDir, database: Database, store: Store) -> Self {
        let time = ManualClock::at(1_700_000_000_000_000);
        let keystore = keys::tests::keystore(directory.path(), time.clock(), &database).await;
        let telemetry = Arc::new(Telemetry::new(10).unwrap());
        let (dispatcher, running) = start(parts(&store, &keystore, &time, &telemetry)).await;
        let (mut wishes, _) = dispatcher.attach(report(WORKER), Seat::Here).await.unwrap();
        wishes.wait_for(Option::is_some).await.unwrap();
        let keys = KeyUses::default();
        Self { time, dispatcher, running, database, store, keystore, telemetry, wishes, keys, _directory: directory }
    }

    /// Stops the dispatcher and starts another. The worker is not attached to the new one.
    async fn restart(&mut self) {
        self.stop().await;
        (self.dispatcher, self.running) = start(self.parts()).await;
    }

    async fn stop(&mut self) {
        self.dispatcher.stop(None).await.unwrap();
        timeout(STEP_TIMEOUT, &mut self.running).await.expect("it stops").unwrap();
    }

    /// Replaces the dispatcher by an actor that the test drives step by step.
    pub(super) async fn actor(&mut self) -> actor::Actor {
        self.restored().await.1
    }

    /// Replaces the dispatcher by an actor, and returns the sender of the actor's commands.
    async fn restored(&mut self) -> (mpsc::Sender<Command>, actor::Actor) {
        self.stop().await;
        let (commands, received) = mpsc::channel(COMMANDS_MAX);
        (commands, actor::Actor::restore(self.parts(), received).await.unwrap().0)
    }

    fn parts(&self) -> Parts {
        parts(&self.store, &self.keystore, &self.time, &self.telemetry)
    }

    /// Replaces the dispatcher by an actor that has a worker. Returns the sender of the actor's
    /// commands, and the number of the worker's stream.
    async fn actor_with_worker(&mut self) -> (mpsc::Sender<Command>, actor::Actor, u64) {
        let (commands, mut actor) = self.restored().await;
        let (wishes, stream) = actor.workers.attach(report(WORKER)).unwrap();
        self.wishes = wishes;
        actor.step(Event::Reported { worker: WORKER, report: report(WORKER).report.clone() });
        (commands, actor, stream)
    }

    /// Job `number`, as if its request came in now.
    fn job(&self, number: u8) -> Admitted {
        let created_micros = self.time.clock().unix_micros();
        let meta = JobMeta {
            created_micros,
            deadline_micros: unix_micros_after(created_micros, TIME_LIMIT),
            ..(*new_job(TENANT, number).meta).clone()
        };
        Admitted {
            key_use: self.keys.begin(&TenantId::new(TENANT).unwrap(), meta.key_id),
            meta: Arc::new(meta),
            program: Bytes::from_static(&[1; 10]),
            inputs: [].into(),
            key_parts: Vec::new(),
            companion_parts: Vec::new(),
            reserved: Arc::new(Reservation::none(&TenantId::new(TENANT).unwrap())),
            timeline: Timeline::start(std::time::Instant::now()),
        }
    }

    /// Job `number`, whose work has more bytes than stay in memory.
    pub(super) fn large_job(&self, number: u8) -> Admitted {
        let job = self.job(number);
        let bytes = Bytes::from(vec![number; usize::try_from(live::TENANT_WORK_BYTES_MAX).unwrap()]);
        Admitted {
            // A job on vectors reads its key parts from the store, and the key need not be there.
            meta: Arc::new(JobMeta { set: AnySet::Ckks(&CKKS_SETS[0]), ..(*job.meta).clone() }),
            inputs: [Content::inline(bytes)].into(),
            key_parts: vec![Digest { blake3: [number; 32], size_bytes: 1 }],
            ..job
        }
    }

    /// Submits job `number`. The answer comes once the job is committed.
    fn submit(&self, number: u8, promised: bool) -> JoinHandle<Result<Watched, ApiError>> {
        self.send(self.job(number), promised)
    }

    fn send(&self, job: Admitted, promised: bool) -> JoinHandle<Result<Watched, ApiError>> {
        let dispatcher = self.dispatcher.clone();
        tokio::spawn(async move { dispatcher.submit(job, promised).await })
    }

    /// Holds all connections with which the dispatcher could read the store: those of the server,
    /// and the one that tenants leave unused.
    pub(super) async fn hold_readers(&self) -> [Reader; 3] {
        let read = async || self.database.read(Asker::Server).await.unwrap();
        [read().await, read().await, read().await]
    }

    /// Hands in job `number` as the worker, with a short output.
    fn commit(&self, number: u8) -> JoinHandle<Result<bool, ApiError>> {
        self.commit_counted(number, None)
    }

    /// Hands in job `number`, whose output takes this share of a memory.
    fn commit_counted(&self, number: u8, memory: Option<Share<WorkerId>>) -> JoinHandle<Result<bool, ApiError>> {
        let now = std::time::Instant::now();
        let outcome = Outcome {
            worker: WORKER,
            job: JobId(number.into()),
            epoch: 1,
            result: Ok(vec![Content::inline(Bytes::from_static(b"output"))]),
            memory,
            sample: None,
            check: None,
            lowering: v1::Lowering::Unspecified,
            latency: LatencyRecord::default(),
            attestation: None,
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
        let come = timeout(STEP_TIMEOUT, self.wishes.wait_for(held)).await.is_ok_and(|wish| wish.is_ok());
        let found = self.wishes.borrow().as_ref().map(|leases| leases.keys().copied().collect::<Vec<_>>());
        assert!(come, "the worker is to hold {found:?}");
    }

    /// Ends as soon as the worker is no longer to hold job `number`.
    fn always_wished(&self, number: u8) -> JoinHandle<()> {
        let mut wishes = self.wishes.clone();
        let held = move |wish: &Wish| {
            wish.as_ref().is_some_and(|leases| leases.keys().any(|(job, _)| *job == JobId(number.into())))
        };
        tokio::spawn(async move { _ = wishes.wait_for(|wish| !held(wish)).await })
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

    /// Hands in job 1 while the store is busy, and checks that its end is published after the
    /// commit.
    async fn ends_after_the_commit(&self, mut watched: Watched) {
        self.dispatcher.settled().await.unwrap();
        let busy = self.database.write(Asker::Upkeep, Rows::All).await.unwrap();
        let committed = self.commit(1);
        self.waits_for_store().await;
        assert!(watched.borrow().end.is_none() && !committed.is_finished());
        busy.commit().await.unwrap();
        succeeded(&mut watched).await;
        assert!(committed.await.unwrap().unwrap());
    }

    /// Waits until the dispatcher has handled all earlier commands, whether or not it answers them.
    async fn settles(&self) {
        yield_often().await;
        // The dispatcher handles commands in order, and answers this one at once.
        self.dispatcher.watch(TENANT, JobId(0)).await.unwrap();
    }

    /// Makes the store refuse the given kind of change from now on.
    async fn break_store(&self, change: &str) {
        self.alter(broken(change)).await;
    }

    async fn heal_store(&self) {
        let heal = if on_postgres() { "DROP FUNCTION broken CASCADE" } else { "DROP TRIGGER broken" };
        self.alter(heal.to_owned()).await;
    }

    async fn alter(&self, sql: String) {
        let mut transaction = self.database.write(Asker::Upkeep, Rows::All).await.unwrap();
        transaction.script(sql).await.unwrap();
        transaction.commit().await.unwrap();
    }
}

/// The parts of a dispatcher.
fn parts(store: &Store, keystore: &Keystore, time: &ManualClock, telemetry: &Arc<Telemetry>) -> Parts {
    Parts {
        store: store.clone(),
        keystore: keystore.clone(),
        clock: time.clock(),
        limits: Arc::default(),
        tenant_limits: TenantLimits::default(),
        telemetry: telemetry.clone(),
        backlogs: Backlogs::default(),
        neighbours: Neighbours::none(),
    }
}

/// Starts a dispatcher, and the task that runs it.
async fn start(parts: Parts) -> (Dispatcher, JoinHandle<()>) {
    let (dispatcher, running) = Dispatcher::start(parts).await.unwrap();
    (dispatcher, tokio::spawn(running))
}

/// The report of a worker that has no lease and takes any job.
pub(super) fn report(worker: WorkerId) -> Arc<WorkerReport> {
    report_of(worker, &[])
}

/// The report of a worker that holds the first attempts at the jobs `numbers`, and takes any job.
fn report_of(worker: WorkerId, numbers: &[u8]) -> Arc<WorkerReport> {
    let lease = |&number: &u8| LeaseReport {
        job: JobId(number.into()),
        epoch: 1,
        stage: Stage::Computing,
        progress: 0,
        rows_done: 0,
    };
    Arc::new(WorkerReport {
        worker,
        name: "worker".into(),
        report: Report {
            pool: "cpu".to_owned(),
            sets: vec![new_job(TENANT, 1).meta.set.id(), CKKS_SETS[0].id],
            wanted_cost: 1 << 40,
            leases: numbers.iter().map(lease).collect(),
            resident: Vec::new(),
            draining: false,
            class: String::new(),
        },
        waves: Vec::new(),
        resident: Vec::new(),
        resident_bytes: 0,
    })
}

/// Lets all other tasks run until they wait.
pub(super) async fn yield_often() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

async fn succeeded(watched: &mut Watched) {
    let end =
        timeout(STEP_TIMEOUT, watched.wait_for(|view| view.end.is_some())).await.expect("an end in time").unwrap();
    assert_eq!(end.state, JobState::Succeeded);
}

fn broken(change: &str) -> String {
    if !on_postgres() {
        return format!("CREATE TRIGGER broken BEFORE {change} BEGIN SELECT RAISE(ABORT, 'broken'); END");
    }
    let (change, condition) = change.split_once(" WHEN ").unwrap_or((change, "true"));
    format!(
        "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$; \
         CREATE TRIGGER broken BEFORE {change} FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION broken()"
    )
}
