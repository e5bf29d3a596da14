//! A simulated poison job, which kills its worker. The test watches the job and kills its worker
//! whenever the job runs: the worker process, or the server with its embedded worker.

use std::time::Duration;

use cloakwork_client::proto::{Job, JobState};
use cloakwork_tests_service::{Server, Setup, Tenant, VALUES, Worker};

const NEIGHBOURS: usize = 12;

/// Halving 13 suspects takes four crashes. Then the culprit crashes alone three times.
const CRASHES_MAX: u32 = 4 + 3;

/// Submits a job that the test treats as poison, among jobs that are harmless.
async fn submit(tenant: &Tenant) -> (Job, Vec<Job>) {
    let mut neighbours = Vec::new();
    let mut poison = None;
    for number in 0..=NEIGHBOURS {
        // Jobs are long enough that none ends before the test has observed it.
        let rows = if number == NEIGHBOURS / 2 { 30_000 } else { 200 };
        let values: Vec<u64> = (0..rows).map(|row| (row + number as u64) % VALUES).collect();
        let job = tenant.client.submit(&tenant.squares(&values)).await.expect("accepted");
        if number == NEIGHBOURS / 2 { poison = Some(job) } else { neighbours.push(job) }
    }
    (poison.expect("one of them"), neighbours)
}

async fn state(tenant: &Tenant, job: &Job) -> Option<Job> {
    tokio::time::timeout(Duration::from_secs(2), tenant.client.job(&job.name)).await.ok()?.ok()
}

async fn neighbours_succeed(tenant: &Tenant, neighbours: &[Job]) {
    for neighbour in neighbours {
        let ended = tenant.client.wait(&neighbour.name).await.expect("the server answers");
        assert_eq!(ended.state(), JobState::Succeeded, "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_poison_job_fails_when_its_workers_are_killed() {
    let server = Server::start(Setup::default().without_worker()).await;
    let token = server.token("workers", "worker");
    let tenant = Tenant::new(server.client().await).await;
    let (poison, neighbours) = submit(&tenant).await;
    let mut worker = Worker::start(&server, "victim", &token);
    let mut crashes = 0;
    let ended = loop {
        match state(&tenant, &poison).await {
            Some(job) if job.end_time.is_some() => break job,
            // The state shows a new attempt, and not the previous one, whose end the server has yet
            // to notice.
            Some(job) if job.state() == JobState::Running && job.attempts > crashes => {
                crashes = job.attempts;
                assert!(crashes <= CRASHES_MAX, "a culprit among {NEIGHBOURS} should stand alone by now");
                worker.process().kill();
                worker = Worker::start(&server, "victim", &token);
            }
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert_eq!(ended.error.expect("an error").reason, "JOB_POISON");
    neighbours_succeed(&tenant, &neighbours).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_poison_job_fails_when_its_server_is_killed() {
    let mut server = Server::start(Setup::default()).await;
    let tenant = Tenant::new(server.client().await).await;
    let (poison, neighbours) = submit(&tenant).await;
    let mut crashes = 0;
    let ended = loop {
        match state(&tenant, &poison).await {
            Some(job) if job.end_time.is_some() => break job,
            Some(job) if job.state() == JobState::Running && job.attempts > crashes => {
                crashes = job.attempts;
                assert!(crashes <= CRASHES_MAX, "a culprit among {NEIGHBOURS} should stand alone by now");
                server.kill();
                server.restart().await;
            }
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert_eq!(ended.error.expect("an error").reason, "JOB_POISON");
    neighbours_succeed(&tenant, &neighbours).await;
}
