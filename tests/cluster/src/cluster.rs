//! Servers, workers, a database with a standby and a bucket, with wires between them.

use std::time::Duration;

use cloakwork_client::{Client, ConnectOptions, RetryPolicy, Token};
use cloakwork_tests_bucket::Bucket;
use cloakwork_tests_postgres::Postgres;
use cloakwork_tests_service::{Server, Setup, Signal, Worker, eventually};

use crate::wire::Wire;

/// A database server with its standby, servers of one installation, and workers.
pub struct Cluster {
    /// The database server.
    pub postgres: Postgres,
    /// Has every commit of the database server.
    pub standby: Postgres,
    /// The servers.
    pub members: Vec<Member>,
    /// Leads the callers to a server that takes connections.
    pub balancer: Wire,
    /// Leads the servers to the store of blobs.
    pub to_bucket: Wire,
    workers: Vec<Worker>,
    worker_token: String,
    token: String,
    retry: RetryPolicy,
    database: String,
    _bucket: Bucket,
    _directory: tempfile::TempDir,
}

/// A server, and the wires that lead to it and to its database.
pub struct Member {
    /// The server.
    pub server: Server,
    /// Leads the other servers and the workers to this server.
    pub inward: Wire,
    /// Leads this server to its database.
    pub to_database: Wire,
}

/// Size of a cluster, and the patience of its callers.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Number of servers.
    pub servers: usize,
    /// Number of workers.
    pub workers: usize,
    /// Whether commits wait for the disk, as they do for users.
    pub fsync: bool,
    /// How often and how long callers repeat a call.
    pub retry: RetryPolicy,
    /// Number of jobs that no worker takes, and that wait when the fault strikes.
    pub live_jobs: u64,
}

/// Number of a parameter set whose jobs the workers do not take.
pub(crate) const UNSERVED_SET: u32 = 0x82;

impl Cluster {
    /// Starts a cluster. Returns `None` if PostgreSQL is not installed.
    pub async fn start(size: Size) -> Option<Self> {
        let settings: &[&str] = if size.fsync { &["fsync=on", "full_page_writes=on"] } else { &[] };
        let postgres = Postgres::start(settings)?;
        let standby = postgres.standby();
        let url = postgres.database();
        let database = url.rsplit('/').next().expect("a name").to_owned();
        let directory = tempfile::tempdir().expect("a directory");
        let bucket = Bucket::start(directory.path()).await;
        let bucket_port = bucket.endpoint.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        let to_bucket = Wire::to(&[bucket_port]).await;
        let mut members: Vec<Member> = Vec::new();
        for _ in 0..size.servers {
            let (inward, to_database) = (Wire::to(&[]).await, Wire::to(&[postgres.port()]).await);
            let setup = setup(&database, &bucket, &to_bucket, &inward, &to_database);
            let mut server = Server::prepare(setup);
            inward.lead_to(&[server.address().port()]);
            if let Some(first) = members.first() {
                server.join_installation(&first.server);
            }
            server.restart().await;
            members.push(Member { server, inward, to_database });
        }
        let ports: Vec<u16> = members.iter().map(|member| member.server.address().port()).collect();
        let balancer = Wire::to(&ports).await;
        let first = &members[0].server;
        let token = first.token("acme", "jobs,keys,read");
        let worker_token = first.token("workers", "worker");
        let workers = (0..size.workers).map(|number| worker(&members, &worker_token, number)).collect();
        let (_bucket, _directory) = (bucket, directory);
        Some(Self {
            postgres,
            standby,
            members,
            balancer,
            to_bucket,
            workers,
            worker_token,
            token,
            retry: size.retry,
            database,
            _bucket,
            _directory,
        })
    }

    /// A client of the balancer, as an application has it.
    pub async fn client(&self) -> Client {
        self.connect(&self.token).await
    }

    /// A client of another tenant, which is created if it is missing.
    pub async fn client_of(&self, tenant: &str) -> Client {
        self.connect(&self.members[0].server.token(tenant, "jobs,keys,read")).await
    }

    /// A client of one server.
    pub async fn client_at(&self, member: usize) -> Client {
        self.connect_to(self.members[member].server.url(), &self.token).await
    }

    async fn connect(&self, token: &str) -> Client {
        self.connect_to(url_of(&self.balancer), token).await
    }

    async fn connect_to(&self, url: String, token: &str) -> Client {
        let mut options = ConnectOptions::new(url);
        options.token = Some(Token::new(token).expect("a token"));
        options.retry = self.retry;
        Client::connect(&options).await.expect("a server answers")
    }

    /// The number of the server that owns the database. Waits until there is one among `members`.
    pub async fn owner_among(&self, members: &[usize]) -> usize {
        loop {
            for &member in members {
                if self.members[member].server.metric("cloakwork_owner").await == 1.0 {
                    return member;
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The number of the server that owns the database.
    pub async fn owner(&self) -> usize {
        self.owner_among(&self.others(usize::MAX)).await
    }

    /// The numbers of the servers that own a shard, in the order of the shards. A shard without an
    /// owner is left out.
    pub fn owners(&self) -> Vec<usize> {
        let urls: Vec<String> = self.members.iter().map(|member| url_of(&member.inward)).collect();
        let list = self.command(&["shards"]);
        let owner = |line: &str| urls.iter().position(|url| line.ends_with(url.as_str()));
        list.lines().filter_map(owner).collect()
    }

    /// The number of servers to which workers are attached.
    pub async fn servers_with_workers(&self) -> usize {
        let mut count = 0;
        for member in &self.members {
            count += usize::from(member.server.metric("cloakwork_workers").await >= 1.0);
        }
        count
    }

    /// Runs a command of the server's program, and returns what it prints.
    pub fn command(&self, args: &[&str]) -> String {
        let output = self.members[0].server.command().args(args).output().expect("the command runs");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// All numbers of servers but this one.
    pub fn others(&self, member: usize) -> Vec<usize> {
        (0..self.members.len()).filter(|number| *number != member).collect()
    }

    /// Sends new connections of callers to these servers alone, and ends the open ones.
    pub fn balance_over(&self, members: &[usize]) {
        let ports: Vec<u16> = members.iter().map(|member| self.members[*member].server.address().port()).collect();
        self.balancer.lead_to(&ports);
    }

    /// Starts a server again that has ended, and waits until it takes calls.
    pub async fn start_again(&mut self, member: usize) {
        self.members[member].server.launch();
        let server = &self.members[member].server;
        eventually("the server is ready", || async { server.probe("/readyz").await == Some(200) }).await;
    }

    /// Adds jobs that the next owner finds in the database, by copies of the latest job.
    pub fn add_live_jobs(&self, count: u64) {
        self.sql(&format!(
            "INSERT INTO jobs (id, tenant, request_id, request_digest, program, state, key_id, parameter_set, row_count,
                pbs_count, priority, inline_outputs, keep_outputs_micros, created_micros, deadline_micros, cost)
             SELECT decode(lpad(to_hex(number), 32, '0'), 'hex'), tenant, decode(lpad(to_hex(number), 32, '0'), 'hex'),
                request_digest, program, 1, key_id, {UNSERVED_SET}, row_count, pbs_count, priority, inline_outputs,
                keep_outputs_micros, created_micros, deadline_micros, 1000
             FROM generate_series(1, {count}) AS number, (SELECT * FROM jobs ORDER BY id DESC LIMIT 1) AS latest"
        ));
    }

    /// Checks that each blob of the database has its bytes, and that each pin has its blob.
    pub fn check_blobs(&self) {
        let compared = self.command(&["reconcile"]);
        assert!(compared.contains(" 0 of them without bytes"), "{compared}");
        let dangling = "SELECT count(*) FROM pins WHERE NOT EXISTS \
                        (SELECT FROM blobs WHERE blobs.tenant = pins.tenant AND blobs.digest = pins.digest)";
        assert_eq!(self.sql(dangling), "0", "pins without blobs");
    }

    /// Runs SQL on the database.
    pub fn sql(&self, sql: &str) -> String {
        self.postgres.sql(&self.database, sql)
    }

    /// Ends a worker, or one with a smaller number.
    pub fn end_worker(&mut self, number: usize, signal: Signal) {
        let number = number % self.workers.len();
        self.workers[number].process().signal(signal);
    }

    /// Starts servers and workers again that have ended, as a supervisor does.
    pub fn revive(&mut self) {
        for Member { server, .. } in &mut self.members {
            if !server.process().is_running() {
                server.launch();
            }
        }
        for number in 0..self.workers.len() {
            if !self.workers[number].process().is_running() {
                self.workers[number] = worker(&self.members, &self.worker_token, number);
            }
        }
    }

    /// Whether all workers run.
    pub fn workers_run(&mut self) -> bool {
        self.workers.iter_mut().all(|worker| worker.process().is_running())
    }
}

/// Starts a worker that knows all servers.
fn worker(members: &[Member], token: &str, number: usize) -> Worker {
    let urls: Vec<String> = members.iter().map(|member| url_of(&member.inward)).collect();
    let options = ["--server", &urls.join(","), "--vector-memory", "0"];
    Worker::start_with(&members[0].server, &format!("worker-{number}"), token, &options)
}

fn setup(database: &str, bucket: &Bucket, to_bucket: &Wire, inward: &Wire, to_database: &Wire) -> Setup {
    Setup::default()
        .without_worker()
        .with("database.url", format!("postgres://postgres@127.0.0.1:{}/{database}", to_database.port()))
        .with("replica.url", url_of(inward))
        .with("listen.trusted_proxies", "127.0.0.1")
        .with("auth.anonymous", "false")
        .with("limits.queued_jobs", 1_000_000)
        .with("limits.tenant_queued_jobs", 1_000_000)
        .with_bucket(bucket)
        .with("storage.s3_endpoint", url_of(to_bucket))
}

fn url_of(wire: &Wire) -> String {
    format!("http://127.0.0.1:{}", wire.port())
}
