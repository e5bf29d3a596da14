//! Servers, workers, a database with a standby and a bucket, with wires between them.

use std::time::Duration;

use cloakwork_client::{Client, ConnectOptions, RetryPolicy, Token};
use cloakwork_tests_bucket::Bucket;
use cloakwork_tests_postgres::Postgres;
use cloakwork_tests_service::{Server, Setup, Worker, eventually};

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
    workers: Vec<Worker>,
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
}

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
        let mut members: Vec<Member> = Vec::new();
        for _ in 0..size.servers {
            let (inward, to_database) = (Wire::to(&[]).await, Wire::to(&[postgres.port()]).await);
            let setup = setup(&database, &bucket, &inward, &to_database);
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
        let urls: Vec<String> = members.iter().map(|member| url_of(&member.inward)).collect();
        let worker = |number: usize| {
            Worker::start_with(first, &format!("worker-{number}"), &worker_token, &["--server", &urls.join(",")])
        };
        let workers = (0..size.workers).map(worker).collect();
        let (_bucket, _directory) = (bucket, directory);
        Some(Self {
            postgres,
            standby,
            members,
            balancer,
            workers,
            token,
            retry: size.retry,
            database,
            _bucket,
            _directory,
        })
    }

    /// A client of the balancer, as an application has it.
    pub async fn client(&self) -> Client {
        let mut options = ConnectOptions::new(url_of(&self.balancer));
        options.token = Some(Token::new(&self.token).expect("a token"));
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

    /// Runs SQL on the database.
    pub fn sql(&self, sql: &str) -> String {
        self.postgres.sql(&self.database, sql)
    }

    /// Whether all workers run.
    pub fn workers_run(&mut self) -> bool {
        self.workers.iter_mut().all(|worker| worker.process().is_running())
    }
}

fn setup(database: &str, bucket: &Bucket, inward: &Wire, to_database: &Wire) -> Setup {
    Setup::default()
        .without_worker()
        .with("database.url", format!("postgres://postgres@127.0.0.1:{}/{database}", to_database.port()))
        .with("replica.url", url_of(inward))
        .with("listen.trusted_proxies", "127.0.0.1")
        .with("auth.anonymous", "false")
        .with_bucket(bucket)
}

fn url_of(wire: &Wire) -> String {
    format!("http://127.0.0.1:{}", wire.port())
}
