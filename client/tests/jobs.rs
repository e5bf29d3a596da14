//! Jobs that outlive the connections over which they were submitted.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod common;

use std::time::Duration;

use cloakwork_client::{
    BlocksShape, Client, ClientError, Code, Integer, JobRequest, Keys, ProgramBuilder, Progress, Shape, Type,
    has_ended,
    proto::{Digest, Job, JobError, JobOutput, JobState, job_service_server::JobServiceServer},
    set_by_name,
};
use common::{
    POLICY,
    jobs::{Jobs, job},
    pipe,
};
use futures_util::TryStreamExt as _;
use tonic::{Status, transport::Server};
use tonic_types::{ErrorDetails, StatusExt as _};

fn connect(jobs: &Jobs) -> Client {
    pipe::client(Server::builder().add_service(JobServiceServer::new(jobs.clone())), vec![], POLICY)
}

fn request() -> JobRequest {
    let mut program = ProgramBuilder::new(set_by_name("TOY_MESSAGE_2_CARRY_2").expect("a toy"));
    let x = program.input("x");
    program.output(x);
    JobRequest::new(program.build().expect("a program"), "tenants/t/keys/k")
}

fn unavailable() -> Status {
    Status::unavailable("going down")
}

fn running(rows_done: u64) -> Job {
    Job { rows_done, ..job(JobState::Running) }
}

#[tokio::test]
async fn a_run_returns_the_job_and_the_time_on_the_way() {
    let jobs = Jobs::default();
    jobs.script().runs.push_back(Ok(job(JobState::Succeeded)));
    let finished = connect(&jobs).run(&request()).await.expect("a result");
    let latency = finished.job.latency.as_ref().expect("a record");
    assert_eq!(u128::from(latency.transit_nanos + latency.wall_nanos), finished.wall.as_nanos());
    assert!(finished.output(0).is_err());
}

#[tokio::test]
async fn a_run_that_breaks_is_found_again_by_its_request_id() {
    let jobs = Jobs::default();
    {
        let mut script = jobs.script();
        script.runs.push_back(Err(unavailable()));
        script.watches.push_back(vec![Ok(running(1)), Err(unavailable())]);
        script.watches.push_back(vec![Ok(running(1)), Ok(job(JobState::Succeeded))]);
    }
    let request = request();
    let finished = connect(&jobs).run(&request).await.expect("a result");
    assert_eq!(finished.job.state(), JobState::Succeeded);
    assert_eq!(jobs.script().request_ids, [request.request_id(), request.request_id()]);
    let specs = &jobs.script().specs;
    assert_eq!(specs[0], specs[1]);
}

#[tokio::test]
async fn an_overloaded_server_is_asked_again_after_its_time() {
    let jobs = Jobs::default();
    let details = ErrorDetails::with_retry_info(Some(Duration::from_millis(2)));
    {
        let mut script = jobs.script();
        script.runs.push_back(Err(Status::with_error_details(Code::ResourceExhausted, "full", details)));
        script.runs.push_back(Ok(job(JobState::Succeeded)));
    }
    connect(&jobs).run(&request()).await.expect("a result");
    assert_eq!(jobs.script().request_ids.len(), 2);
}

#[tokio::test]
async fn a_job_that_failed_is_an_error_with_its_reason() {
    let jobs = Jobs::default();
    let error = JobError { reason: "JOB_POISON".into(), message: "it killed its worker".into() };
    jobs.script().runs.push_back(Ok(Job { error: Some(error), ..job(JobState::Failed) }));
    let error = connect(&jobs).run(&request()).await.unwrap_err();
    assert_eq!(error.to_string(), "tenants/t/jobs/1 has failed: JOB_POISON: it killed its worker");
    assert!(!error.is_retryable());
}

/// Names must be safe, because users copy them into commands.
#[tokio::test]
async fn names_with_shell_syntax_are_refused() {
    let jobs = Jobs::default();
    let named = |name: &str| Job { name: name.into(), ..job(JobState::Succeeded) };
    let output = JobOutput { name: "tenants/t/jobs/1/outputs/0\n$(rm x)".into(), ..Default::default() };
    jobs.script().runs.push_back(Ok(named("tenants/t/jobs/1; rm x")));
    jobs.script().runs.push_back(Ok(Job { outputs: vec![output], ..job(JobState::Succeeded) }));
    jobs.script().watches.push_back(vec![Ok(named("\u{1b}[2J"))]);
    for _ in 0..2 {
        let error = connect(&jobs).run(&request()).await.unwrap_err();
        assert!(matches!(error, ClientError::Malformed { .. }), "{error}");
    }
    let error = connect(&jobs).wait("tenants/t/jobs/1").await.unwrap_err();
    assert!(matches!(error, ClientError::Malformed { .. }), "{error}");
}

#[tokio::test]
async fn lists_above_the_memory_limit_are_refused() {
    let digest = Digest { blake3: vec![0; 32].into(), size_bytes: 1 << 40 };
    let message = JobOutput { name: "tenants/t/jobs/1/outputs/0".into(), digest: Some(digest), ..Default::default() };
    let client = connect(&Jobs::default());
    let job = Job { outputs: vec![message], ..job(JobState::Succeeded) };
    let finished = client.finish(job, Duration::ZERO, &request()).await.unwrap();
    let error = client.output(&finished.output(0).unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("more than a list has"), "{error}");
}

/// The shape of a result follows from the program and the inputs, and not from the server.
#[tokio::test]
async fn a_request_states_what_its_results_must_be() {
    let set = set_by_name("TOY_MESSAGE_2_CARRY_2").expect("a toy");
    let keys = Keys::generate(set, Progress::none()).await.expect("keys");
    let mut program = ProgramBuilder::new(set);
    let (x, y) = (program.fresh("x", Type::Uint(8)), program.input("y"));
    let small = program.lookup(y, |y| y % 3);
    [x, small].into_iter().for_each(|value| program.output(value));
    let program = program.build().expect("a program");
    let numbers =
        keys.encrypt_integers(&[Integer::from(1_u128), Integer::from(2_u128)], Type::Uint(8)).expect("numbers");
    let request = || JobRequest::new(program.clone(), "tenants/t/keys/k");
    let shape = |degrees: &[u32], rows| Shape::Blocks(BlocksShape { set, degrees: degrees.into(), rows });
    for (request, rows) in [(request().encrypted(numbers), Some(2)), (request().rows(7), Some(7)), (request(), None)] {
        assert_eq!(request.output_shapes(), [shape(&[3; 4], rows), shape(&[2], rows)]);
    }
}

#[tokio::test]
async fn a_watch_goes_on_over_breaks_and_repeats_nothing() {
    let jobs = Jobs::default();
    {
        let mut script = jobs.script();
        script.watches.push_back(vec![Ok(job(JobState::Queued)), Ok(running(1)), Err(unavailable())]);
        script.watches.push_back(vec![Ok(running(1))]);
        script.watches.push_back(vec![]);
        script.watches.push_back(vec![Ok(running(2)), Ok(job(JobState::Cancelled)), Ok(running(3))]);
    }
    let seen: Vec<Job> = connect(&jobs).watch("tenants/t/jobs/1").try_collect().await.expect("the end");
    let states: Vec<_> = seen.iter().map(|job| (job.state(), job.rows_done)).collect();
    let expected = [(JobState::Queued, 0), (JobState::Running, 1), (JobState::Running, 2), (JobState::Cancelled, 0)];
    assert_eq!(states, expected);
    assert!(has_ended(&seen[3]));
}

#[tokio::test]
async fn a_watch_without_news_is_given_up() {
    let jobs = Jobs::default();
    jobs.script().watches = vec![vec![Ok(running(1)), Err(unavailable())]; 1].into();
    for _ in 0..50 {
        // The state repeats, so there is no progress.
        jobs.script().watches.push_back(vec![Ok(running(1))]);
    }
    let watch: Result<Vec<Job>, ClientError> = connect(&jobs).watch("tenants/t/jobs/1").try_collect().await;
    assert!(watch.unwrap_err().is_retryable());
    let left = jobs.script().watches.len();
    assert_eq!(51 - left, POLICY.attempts_max as usize);
}

#[tokio::test]
async fn lists_run_over_all_pages() {
    let jobs = Jobs::default();
    jobs.script().jobs =
        (0..5).map(|index| Job { name: format!("tenants/t/jobs/{index}"), ..Default::default() }).collect();
    let client = connect(&jobs);
    let names: Vec<String> = client.jobs(&[JobState::Failed]).map_ok(|job| job.name).try_collect().await.expect("all");
    assert_eq!(names, (0..5).map(|index| format!("tenants/t/jobs/{index}")).collect::<Vec<_>>());
    assert_eq!(jobs.script().states, [JobState::Failed as i32]);
    let error = client.job("tenants/t/jobs/9").await.unwrap_err();
    assert_eq!(error.refusal().map(|refusal| refusal.code), Some(Code::NotFound));
    assert_eq!(client.cancel("tenants/t/jobs/1").await.expect("a job").state(), JobState::Cancelled);
}
