//! Processes are killed, stopped and disconnected. Every acknowledged job ends exactly once, with a
//! correct result.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use cloakwork_client::{Client, Finished, JobRequest, ProgramBuilder, proto::JobState};
use cloakwork_tests_service::{Server, Setup, Signal, Tenant, VALUES, Worker, eventually};

/// Values of the job with number `number`.
fn values(number: usize) -> Vec<u64> {
    (0..8).map(|row| (number * 3 + row) as u64 % VALUES).collect()
}

/// Submits and checks jobs, several at a time, until all are done. The client handles all
/// interruptions.
async fn run_jobs(tenant: &Tenant, jobs: usize, done: &AtomicUsize) {
    use futures_util::StreamExt as _;
    let numbers = futures_util::stream::iter(0..jobs);
    numbers
        .for_each_concurrent(16, |number| async move {
            let finished = run_with_retries(&tenant.client, tenant, &values(number)).await;
            let expected: Vec<u64> = values(number).iter().map(|x| x * x % VALUES).collect();
            assert_eq!(tenant.values(&finished).await.expect("an output"), expected, "job {number}");
            done.fetch_add(1, Ordering::Relaxed);
        })
        .await;
}

/// Runs a job, and repeats the request while the server does not answer, for at most JOB_TIME_MAX.
async fn run_with_retries(client: &Client, tenant: &Tenant, values: &[u64]) -> Finished {
    let request = tenant.squares(values);
    let begun = Instant::now();
    loop {
        match client.run(&request).await {
            Ok(finished) => return finished,
            Err(error) if error.is_break() || error.is_retryable() => {
                assert!(begun.elapsed() < JOB_TIME_MAX, "a job does not end: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => panic!("a job was lost: {error}"),
        }
    }
}

/// Maximum time from a job's first request to its end, including all kills of a test. No correct
/// server takes longer.
const JOB_TIME_MAX: Duration = Duration::from_secs(300);

/// Checks that every job known to the server has succeeded, and none exists twice. Returns the
/// number of jobs that took more than one attempt.
async fn all_succeeded(tenant: &Tenant, jobs: usize) -> usize {
    use futures_util::StreamExt as _;
    let listed: Vec<_> = tenant.client.jobs(&[]).map(|job| job.expect("a job")).collect().await;
    assert_eq!(listed.len(), jobs, "one job for each request");
    for job in &listed {
        assert_eq!(job.state(), JobState::Succeeded, "{job:?}");
    }
    listed.iter().filter(|job| job.attempts > 1).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_jobs_succeed_when_workers_are_killed_under_load() {
    const JOBS: usize = 150;
    let server = Server::start(Setup::default().without_worker()).await;
    let token = server.token("workers", "worker");
    let tenant = Tenant::new(server.client().await).await;
    let done = AtomicUsize::new(0);
    let mut first = Worker::start(&server, "first", &token);
    let mut second = Worker::start(&server, "second", &token);
    let killer = async {
        for round in 1..=4 {
            eventually("some jobs are done", || async { done.load(Ordering::Relaxed) >= round * JOBS / 8 }).await;
            let victim = if round % 2 == 0 { &mut first } else { &mut second };
            victim.process().kill();
            *victim = Worker::start(&server, "again", &token);
        }
    };
    tokio::join!(run_jobs(&tenant, JOBS, &done), killer);
    let hit = all_succeeded(&tenant, JOBS).await;
    assert!(hit > 0, "no kill hit a worker that had a lease");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_jobs_succeed_when_the_server_is_killed_under_load() {
    const JOBS: usize = 150;
    let mut server = Server::start(Setup::default()).await;
    let tenant = Tenant::new(server.client().await).await;
    let done = AtomicUsize::new(0);
    let killer = async {
        for round in 1..=3 {
            eventually("some jobs are done", || async { done.load(Ordering::Relaxed) >= round * JOBS / 6 }).await;
            server.kill();
            server.restart().await;
        }
    };
    tokio::join!(run_jobs(&tenant, JOBS, &done), killer);
    let hit = all_succeeded(&tenant, JOBS).await;
    assert!(hit > 0, "no kill hit a worker that had a lease");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_stopped_beyond_its_lease_changes_no_result() {
    let server = Server::start(Setup::default().without_worker().with("limits.lease_ms", 1000)).await;
    let token = server.token("workers", "worker");
    let tenant = Tenant::new(server.client().await).await;
    let mut sleeper = Worker::start(&server, "sleeper", &token);
    tenant.check_squares(&values(0)).await;
    // The job is long enough that the worker is still computing it when it is stopped.
    let mut program = ProgramBuilder::new(tenant.keys.set());
    let mut value = program.input("x");
    for _ in 0..200 {
        value = program.lookup(value, |x| (x + 1) % 4);
    }
    program.output(value);
    let many: Vec<u64> = (0..1000).map(|row| row % 4).collect();
    let list = tenant.keys.encrypt(&many, 3).expect("messages");
    let request = JobRequest::new(program.build().expect("a program"), &tenant.key).encrypted(list);
    let job = tenant.client.submit(&request).await.expect("accepted");
    eventually("the job runs", || async {
        tenant.client.job(&job.name).await.expect("a job").state() == JobState::Running
    })
    .await;
    sleeper.process().signal(Signal::Stop);
    let _other = Worker::start(&server, "other", &token);
    let ended = tenant.client.wait(&job.name).await.expect("the other worker does it");
    assert_eq!(ended.state(), JobState::Succeeded);
    // On a slow machine, the other worker may lose a lease as well.
    assert!(ended.attempts >= 2, "the sleeper had a lease, and lost it");
    sleeper.process().signal(Signal::Continue);
    tenant.check_squares(&values(1)).await;
    eventually("the sleeper is back", || async { server.metric("cloakwork_workers").await >= 2.0 }).await;
    // No late result of the stopped worker changes the end of the job.
    let later = tenant.client.job(&job.name).await.expect("a job");
    let end = (ended.state(), ended.attempts, &ended.end_time);
    assert_eq!((later.state(), later.attempts, &later.end_time), end);
    let finished = tenant.client.finish(later, Duration::ZERO, &request).await.expect("a signed result");
    let output = tenant.client.output(&finished.output(0).expect("an output")).await.expect("its bytes");
    let values = tenant.keys.decrypt(&output).expect("values").to_vec();
    assert_eq!(values, many, "200 steps through four values lead back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_stopped_exits_cleanly_and_loses_no_job() {
    const JOBS: usize = 60;
    let mut server = Server::start(Setup::default()).await;
    let tenant = Tenant::new(server.client().await).await;
    let done = AtomicUsize::new(0);
    let mut worker = Worker::start(&server, "beside", &server.token("workers", "worker"));
    let stopper = async {
        eventually("some jobs are done", || async { done.load(Ordering::Relaxed) >= JOBS / 3 }).await;
        eventually("the worker is there", || async { server.metric("cloakwork_workers").await >= 2.0 }).await;
        server.stop();
        server.restart().await;
    };
    tokio::join!(run_jobs(&tenant, JOBS, &done), stopper);
    all_succeeded(&tenant, JOBS).await;
    assert!(worker.process().log().contains("the server is about to stop"), "{}", worker.process().log());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orderly_stop_does_not_count_as_a_crash_of_a_job() {
    // The drain time is zero: no job can end, and the worker cannot send a final report.
    let mut server = Server::start(Setup::default().with("limits.drain_ms", 0)).await;
    let tenant = Tenant::new(server.client().await).await;
    let many: Vec<u64> = (0..10_000).map(|row| row % VALUES).collect();
    let job = tenant.client.submit(&tenant.squares(&many)).await.expect("accepted");
    // One stop more than the number of worker crashes that a job may cause.
    for stop in 1..=4 {
        eventually("the job runs again", || async {
            let job = tenant.client.job(&job.name).await.expect("a job");
            assert_eq!(job.error, None, "after {stop} starts");
            job.state() == JobState::Running && job.attempts >= stop
        })
        .await;
        server.stop();
        server.restart().await;
    }
    let ended = tenant.client.wait(&job.name).await.expect("the server answers");
    assert_eq!(ended.state(), JobState::Succeeded, "{ended:?}");
}
