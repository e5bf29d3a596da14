//! Reports of workers, their assignments, and timers.

use super::*;

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

/// Otherwise a steady stream of commands would suspend all deadlines and expiries of leases.
#[tokio::test]
async fn timers_run_although_commands_never_cease() {
    let mut fixture = Fixture::new().await;
    let (commands, mut actor, _) = fixture.actor_with_worker().await;
    fixture.time.advance(Duration::from_millis(Limits::default().lease_ms));
    // As many rounds as the commands that wait in the first round take, and two more.
    for _ in 0..COMMANDS_MAX / actor::BATCH + 2 {
        fill(&commands);
        assert!(is_attached(&actor), "the queue was empty");
        assert!(actor.round(&mut Vec::new()).await);
        if !is_attached(&actor) {
            return;
        }
    }
    panic!("a silent worker is still attached");
}

/// The report may have arrived long before the dispatcher takes it.
#[tokio::test]
async fn a_report_that_waits_renews_a_lease_that_is_due() {
    let mut fixture = Fixture::new().await;
    let (commands, mut actor, stream) = fixture.actor_with_worker().await;
    let turn = FairShare::new(1, 1).share(&WORKER);
    let report = Command::Report { stream, report: report(WORKER), turn, reply: oneshot::channel().0 };
    for _ in 0..2 * actor::BATCH {
        commands.try_send(watch()).expect("room for a command");
    }
    commands.try_send(report).expect("room for a command");
    fixture.time.advance(Duration::from_millis(Limits::default().lease_ms));
    for _ in 0..3 {
        fill(&commands);
        assert!(actor.round(&mut Vec::new()).await);
        assert!(is_attached(&actor), "the worker has reported");
    }
}

fn is_attached(actor: &actor::Actor) -> bool {
    actor.scheduler.stats().pools.values().any(|pool| pool.workers > 0)
}

/// Fills the queue of commands.
fn fill(commands: &mpsc::Sender<Command>) {
    while commands.try_send(watch()).is_ok() {}
}

fn watch() -> Command {
    Command::Watch { tenant: TENANT.into(), job: JobId(0), reply: oneshot::channel().0 }
}

/// A view takes time in proportion to all workers and their keys. Workers that attach and leave all
/// the time must not occupy the dispatcher with views.
#[tokio::test]
async fn a_view_of_the_pools_is_made_once_in_an_interval() {
    let fixture = Fixture::new().await;
    let workers = || fixture.dispatcher.pools().iter().map(|pool| pool.workers).sum::<usize>();
    assert_eq!(workers(), 1, "the first view is made at once");
    let (_second, stream) = fixture.dispatcher.attach(report(WorkerId(2)), Seat::Here).await.unwrap();
    assert_eq!(workers(), 1);
    fixture.time.advance(Duration::from_secs(1));
    let (_third, _) = fixture.dispatcher.attach(report(WorkerId(3)), Seat::Here).await.unwrap();
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
    let database = cloakwork_tests_database::open(&directory.path().join("server.db"), &SCHEMAS, 1).await;
    let keystore = keys::tests::keystore(directory.path(), time.clock(), &database).await;
    // The dispatcher does not run yet.
    let telemetry = Arc::new(Telemetry::new(10).unwrap());
    let started = Dispatcher::start(parts(&Store::new(database), &keystore, &time, &telemetry)).await;
    let (dispatcher, running) = started.unwrap();
    for _ in 0..2 {
        let attach = |number: u64| {
            let dispatcher = dispatcher.clone();
            tokio::spawn(async move { dispatcher.attach(report(WorkerId(number.into())), Seat::Here).await.map(drop) })
        };
        let calls: Vec<_> = (0..3 * REPORTS_MAX).map(attach).collect();
        yield_often().await;
        let waiting = dispatcher.commands.max_capacity() - dispatcher.commands.capacity();
        assert_eq!(waiting as u64, REPORTS_MAX);
        calls.iter().for_each(tokio::task::JoinHandle::abort);
        yield_often().await;
    }
    tokio::spawn(running);
    let (_, stream) =
        timeout(STEP_TIMEOUT, dispatcher.attach(report(WORKER), Seat::Here)).await.expect("a turn").unwrap();
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
    let (mut wishes, _) = fixture.dispatcher.attach(report_of(WORKER, &[1]), Seat::Here).await.unwrap();
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
    (fixture.wishes, _) = fixture.dispatcher.attach(report(WORKER), Seat::Here).await.unwrap();
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
    let (mut wishes, stream) = fixture.dispatcher.attach(report_of(WORKER, &[1]), Seat::Here).await.unwrap();
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
