//! Callers of a server that does not own the database notice neither that, nor a change of the
//! owner.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use cloakwork_client::{Client, ConnectOptions, Digest, JobRequest, RetryPolicy, Token, proto::JobState};
use cloakwork_proto::v1::WriteRequest;
use cloakwork_tests_service::{Server, Signal, Tenant, VALUES, Worker, eventually};
use tokio_stream::StreamExt as _;

use crate::shared::{Shared, all_decrypt, begin_upload, name_of, submit};

/// Three servers and a worker. The first server owns the database.
struct Cluster {
    shared: Shared,
    servers: [Server; 3],
    worker: Worker,
    token: String,
}

impl Cluster {
    /// Returns `None` if PostgreSQL is not installed.
    async fn start() -> Option<Self> {
        let shared = Shared::new().await?;
        let setup = || shared.setup().without_worker();
        let first = Server::start(setup()).await;
        let second = shared.beside_with(&first, setup()).await;
        let third = shared.beside_with(&first, setup()).await;
        let token = first.token("acme", "jobs,keys,read");
        let worker_token = first.token("workers", "worker");
        // The first of them is not the owner, and sends the worker to the owner.
        let others = format!("{},{}", third.url(), second.url());
        let worker = Worker::start_with(&third, "worker", &worker_token, &["--server", &others]);
        Some(Self { shared, servers: [first, second, third], worker, token })
    }

    async fn impatient(&self, server: usize) -> Client {
        impatient(&self.servers[server], &self.token).await
    }

    async fn owns(&self, server: usize) -> bool {
        self.servers[server].metric("cloakwork_owner").await == 1.0
    }

    /// The first of these servers that owns the database.
    async fn owner_among(&self, servers: &[usize]) -> usize {
        loop {
            for &server in servers {
                if self.owns(server).await {
                    return server;
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A client that never repeats a call.
async fn impatient(server: &Server, token: &str) -> Client {
    let mut options = ConnectOptions::new(server.url());
    options.token = Some(Token::new(token).expect("a token"));
    options.retry = RetryPolicy::NEVER;
    Client::connect(&options).await.expect("the server answers")
}

/// Jobs that a caller runs one after the other until it is asked to stop.
struct Load {
    stop: Arc<AtomicBool>,
    running: tokio::task::JoinHandle<(u64, Duration)>,
}

impl Load {
    /// Each job must succeed at the first call, with the right result.
    fn start(tenant: Arc<Tenant>) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let running = tokio::spawn(async move {
            let (mut jobs, mut longest) = (0, Duration::ZERO);
            while !stopped.load(Relaxed) {
                let begun = Instant::now();
                tenant.check_squares(&[jobs % VALUES]).await;
                longest = longest.max(begun.elapsed());
                jobs += 1;
            }
            (jobs, longest)
        });
        Self { stop, running }
    }

    /// The number of jobs, and the longest time of one.
    async fn end(self) -> (u64, Duration) {
        self.stop.store(true, Relaxed);
        self.running.await.expect("no call failed")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_notice_no_failover_and_a_running_job_goes_on() {
    let Some(mut cluster) = Cluster::start().await else { return };
    let tenant = Arc::new(Tenant::new(cluster.impatient(2).await).await);
    let load = Load::start(tenant.clone());
    let mut jobs = submit(&tenant, 0..12).await;
    // A job that the worker computes while its server is killed.
    let long: JobRequest = tenant.squares(&vec![3; 20_000]);
    let name = tenant.client.submit(&long).await.expect("accepted").name;
    eventually("the long job runs", || async {
        tenant.client.job(&name).await.expect("the job").state() == JobState::Running
    })
    .await;
    cluster.servers[0].kill();
    let begun = Instant::now();
    jobs.extend(submit(&tenant, 12..24).await);
    let took = begun.elapsed();
    let owner = cluster.owner_among(&[1, 2]).await;
    // Calls at the other server, which knows nothing of the jobs.
    let (jobs_run, longest) = load.end().await;
    let other = 3 - owner;
    let patient = cluster.servers[other].client_with(&cluster.token).await;
    let mut tenant = Arc::into_inner(tenant).expect("the load has ended");
    tenant.continue_with(patient).await;
    all_decrypt(&tenant, &jobs).await;
    let ended = tenant.client.wait(&name).await.expect("the long job ends");
    assert_eq!((ended.state(), ended.attempts), (JobState::Succeeded, 1), "{ended:?}");
    eprintln!("12 submissions took {took:?} from the kill on; {jobs_run} jobs beside, the longest {longest:?}");
    let counted = cluster.shared.postgres.sql(name_of(&cluster.shared.url), "SELECT count(*) FROM jobs");
    assert_eq!(counted, (jobs_run + jobs.len() as u64 + 1).to_string(), "each request has one job");
    assert!(cluster.worker.process().is_running());
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_notice_no_rolling_restart() {
    let Some(mut cluster) = Cluster::start().await else { return };
    let load = Load::start(Arc::new(Tenant::new(cluster.impatient(2).await).await));
    let mut gaps = Vec::new();
    // The caller's own server stays: the restart of a server ends its connections.
    for _ in 0..2 {
        let owner = cluster.owner_among(&[0, 1, 2]).await;
        if owner == 2 {
            break;
        }
        let begun = Instant::now();
        cluster.servers[owner].process().signal(Signal::Terminate);
        let next = cluster.owner_among(&[1 - owner, 2]).await;
        gaps.push(begun.elapsed());
        assert_ne!(next, owner);
        assert!(cluster.servers[owner].process().ends_well(Duration::from_secs(60)));
        cluster.servers[owner].launch();
        let server = &cluster.servers[owner];
        eventually("the server is back", || async { server.probe("/readyz").await == Some(200) }).await;
    }
    let (jobs, longest) = load.end().await;
    eprintln!("{jobs} jobs during the restarts, the longest {longest:?}; a next owner after {gaps:?}");
    assert!(jobs > 0 && !gaps.is_empty());
}

/// The client of the upload sends nothing more. The owner would otherwise wait for its whole grace
/// period, and calls at the other server would wait for the next owner in vain.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_owner_does_not_wait_for_an_upload() {
    let Some(shared) = Shared::new().await else { return };
    let setup = || shared.setup().without_worker().with("limits.drain_ms", 60_000);
    let mut first = Server::start(setup()).await;
    let second = shared.beside_with(&first, setup()).await;
    let token = first.token("acme", "jobs,keys,read");
    let tenant = Tenant::new(second.client_with(&token).await).await;
    let bytes = tenant.keys.encrypt(&[2; 2000], VALUES as u32 - 1).expect("values").envelope;
    let (mut blobs, upload) = begin_upload(&first, token.clone(), &bytes).await;
    let received = first.metric("cloakwork_upload_bytes_total").await;
    let piece = WriteRequest { upload, offset_bytes: 0, data: bytes.slice(..5000), finish: false };
    let stream = tokio_stream::iter([piece]).chain(tokio_stream::pending());
    let writing = tokio::spawn(async move { blobs.write(stream).await });
    eventually("the first bytes are here", || async {
        first.metric("cloakwork_upload_bytes_total").await >= received + 5000.0
    })
    .await;
    let impatient = impatient(&second, &token).await;
    let begun = Instant::now();
    first.process().signal(Signal::Terminate);
    while begun.elapsed() < Duration::from_secs(8) {
        let missing = impatient.find_missing(&[Digest::of(&bytes)]).await;
        assert_eq!(missing.expect("calls go on").len(), 1);
    }
    assert_eq!(second.metric("cloakwork_owner").await, 1.0);
    writing.await.expect("no panic").expect_err("the upload has ended");
    assert!(first.process().ends_well(Duration::from_secs(30)), "{}", first.log());
}
