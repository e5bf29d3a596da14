//! Several servers on one PostgreSQL database and one bucket: one owns the database, and another
//! replaces it.

use std::time::{Duration, Instant};

use cloakwork_client::{Client, ConnectOptions, RetryPolicy, proto::JobState};
use cloakwork_tests_postgres::Postgres;
use cloakwork_tests_service::{Server, Setup, Signal, Tenant, eventually};
use futures_util::StreamExt as _;

use crate::shared::{Shared, all_decrypt, all_right, name_of, submit};

/// Time for which PostgreSQL is away.
fn away() -> Duration {
    Duration::from_secs(if std::env::var_os("CLOAKWORK_TEST_ALL").is_some() { 30 } else { 10 })
}

/// The jobs of each part of a test.
const JOBS: u64 = 24;

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_server_replaces_one_that_is_killed_and_one_that_stops() {
    let Some(shared) = Shared::new().await else { return };
    let mut first = Server::start(shared.setup()).await;
    let mut tenant = Tenant::new(first.client().await).await;
    let mut second = shared.beside(&first).await;
    let mut jobs = submit(&tenant, 0..JOBS).await;
    assert_eq!((second.probe("/readyz").await, second.metric("cloakwork_owner").await), (Some(200), 0.0));
    first.kill();
    let begun = Instant::now();
    eventually("the second server serves", || async { second.metric("cloakwork_owner").await == 1.0 }).await;
    eprintln!("a killed server was replaced after {:?}", begun.elapsed());
    tenant.continue_with(second.client().await).await;
    jobs.extend(submit(&tenant, JOBS..2 * JOBS).await);
    all_right(&tenant, &jobs).await;
    // The first server waits now, until the second one stops.
    first.launch();
    eventually("the first server runs", || async { first.probe("/livez").await == Some(200) }).await;
    let begun = Instant::now();
    second.process().signal(Signal::Terminate);
    eventually("the first server serves", || async { first.metric("cloakwork_owner").await == 1.0 }).await;
    eprintln!("a server that stopped was replaced after {:?}", begun.elapsed());
    tenant.continue_with(first.client().await).await;
    jobs.extend(submit(&tenant, 2 * JOBS..3 * JOBS).await);
    all_right(&tenant, &jobs).await;
    first.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_suspended_ends_and_changes_nothing() {
    let Some(shared) = Shared::new().await else { return };
    let mut first = Server::start(shared.setup()).await;
    let mut tenant = Tenant::new(first.client().await).await;
    let mut second = shared.beside(&first).await;
    let mut jobs = submit(&tenant, 0..JOBS).await;
    first.process().signal(Signal::Stop);
    eventually("the second server serves", || async { second.metric("cloakwork_owner").await == 1.0 }).await;
    tenant.continue_with(second.client().await).await;
    let owner = || shared.postgres.sql(name_of(&shared.url), "SELECT epoch, encode(owner, 'hex') FROM shards");
    let before = owner();
    assert!(before.starts_with("2|"), "{before}");
    first.process().signal(Signal::Continue);
    let begun = Instant::now();
    while first.process().is_running() {
        assert!(begun.elapsed().as_secs() < 60, "the first server goes on");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    eprintln!("a suspended server ended {:?} after it continued", begun.elapsed());
    assert!(first.log().contains("another server has taken over the shard"), "{}", first.log());
    jobs.extend(submit(&tenant, JOBS..2 * JOBS).await);
    all_right(&tenant, &jobs).await;
    assert_eq!(owner(), before);
    second.stop();
}

/// PostgreSQL crashes, and may lose commits that nobody relies on. Then it stays away.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_answers_while_postgres_is_away_and_continues_when_it_is_back() {
    let Some(mut shared) = Shared::new().await else { return };
    let server = Server::start(shared.setup()).await;
    let tenant = Tenant::new(server.client().await).await;
    let jobs = submit(&tenant, 0..JOBS).await;
    let mut options = ConnectOptions::new(server.url());
    options.retry = RetryPolicy::NEVER;
    let impatient = tenant.share_key(Client::connect(&options).await.expect("the server answers")).await;
    shared.postgres.stop();
    let begun = Instant::now();
    let mut times = Vec::new();
    while begun.elapsed() < away() {
        let request = tenant.squares(&[1]);
        let call = Instant::now();
        impatient.submit(&request).await.expect_err("no job is accepted without its record");
        times.push(call.elapsed());
        let call = Instant::now();
        // The job may be in memory, or only in the database.
        let _ = impatient.job(&jobs[0].0).await;
        times.push(call.elapsed());
    }
    shared.postgres.start_again();
    let begun = Instant::now();
    eventually("jobs are accepted again", || async { impatient.submit(&tenant.squares(&[1])).await.is_ok() }).await;
    let (calls, longest) = (times.len(), times.into_iter().max().unwrap_or_default());
    eprintln!(
        "{calls} calls while PostgreSQL was away, the longest {longest:?}; a job is accepted {:?} after its return",
        begun.elapsed()
    );
    // The limit of a wait for the database is 2 s. A busy machine adds its own waits.
    assert!(calls > 4 && longest < Duration::from_secs(4), "{calls} calls, {longest:?}");
    let listed: Vec<String> = tenant.client.jobs(&[]).map(|job| job.expect("a job").name).collect().await;
    assert!(listed.len() > jobs.len(), "{listed:?}");
    for name in &listed {
        assert_eq!(tenant.client.wait(name).await.expect("the job ends").state(), JobState::Succeeded);
    }
    all_decrypt(&tenant, &jobs).await;
}

/// An operator moves a running installation from its file to PostgreSQL.
#[tokio::test(flavor = "multi_thread")]
async fn an_installation_moves_to_postgres_with_all_its_jobs() {
    let Some(postgres) = Postgres::start(&[]) else { return };
    let mut server = Server::start(Setup::default()).await;
    let token = server.token("acme", "jobs,keys,read");
    let mut tenant = Tenant::new(server.client_with(&token).await).await;
    let mut jobs = submit(&tenant, 0..JOBS).await;
    server.stop();
    server.set("database.url", postgres.database());
    let refused = server.command().arg("serve").output().expect("the command runs");
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && error.contains("`cloakwork-server copy` moves the rows"), "{error}");
    let copied = server.command().arg("copy").output().expect("the command runs");
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    assert!(String::from_utf8_lossy(&copied.stdout).starts_with("Copied and compared "), "{copied:?}");
    server.restart().await;
    tenant.continue_with(server.client_with(&token).await).await;
    jobs.extend(submit(&tenant, JOBS..2 * JOBS).await);
    all_right(&tenant, &jobs).await;
    server.stop();
}
