//! Servers that share one PostgreSQL database: the latency that they add to a single bootstrap, and
//! the number of short jobs that three of them handle.

use std::time::{Duration, Instant};

use cloakwork_client::{Client, JobRequest};
use cloakwork_tests_bucket::Bucket;
use cloakwork_tests_postgres::Postgres;
use cloakwork_tests_service::{Server, Setup, TOY, Tenant, VALUES, Worker, eventually};
use tokio::{runtime::Runtime, task::JoinSet};

use crate::{
    Effort, SET, batches,
    core::Core,
    report::{Bound, Report, Row, percentile},
    single::millis,
};

/// Number of callers of short jobs, divided among the servers.
const CALLERS: usize = 192;

/// Servers on one database and one bucket. The first owns the database.
pub(crate) struct Replicas {
    postgres: Postgres,
    pub(crate) servers: Vec<Server>,
    _bucket: Bucket,
    _directory: tempfile::TempDir,
}

impl Replicas {
    /// Starts servers without workers. Commits wait for the disk.
    pub(crate) async fn start(count: usize) -> Self {
        let postgres = Postgres::start(&["fsync=on", "full_page_writes=on"]).expect("PostgreSQL is installed");
        let directory = tempfile::tempdir().expect("a directory");
        let bucket = Bucket::start(directory.path()).await;
        let url = postgres.database();
        let mut servers: Vec<Server> = Vec::new();
        for _ in 0..count {
            let setup = Setup::of_benchmark().without_worker().with("allow_weak_sets", true);
            let setup = setup.with("listen.trusted_proxies", "127.0.0.1").with("auth.anonymous", false);
            let setup = setup.with("limits.watchers", 50_000).with("limits.tenant_watchers", 50_000);
            let mut server = Server::prepare(setup.with("database.url", &url).with_bucket(&bucket));
            if let Some(first) = servers.first() {
                server.join_installation(first);
            }
            server.restart().await;
            servers.push(server);
        }
        Self { postgres, servers, _bucket: bucket, _directory: directory }
    }

    pub(crate) fn owner(&self) -> &Server {
        &self.servers[0]
    }

    /// Starts a worker of the owner.
    async fn worker(&self, threads: usize) -> Worker {
        let token = self.owner().token("workers", "worker");
        let worker = Worker::start_with(self.owner(), "worker", &token, &["--threads", &threads.to_string()]);
        eventually("the worker is attached", || async { self.owner().metric("cloakwork_workers").await == 1.0 }).await;
        worker
    }
}

/// Measures the latency that a service adds to a single bootstrap: with its database in a file, on
/// PostgreSQL, and for calls that another server passes on.
pub(crate) fn singles(runtime: &Runtime, effort: Effort, report: &mut Report) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let file = runtime.block_on(Server::start(Setup::of_benchmark()));
    let replicas = runtime.block_on(Replicas::start(2));
    let _worker = runtime.block_on(replicas.worker(threads));
    let token = replicas.owner().token("acme", "jobs,keys,read");
    let (embedded, direct) = runtime.block_on(async {
        let embedded = Tenant::of_set(file.client().await, SET).await;
        let direct = Tenant::of_set(replicas.owner().client_with(&token).await, SET).await;
        (embedded, direct)
    });
    let passed_on = runtime.block_on(async { direct.share_key(replicas.servers[1].client_with(&token).await).await });
    let mut core = Core::new(&direct.keys);
    let shapes = [
        ("database in a file", &embedded, embedded.client.clone(), 1.3),
        ("on PostgreSQL", &direct, direct.client.clone(), 2.0),
        ("on PostgreSQL, passed on by another server", &direct, passed_on, 3.0),
    ];
    let mut alone = Vec::new();
    let mut added: [Vec<f64>; 3] = Default::default();
    for _ in 0..effort.rounds {
        let mut bare = Vec::new();
        let mut served: [Vec<f64>; 3] = Default::default();
        for _ in 0..effort.singles {
            bare.push(millis(core.single()));
            for ((_, tenant, client, _), times) in shapes.iter().zip(&mut served) {
                times.push(single(runtime, tenant, client));
            }
        }
        let core_millis = percentile(&mut bare, 0.5);
        alone.push(core_millis);
        for (added, mut times) in added.iter_mut().zip(served) {
            added.push(percentile(&mut times, 0.5) - core_millis);
        }
    }
    report.add(Row::of("single bootstrap, the core alone, p50", "ms", &alone));
    for ((name, _, _, most), added) in shapes.iter().zip(&added) {
        report.add(Row::of(&format!("    added, {name}"), "ms", added).required(Bound::Most(*most)));
    }
}

/// Runs one bootstrap, and returns its milliseconds.
fn single(runtime: &Runtime, tenant: &Tenant, client: &Client) -> f64 {
    let list = tenant.keys.encrypt(&[3], VALUES as u32 - 1).expect("a value of a block");
    let request = JobRequest::new(tenant.lookup(|x| x * x % VALUES), &tenant.key).encrypted(list);
    let client = client.clone();
    let finished = runtime.block_on(runtime.spawn(async move { client.run(&request).await }));
    let finished = finished.expect("no panic").expect("the job succeeds");
    assert_eq!(runtime.block_on(tenant.values(&finished)).expect("an output"), [9]);
    millis(finished.wall)
}

/// Measures short jobs at three servers. Two of the servers pass their calls on.
pub(crate) fn jobs(runtime: &Runtime, effort: Effort, report: &mut Report) {
    let replicas = runtime.block_on(Replicas::start(3));
    let _worker = runtime.block_on(replicas.worker(1));
    let token = replicas.owner().token("acme", "jobs,keys,read");
    let tenant = runtime.block_on(async { Tenant::of_set(replicas.owner().client_with(&token).await, TOY).await });
    runtime.block_on(tenant.check_squares(&[1, 2, 3]));
    let clients = runtime.block_on(async {
        let mut clients = Vec::with_capacity(CALLERS);
        for caller in 0..CALLERS {
            let server = &replicas.servers[caller % replicas.servers.len()];
            clients.push(tenant.share_key(server.client_with(&token).await).await);
        }
        clients
    });
    let (program, list) = (tenant.lookup(|x| x * x % VALUES), tenant.keys.encrypt(&[3], VALUES as u32 - 1));
    // Each job has a request id of its own.
    let list = list.expect("a value of a block");
    let key = tenant.key;
    let request = move || JobRequest::new(program.clone(), &key).encrypted(list.clone());
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let before = batches::time_of(&replicas.postgres);
        let begun = Instant::now();
        let done = runtime.block_on(run_for(effort.slice, clients.clone(), request.clone()));
        rates.push(done as f64 / begun.elapsed().as_secs_f64());
        costs.push((batches::time_of(&replicas.postgres) - before).as_secs_f64() * 1e6 / done as f64);
    }
    let name = format!("{CALLERS} callers at 3 servers on PostgreSQL, short jobs");
    report.add(Row::of(&name, "jobs/s", &rates).required(Bound::Least(2000.0)));
    report.add(Row::of("    processor time of PostgreSQL for a job", "us", &costs));
}

/// Runs jobs at each client until the time is over. Returns the number of jobs.
pub(crate) async fn run_for(
    time: Duration,
    clients: Vec<Client>,
    request: impl Fn() -> JobRequest + Clone + Send + 'static,
) -> u64 {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for client in clients {
        let request = request.clone();
        tasks.spawn(async move {
            let mut done = 0;
            while begun.elapsed() < time {
                // The client verifies the signature of each result.
                client.run(&request()).await.expect("the job succeeds");
                done += 1;
            }
            done
        });
    }
    tasks.join_all().await.into_iter().sum()
}
