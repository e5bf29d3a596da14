//! A server process in a directory of its own.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use cloakwork_client::{Client, ConnectOptions, Token};
use cloakwork_tests_bucket::Bucket;
use tempfile::TempDir;

use crate::{Process, binary, eventually, watchdog::Watchdog};

/// A set with bootstraps that take next to no time. The set protects nothing.
pub const TOY: &str = "TOY_MESSAGE_2_CARRY_2";

/// Name of the file that takes a server's log.
const LOG: &str = "server.log";

/// Configuration of a server.
#[derive(Clone, Debug)]
pub struct Setup {
    embedded_worker: bool,
    settings: Vec<(String, String)>,
    variables: Vec<(String, String)>,
    within: Vec<String>,
    program: Option<PathBuf>,
    has_time_limit: bool,
}

/// Variable with which the server under test records no metrics. Only the program of the tests
/// reads the variable.
pub const MUTED: &str = "CLOAKWORK_TEST_MUTED";

/// A server that tests can kill and start again on the same data and ports.
pub struct Server {
    setup: Setup,
    directory: TempDir,
    port: u16,
    admin_port: u16,
    process: Option<Process>,
    _watchdog: Option<Watchdog>,
}

impl Default for Setup {
    fn default() -> Self {
        let settings = [
            // Times are short, so that tests see what happens after a timeout.
            ("limits.lease_ms", "3000"),
            ("limits.report_ms", "200"),
            ("limits.drain_ms", "5000"),
            ("allow_weak_sets", "true"),
            ("worker.threads", "2"),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            embedded_worker: true,
            settings: settings.into(),
            variables: Vec::new(),
            within: Vec::new(),
            program: None,
            has_time_limit: true,
        }
    }
}

impl Setup {
    /// The configuration of an operator who sets nothing.
    #[must_use]
    pub fn as_shipped() -> Self {
        Self { settings: Vec::new(), ..Self::default() }
    }

    /// The configuration of an operator who sets nothing, without the time limit of tests:
    /// benchmarks may run longer.
    #[must_use]
    pub fn of_benchmark() -> Self {
        Self { has_time_limit: false, ..Self::as_shipped() }
    }

    /// Removes the worker inside the server.
    #[must_use]
    pub fn without_worker(mut self) -> Self {
        self.embedded_worker = false;
        self
    }

    /// Starts the server through another program. The server's command line follows that program's
    /// arguments.
    #[must_use]
    pub fn within(mut self, command: &[String]) -> Self {
        self.within = command.to_vec();
        self
    }

    /// Sets a variable of the environment that is no setting.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Keeps blobs in a bucket, with credentials from the environment.
    #[must_use]
    pub fn with_bucket(self, bucket: &Bucket) -> Self {
        self.with("storage.blobs", "s3")
            .with("storage.s3_endpoint", &bucket.endpoint)
            .with("storage.s3_bucket", Bucket::NAME)
            .with_variable("AWS_ACCESS_KEY_ID", Bucket::ACCESS_KEY_ID)
            .with_variable("AWS_SECRET_ACCESS_KEY", Bucket::SECRET_ACCESS_KEY)
    }

    /// Sets a setting of the configuration, `section.name`.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.settings.retain(|(known, _)| known != name);
        self.settings.push((name.to_owned(), value.to_string()));
        self
    }
}

impl Server {
    /// Starts a server and waits until it is ready.
    pub async fn start(setup: Setup) -> Self {
        Self::start_in(tempfile::tempdir().expect("a directory"), setup).await
    }

    /// Starts a server in the given directory and waits until it is ready.
    pub async fn start_in(directory: TempDir, setup: Setup) -> Self {
        let mut server = Self::prepare_in(directory, setup);
        server.restart().await;
        server
    }

    /// A server that is not started yet.
    pub fn prepare(setup: Setup) -> Self {
        Self::prepare_in(tempfile::tempdir().expect("a directory"), setup)
    }

    fn prepare_in(directory: TempDir, setup: Setup) -> Self {
        let (port, admin_port) = (free_port(), free_port());
        let watchdog = setup.has_time_limit.then(|| Watchdog::start(directory.path().join(LOG)));
        Self { setup, directory, port, admin_port, process: None, _watchdog: watchdog }
    }

    /// Gives this server the key of another server's installation.
    pub fn join_installation(&self, of: &Self) {
        let [from, to] = [of, self].map(|server| server.directory().join("data"));
        std::fs::create_dir_all(&to).expect("a directory");
        let copied = Command::new("cp").arg("-a").arg(from.join("installation")).arg(to).status();
        assert!(copied.expect("cp runs").success());
    }

    /// Starts the server, again if it has run before, and waits until it is ready.
    pub async fn restart(&mut self) {
        self.launch();
        let admin = self.admin_port;
        let process = self.process();
        eventually("the server is ready", || {
            // A server that has ended never becomes ready. Its log says why it ended.
            assert!(process.is_running(), "the server ended at its start:\n{}", process.log());
            async move { http_get(admin, "/readyz", "*/*").await.is_some_and(|(code, _)| code == 200) }
        })
        .await;
    }

    /// Changes a setting for the next start.
    pub fn set(&mut self, name: &str, value: impl ToString) {
        self.setup = self.setup.clone().with(name, value);
    }

    /// Sets a variable of the environment for the next start.
    pub fn set_variable(&mut self, name: &str, value: &str) {
        self.setup = self.setup.clone().with_variable(name, value);
    }

    /// Uses the program of another version from the next start on, or that of this version.
    pub fn set_program(&mut self, path: Option<&Path>) {
        self.setup.program = path.map(Path::to_owned);
    }

    /// Starts the server without waiting.
    pub fn launch(&mut self) {
        self.process = None;
        let mut command = self.command();
        command.arg("serve");
        self.process = Some(Process::start(command, &self.log_path()));
    }

    /// The server's program with this server's configuration. The caller adds a subcommand.
    pub fn command(&self) -> Command {
        let program = self.setup.program.clone().unwrap_or_else(|| binary("tested-server"));
        let mut command = match self.setup.within.split_first() {
            None => Command::new(program),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        let embedded = self.setup.embedded_worker.to_string();
        let own = [
            ("listen.address", format!("127.0.0.1:{}", self.port)),
            ("listen.admin_address", format!("127.0.0.1:{}", self.admin_port)),
            ("storage.directory", self.directory.path().join("data").display().to_string()),
            ("worker.embedded", embedded),
        ];
        for (name, value) in
            self.setup.settings.iter().cloned().chain(own.map(|(name, value)| (name.to_owned(), value)))
        {
            command.env(format!("CLOAKWORK_{}", name.replace('.', "__").to_uppercase()), value);
        }
        command.envs(self.setup.variables.iter().cloned());
        command
    }

    /// The running process. Panics if the server was not started.
    pub fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("the server was started")
    }

    /// Kills the server at once.
    pub fn kill(&mut self) {
        self.process().kill();
    }

    /// Asks the server to end, and waits for its end.
    pub fn stop(&mut self) {
        let ended_well = self.process().terminate(Duration::from_secs(30));
        assert!(ended_well, "the server did not end well:\n{}", self.log());
    }

    /// URL of the gRPC port.
    pub fn url(&self) -> String {
        let tls = self.setup.settings.iter().any(|(name, _)| name == "listen.tls_certificate");
        format!("{}://127.0.0.1:{}", if tls { "https" } else { "http" }, self.port)
    }

    /// Address of the gRPC port.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Connects a client of the tenant `local`.
    pub async fn client(&self) -> Client {
        Client::connect(&ConnectOptions::new(self.url())).await.expect("the server answers")
    }

    /// Connects a client with a token.
    pub async fn client_with(&self, token: &str) -> Client {
        let options = ConnectOptions::new(self.url()).token(Token::new(token).expect("a token"));
        Client::connect(&options).await.expect("the server answers")
    }

    /// Creates a token for a tenant, and the tenant if it is missing.
    pub fn token(&self, tenant: &str, scopes: &str) -> String {
        let _ = self.command().args(["tenant", "create", tenant]).output().expect("the command runs");
        let arguments = ["token", "create", "--tenant", tenant, "--scopes", scopes, "--note", "test"];
        let output = self.command().args(arguments).output().expect("the command runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let printed = String::from_utf8(output.stdout).expect("text");
        printed.split_whitespace().find(|word| word.starts_with("cw_")).expect("a token was printed").to_owned()
    }

    /// Scrapes the server's metrics.
    pub async fn metrics(&self) -> String {
        self.metrics_as("text/plain").await
    }

    /// Scrapes the server's metrics in a format that the `Accept` header names.
    pub async fn metrics_as(&self, accept: &str) -> String {
        http_get(self.admin_port, "/metrics", accept).await.expect("the admin port answers").1
    }

    /// The sum of a metric over all its series.
    pub async fn metric(&self, name: &str) -> f64 {
        let scrape = self.metrics().await;
        let series = scrape.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Status code of the server's answer to a probe.
    pub async fn probe(&self, path: &str) -> Option<u16> {
        http_get(self.admin_port, path, "*/*").await.map(|(code, _)| code)
    }

    /// Directory of the server's files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Output of the server so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join(LOG)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(60).collect();
            eprintln!("--- the server's log ends:");
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// A port that was free a moment ago, and that this function has not returned before. The port is
/// none of those that the system gives to outgoing connections. One of these would otherwise have
/// the port when a test starts its server again.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Tests of other processes begin elsewhere.
    let first = std::process::id().wrapping_mul(64);
    loop {
        let number = first.wrapping_add(NEXT.fetch_add(1, Relaxed)) % u32::from(PORTS.end - PORTS.start);
        let port = PORTS.start + u16::try_from(number).expect("a port");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Ports below those of outgoing connections, which begin at 32768.
const PORTS: std::ops::Range<u16> = 11_000..32_000;

/// Sends a GET request. Returns status and body, or `None` without an answer.
async fn http_get(port: u16, path: &str, accept: &str) -> Option<(u16, String)> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let code = head.split(' ').nth(1)?.parse().ok()?;
    Some((code, body.to_owned()))
}
