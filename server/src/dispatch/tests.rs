//! Actions that do not wait for the store, tested against a real store that is blocked or fails.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use cloakwork_clock::{ManualClock, unix_micros_after};
use cloakwork_keystore::{Digest, Keystore, Reservation, TenantId};
use cloakwork_params::{AnySet, ckks::CKKS_SETS};
use cloakwork_proto::v1::{JobState, LatencyRecord};
use cloakwork_scheduler::{JobId, LeaseReport, Report, Stage, WorkerId};
use cloakwork_storage::{Asker, Database, Reader, Rows};
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
    wishes: watch::Receiver<Wish>,
    keys: KeyUses,
    _directory: TempDir,
}

impl Fixture {
    pub(super) async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(&directory.path().join("server.db"), &SCHEMAS, 1).await.unwrap();
        let store = Store::new(database.clone());
        let time = ManualClock::at(1_700_000_000_000_000);
        let keystore = keys::tests::keystore(directory.path(), time.clock(), &database).await;
        let (dispatcher, running) = start(&store, &keystore, &time).await;
        let (mut wishes, _) = dispatcher.attach(report(WORKER)).await.unwrap();
        wishes.wait_for(Option::is_some).await.unwrap();
        let keys = KeyUses::default();
        Self { time, dispatcher, running, database, store, keystore, wishes, keys, _directory: directory }
    }

    /// Stops the dispatcher and starts another. The worker is not attached to the new one.
    async fn restart(&mut self) {
        self.stop().await;
        (self.dispatcher, self.running) = start(&self.store, &self.keystore, &self.time).await;
    }

    async fn stop(&mut self) {
        self.dispatcher.stop(None).await.unwrap();
        timeout(STEP_TIMEOUT, &mut self.running).await.expect("it stops").unwrap();
    }

    /// Replaces the dispatcher by an actor that the test drives step by step.
    pub(super) async fn actor(&mut self) -> actor::Actor {
        self.stop().await;
        let (_, commands) = mpsc::channel(1);
        actor::Actor::restore(parts(&self.store, &self.keystore, &self.time), commands).await.unwrap().0
    }

    /// Job `number`, as if its request came in now.
    fn job(&self, number: u8) -> Admitted {
        let meta = JobMeta {
            deadline_micros: unix_micros_after(self.time.clock().unix_micros(), TIME_LIMIT),
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
        self.alter("DROP TRIGGER broken".to_owned()).await;
    }

    async fn alter(&self, sql: String) {
        let mut transaction = self.database.write(Asker::Upkeep, Rows::All).await.unwrap();
        transaction.script(sql).await.unwrap();
        transaction.commit().await.unwrap();
    }
}

/// The parts of a dispatcher.
fn parts(store: &Store, keystore: &Keystore, time: &ManualClock) -> Parts {
    Parts {
        store: store.clone(),
        keystore: keystore.clone(),
        clock: time.clock(),
        limits: Arc::default(),
        telemetry: Arc::new(Telemetry::new().unwrap()),
    }
}

/// Starts a dispatcher, and the task that runs it.
async fn start(store: &Store, keystore: &Keystore, time: &ManualClock) -> (Dispatcher, JoinHandle<()>) {
    let (dispatcher, running) = Dispatcher::start(parts(store, keystore, time)).await.unwrap();
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
        },
        waves: Vec::new(),
        resident: Vec::new(),
        resident_bytes: 0,
    })
}

const ENDS: &str = "UPDATE ON jobs WHEN NEW.ended_micros IS NOT NULL";
const NEW_JOBS: &str = "INSERT ON jobs";

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

#[tokio::test]
async fn an_unpromised_job_begins_and_ends_while_the_store_is_busy() {
    let mut fixture = Fixture::new().await;
    let busy = fixture.database.write(Asker::Upkeep, Rows::All).await.unwrap();
    let mut first = fixture.submit(1, false).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    fixture.waits_for_store().await;
    // The store does not know the job yet, so the result waits.
    let committed = fixture.commit(1);
    fixture.settles().await;
    assert!(first.borrow().end.is_none() && !committed.is_finished());
    busy.commit().await.unwrap();
    succeeded(&mut first).await;
    assert!(committed.await.unwrap().unwrap());

    let mut second = fixture.submit(2, false).await.unwrap().unwrap();
    fixture.wished(&[2]).await;
    fixture.dispatcher.settled().await.unwrap();
    let busy = fixture.database.write(Asker::Upkeep, Rows::All).await.unwrap();
    let committed = fixture.commit(2);
    succeeded(&mut second).await;
    let dispatcher = fixture.dispatcher.clone();
    let settled = tokio::spawn(async move { dispatcher.settled().await });
    fixture.waits_for_store().await;
    // A third call is decided meanwhile, and begins.
    let _third = fixture.submit(3, false).await.unwrap().unwrap();
    fixture.wished(&[2, 3]).await;
    assert!(!committed.is_finished() && !settled.is_finished());
    busy.commit().await.unwrap();
    settled.await.unwrap().unwrap();
    let stored = fixture.store.job(TENANT, JobId(2), true).await.unwrap().expect("the job");
    assert_eq!(stored.state, JobState::Succeeded, "the store has the end before the answer");
    assert!(committed.await.unwrap().unwrap());
    fixture.wished(&[3]).await;
}

#[tokio::test]
async fn a_promised_job_waits_for_the_store() {
    let mut fixture = Fixture::new().await;
    let busy = fixture.database.write(Asker::Upkeep, Rows::All).await.unwrap();
    let submitted = fixture.submit(1, true);
    fixture.waits_for_store().await;
    assert!(fixture.wishes.borrow().as_ref().is_none_or(|leases| leases.is_empty()) && !submitted.is_finished());
    busy.commit().await.unwrap();
    let mut watched = submitted.await.unwrap().unwrap();
    fixture.wished(&[1]).await;

    let busy = fixture.database.write(Asker::Upkeep, Rows::All).await.unwrap();
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
    fixture.dispatcher.settled().await.unwrap();
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
    assert!(fixture.dispatcher.watch(TENANT, job).await.unwrap().is_none(), "only the store knows the job");
    assert_eq!(fixture.commit(1).await.unwrap().ok(), Some(false), "handed in twice");
}

/// The end of job 1 is decided and not committed. A worker that hears of a refusal now would
/// discard its result, which may be needed again.
#[tokio::test]
async fn a_refused_result_waits_for_the_decision_behind_the_refusal() {
    let mut fixture = Fixture::new().await;
    let _watched = fixture.submit(1, true).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    let busy = fixture.database.write(Asker::Upkeep, Rows::All).await.unwrap();
    let first = fixture.commit(1);
    fixture.waits_for_store().await;
    let second = fixture.commit(1);
    fixture.settles().await;
    assert!(!first.is_finished() && !second.is_finished());
    busy.commit().await.unwrap();
    assert!(first.await.unwrap().unwrap());
    assert_eq!(second.await.unwrap().ok(), Some(false), "handed in twice");
}

#[tokio::test]
async fn a_job_that_cannot_be_stored_is_taken_back_from_its_worker() {
    let mut fixture = Fixture::new().await;
    fixture.break_store(NEW_JOBS).await;
    let watched = fixture.submit(1, false).await.unwrap().unwrap();
    lost(watched).await;
    let promised = fixture.submit(2, true).await.unwrap();
    let refused = promised.expect_err("refused");
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
    fixture.dispatcher.settled().await.unwrap();
    let mut busy = fixture.database.write(Asker::Upkeep, Rows::All).await.unwrap();
    let _second = fixture.submit(2, false).await.unwrap().unwrap();
    fixture.wished(&[1, 2]).await;
    fixture.waits_for_store().await;
    // Both commands form one transaction behind the blocked one. Job 1 ends only with their commit,
    // which fails.
    let (committed, third) = (fixture.commit(1), fixture.submit(3, false).await.unwrap().unwrap());
    fixture.wished(&[1, 2, 3]).await;
    busy.script(broken(ENDS)).await.unwrap();
    busy.commit().await.unwrap();
    lost(third).await;
    assert!(committed.await.unwrap().is_err());
    fixture.heal_store().await;
    fixture.stored(1).await;
    fixture.wished(&[2]).await;
}

/// The second transaction ends job 1 while the first is on its way. The worker keeps the lease
/// until the second commit, so that it can hand the result in again.
#[tokio::test]
async fn no_lease_is_withdrawn_before_the_commit_of_the_end() {
    let mut fixture = Fixture::new().await;
    let mut first = fixture.submit(1, true).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    let mut busy = fixture.database.write(Asker::Upkeep, Rows::All).await.unwrap();
    let second = fixture.submit(2, true);
    fixture.waits_for_store().await;
    let held = fixture.always_wished(1);
    let committed = fixture.commit(1);
    fixture.settles().await;
    busy.script(broken(ENDS)).await.unwrap();
    busy.commit().await.unwrap();
    second.await.unwrap().unwrap();
    fixture.wished(&[1, 2]).await;
    assert!(committed.await.unwrap().is_err(), "the end is not stored");
    assert!(first.borrow_and_update().end.is_none());
    assert!(!held.is_finished(), "the lease was withdrawn");
    held.abort();
    fixture.heal_store().await;
    loop {
        // Right after the failure, the dispatcher still refuses results.
        match fixture.commit(1).await.unwrap() {
            Ok(taken) => break assert!(taken, "the worker still holds the lease"),
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
    succeeded(&mut first).await;
    fixture.wished(&[2]).await;
}

/// Answers wait for the store. Without their limit, commands would fill the memory while the store
/// stands still.
#[tokio::test]
async fn no_command_is_taken_while_too_many_answers_wait_for_the_store() {
    let fixture = Fixture::new().await;
    let busy = fixture.database.write(Asker::Upkeep, Rows::All).await.unwrap();
    let submitted = fixture.submit(1, true);
    fixture.waits_for_store().await;
    // The transaction on its way has the first answer. These answers wait for the next one.
    let commands = &fixture.dispatcher.commands;
    let settled = || {
        let (reply, answer) = oneshot::channel();
        commands.try_send(Command::Settled { reply }).map(|()| answer).expect("a place in the queue")
    };
    let taken = async || {
        while commands.capacity() < commands.max_capacity() {
            tokio::task::yield_now().await;
        }
    };
    let mut waiting: Vec<_> = (1..actor::ANSWERS_MAX).map(|_| settled()).collect();
    timeout(STEP_TIMEOUT, taken()).await.expect("the dispatcher takes commands");
    waiting.push(settled());
    timeout(STEP_TIMEOUT, taken()).await.expect("there is room for one more answer");
    waiting.push(settled());
    yield_often().await;
    assert_eq!(commands.max_capacity() - commands.capacity(), 1, "one command waits");
    assert!(!submitted.is_finished());
    busy.commit().await.unwrap();
    submitted.await.unwrap().unwrap();
    for answer in waiting {
        timeout(STEP_TIMEOUT, answer).await.expect("the dispatcher goes on").unwrap();
    }
}

/// Neither reads nor writes work. Callers are refused at once, and the dispatcher goes on when the
/// store is back.
#[tokio::test]
async fn calls_are_refused_while_the_store_is_away() {
    let mut fixture = Fixture::new().await;
    let mut held = fixture.submit(1, true).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    fixture.alter("ALTER TABLE jobs RENAME TO away".to_owned()).await;
    let waiting = fixture.submit(2, false).await.unwrap().unwrap();
    lost(waiting).await;
    for promised in [true, false] {
        let refused = timeout(STEP_TIMEOUT, fixture.submit(3, promised)).await.expect("an answer").unwrap();
        assert_eq!(refused.expect_err("refused").reason().grpc, tonic::Code::Unavailable);
    }
    let refused = timeout(STEP_TIMEOUT, fixture.commit(1)).await.expect("an answer").unwrap();
    assert_eq!(refused.expect_err("refused").reason().grpc, tonic::Code::Unavailable);
    fixture.dispatcher.settled().await.unwrap();
    assert!(held.borrow_and_update().end.is_none());
    fixture.alter("ALTER TABLE away RENAME TO jobs".to_owned()).await;
    fixture.wished(&[1]).await;
    loop {
        match fixture.commit(1).await.unwrap() {
            Ok(taken) => break assert!(taken, "the worker still holds the lease"),
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
    succeeded(&mut held).await;
}

/// The clock stands still, so the deadline comes only where the test lets time pass.
#[tokio::test]
async fn a_job_ends_at_its_deadline_by_the_given_clock() {
    let mut fixture = Fixture::new().await;
    let mut watched = fixture.submit(1, true).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    let created_micros = fixture.time.clock().unix_micros();
    fixture.time.advance(TIME_LIMIT - Duration::from_micros(1));
    fixture.settles().await;
    assert!(watched.borrow_and_update().end.is_none());
    fixture.time.advance(Duration::from_micros(1));
    fixture.settles().await;
    let ended = timeout(STEP_TIMEOUT, watched.wait_for(|view| view.end.is_some())).await.expect("in time");
    let end = ended.unwrap().end.clone().expect("an end");
    assert_eq!(end.error.as_ref().expect("an error").reason, "DEADLINE_EXCEEDED");
    assert_eq!(end.ended_micros, unix_micros_after(created_micros, TIME_LIMIT));
}

/// A view takes time in proportion to all workers and their keys. Workers that attach and leave all
/// the time must not occupy the dispatcher with views.
#[tokio::test]
async fn a_view_of_the_pools_is_made_once_in_an_interval() {
    let fixture = Fixture::new().await;
    let workers = || fixture.dispatcher.pools().iter().map(|pool| pool.workers).sum::<usize>();
    assert_eq!(workers(), 1, "the first view is made at once");
    let (_second, stream) = fixture.dispatcher.attach(report(WorkerId(2))).await.unwrap();
    assert_eq!(workers(), 1);
    fixture.time.advance(Duration::from_secs(1));
    let (_third, _) = fixture.dispatcher.attach(report(WorkerId(3))).await.unwrap();
    assert_eq!(workers(), 3, "the interval is over");
    fixture.dispatcher.detach(WorkerId(2), stream).await.unwrap();
    fixture.settles().await;
    assert_eq!(workers(), 3);
    fixture.time.advance(Duration::from_secs(1));
    // Any command makes the dispatcher look at its timers.
    let begun = Instant::now();
    while workers() != 2 {
        assert!(begun.elapsed() < STEP_TIMEOUT, "no view was made");
        fixture.settles().await;
    }
}

/// Commands of tenants wait behind the reports before them. A call that was cancelled leaves its
/// report in line.
#[tokio::test]
async fn few_reports_wait_for_the_dispatcher_however_many_workers_report() {
    let (directory, time) = (tempfile::tempdir().unwrap(), ManualClock::at(1_700_000_000_000_000));
    let database = Database::open(&directory.path().join("server.db"), &SCHEMAS, 1).await.unwrap();
    let keystore = keys::tests::keystore(directory.path(), time.clock(), &database).await;
    // The dispatcher does not run yet.
    let started = Dispatcher::start(parts(&Store::new(database), &keystore, &time)).await;
    let (dispatcher, running) = started.unwrap();
    for _ in 0..2 {
        let attach = |number: u64| {
            let dispatcher = dispatcher.clone();
            tokio::spawn(async move { dispatcher.attach(report(WorkerId(number.into()))).await.map(drop) })
        };
        let calls: Vec<_> = (0..3 * REPORTS_MAX).map(attach).collect();
        yield_often().await;
        let waiting = dispatcher.commands.max_capacity() - dispatcher.commands.capacity();
        assert_eq!(waiting as u64, REPORTS_MAX);
        calls.iter().for_each(tokio::task::JoinHandle::abort);
        yield_often().await;
    }
    tokio::spawn(running);
    let (_, stream) = timeout(STEP_TIMEOUT, dispatcher.attach(report(WORKER))).await.expect("a turn").unwrap();
    timeout(STEP_TIMEOUT, dispatcher.report(stream, report(WORKER))).await.expect("a turn").unwrap();
    assert_eq!(dispatcher.reports.held(), 0);
}

#[tokio::test]
async fn other_jobs_go_on_while_the_work_of_one_is_read() {
    let mut fixture = Fixture::new().await;
    let busy = fixture.hold_readers().await;
    let job = fixture.large_job(1);
    let inputs = job.inputs.clone();
    fixture.send(job, true).await.unwrap().unwrap();
    let second = timeout(STEP_TIMEOUT, fixture.submit(2, true)).await.expect("the dispatcher waits for nothing");
    let mut second = second.unwrap().unwrap();
    fixture.wished(&[2]).await;
    assert!(fixture.commit(2).await.unwrap().unwrap());
    succeeded(&mut second).await;
    drop(busy);
    fixture.wished(&[1]).await;
    let wish = fixture.wishes.borrow().clone().expect("leases");
    let leased = &wish[&(JobId(1), 1)];
    assert!(leased.work.inputs[0].bytes == inputs[0].bytes && leased.work.inputs.len() == 1);
    assert_eq!(leased.work.key_parts, [Digest { blake3: [1; 32], size_bytes: 1 }]);
}

/// A worker drops a job that is not in its assignment. A worker that comes back after a restart
/// would lose its jobs if it got an assignment before their work was read.
#[tokio::test]
async fn the_first_assignment_of_a_worker_waits_for_all_work() {
    let mut fixture = Fixture::new().await;
    fixture.send(fixture.large_job(1), true).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    fixture.restart().await;
    let busy = fixture.hold_readers().await;
    let (mut wishes, _) = fixture.dispatcher.attach(report_of(WORKER, &[1])).await.unwrap();
    fixture.settles().await;
    assert!(wishes.borrow().is_none());
    drop(busy);
    let first = timeout(STEP_TIMEOUT, wishes.wait_for(Option::is_some)).await.expect("in time").unwrap().clone();
    assert_eq!(first.expect("leases").keys().collect::<Vec<_>>(), [&(JobId(1), 1)]);
}

/// Otherwise a tenant with much waiting work would delay the jobs of all others on a new worker.
#[tokio::test]
async fn the_first_assignment_of_a_worker_does_not_wait_for_jobs_that_are_new_to_it() {
    let mut fixture = Fixture::new().await;
    fixture.restart().await;
    fixture.send(fixture.large_job(1), true).await.unwrap().unwrap();
    fixture.submit(2, true).await.unwrap().unwrap();
    let busy = fixture.hold_readers().await;
    (fixture.wishes, _) = fixture.dispatcher.attach(report(WORKER)).await.unwrap();
    fixture.wished(&[2]).await;
    drop(busy);
    fixture.wished(&[1, 2]).await;
}

/// The store may recover, so the job goes on. The failure does not keep back other jobs.
#[tokio::test]
async fn a_job_whose_work_cannot_be_read_is_handed_out_after_its_lease() {
    let mut fixture = Fixture::new().await;
    fixture.send(fixture.large_job(1), true).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    fixture.restart().await;
    fixture.alter("ALTER TABLE job_inputs RENAME TO away".to_owned()).await;
    let (mut wishes, stream) = fixture.dispatcher.attach(report_of(WORKER, &[1])).await.unwrap();
    let first = timeout(STEP_TIMEOUT, wishes.wait_for(Option::is_some)).await.expect("in time").unwrap().clone();
    assert!(first.expect("leases").is_empty());
    fixture.wishes = wishes;
    fixture.alter("ALTER TABLE away RENAME TO job_inputs".to_owned()).await;
    let lease = Duration::from_millis(Limits::default().lease_ms);
    for _ in 0..2 {
        fixture.time.advance(lease / 2);
        fixture.dispatcher.report(stream, report(WORKER)).await.unwrap();
    }
    fixture.wished(&[1]).await;
    assert_eq!(fixture.wishes.borrow().as_ref().expect("leases").keys().collect::<Vec<_>>(), [&(JobId(1), 2)]);
}

/// The job ended after its second request had looked for it in the store, and the dispatcher has
/// forgotten the job.
#[tokio::test]
async fn a_repeated_request_gets_the_result_of_a_job_that_has_just_ended() {
    let mut fixture = Fixture::new().await;
    let again = [true, false].map(|promised| (promised, fixture.job(1)));
    let mut first = fixture.submit(1, true).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    assert!(fixture.commit(1).await.unwrap().unwrap());
    succeeded(&mut first).await;
    fixture.dispatcher.settled().await.unwrap();
    assert!(fixture.dispatcher.watch(TENANT, JobId(1)).await.unwrap().is_none(), "only the store knows the job");
    for (promised, job) in again {
        let answer = timeout(STEP_TIMEOUT, fixture.send(job, promised)).await.expect("in time").unwrap();
        let found = answer.unwrap();
        let view = found.borrow();
        assert_eq!((view.meta.id, view.end.as_ref().expect("an end").outputs.len()), (JobId(1), 1));
    }
}

/// Waits until the watch of a job that could not be stored has ended.
async fn lost(mut watched: Watched) {
    let ended = timeout(STEP_TIMEOUT, watched.wait_for(|view| view.end.is_some())).await.expect("in time");
    assert!(ended.is_err(), "a job that is not stored has no end");
}

fn broken(change: &str) -> String {
    format!("CREATE TRIGGER broken BEFORE {change} BEGIN SELECT RAISE(ABORT, 'broken'); END")
}
