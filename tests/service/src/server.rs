//! A server process in a directory of its own.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    time::Duration,
};

use cloakwork_client::{Client, ConnectOptions, Token};
use tempfile::TempDir;

use crate::{Process, binary, eventually, watchdog::Watchdog};

/// A set whose bootstraps take no time. It protects nothing.
pub const TOY: &str = "TOY_MESSAGE_2_CARRY_2";

/// The name of the file that takes a server's log.
const LOG: &str = "server.log";

/// How to run a server.
#[derive(Clone, Debug)]
pub struct Setup {
    embedded_worker: bool,
    settings: Vec<(String, String)>,
    within: Vec<String>,
}

/// A server that can be killed and started again on the same data and ports.
pub struct Server {
    setup: Setup,
    directory: TempDir,
    port: u16,
    admin_port: u16,
    process: Option<Process>,
    _watchdog: Watchdog,
}

impl Default for Setup {
    fn default() -> Self {
        let settings = [
            // Short enough for tests to see what happens when time is up.
            ("limits.lease_ms", "3000"),
            ("limits.report_ms", "200"),
            ("limits.drain_ms", "5000"),
            ("allow_weak_sets", "true"),
            ("worker.threads", "2"),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self { embedded_worker: true, settings: settings.into(), within: Vec::new() }
    }
}

impl Setup {
    /// What an operator gets who sets nothing.
    #[must_use]
    pub fn as_shipped() -> Self {
        Self { embedded_worker: true, settings: Vec::new(), within: Vec::new() }
    }

    /// Without the worker inside the server.
    #[must_use]
    pub fn without_worker(mut self) -> Self {
        self.embedded_worker = false;
        self
    }

    /// Started by another program, which gets the server's command line behind its own.
    #[must_use]
    pub fn within(mut self, command: &[String]) -> Self {
        self.within = command.to_vec();
        self
    }

    /// With a setting of the configuration, `section.name`.
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

    /// The same in a given directory.
    pub async fn start_in(directory: TempDir, setup: Setup) -> Self {
        let (port, admin_port) = (free_port(), free_port());
        let watchdog = Watchdog::start(directory.path().join(LOG));
        let mut server = Self { setup, directory, port, admin_port, process: None, _watchdog: watchdog };
        server.restart().await;
        server
    }

    /// Starts it, again if need be, and waits until it is ready.
    pub async fn restart(&mut self) {
        self.launch();
        let admin = self.admin_port;
        let process = self.process();
        eventually("the server is ready", || {
            // It says why in its log, and nobody need wait for it.
            assert!(process.is_running(), "the server ended at its start:\n{}", process.log());
            async move { http_get(admin, "/readyz").await.is_some_and(|(code, _)| code == 200) }
        })
        .await;
    }

    /// Starts it without waiting.
    pub fn launch(&mut self) {
        self.process = None;
        let mut command = self.command();
        command.arg("serve");
        self.process = Some(Process::start(command, &self.log_path()));
    }

    /// The server's program with this server's configuration, to be given a subcommand.
    pub fn command(&self) -> Command {
        let program = binary("tested-server");
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
        command
    }

    /// The running process.
    pub fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("the server was started")
    }

    /// Kills it at once.
    pub fn kill(&mut self) {
        self.process().kill();
    }

    /// Asks it to end and waits for that.
    pub fn stop(&mut self) {
        let ended_well = self.process().terminate(Duration::from_secs(30));
        assert!(ended_well, "the server did not end well:\n{}", self.log());
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        let tls = self.setup.settings.iter().any(|(name, _)| name == "listen.tls_certificate");
        format!("{}://127.0.0.1:{}", if tls { "https" } else { "http" }, self.port)
    }

    /// The address of the gRPC port.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// A client of the tenant `local`.
    pub async fn client(&self) -> Client {
        Client::connect(&ConnectOptions::new(self.url())).await.expect("the server answers")
    }

    /// A client with a token.
    pub async fn client_with(&self, token: &str) -> Client {
        let options = ConnectOptions::new(self.url()).token(Token::new(token).expect("a token"));
        Client::connect(&options).await.expect("the server answers")
    }

    /// Makes a tenant, if there is none of that name, and a token for it.
    pub fn token(&self, tenant: &str, scopes: &str) -> String {
        let _ = self.command().args(["tenant", "create", tenant]).output().expect("the command runs");
        let arguments = ["token", "create", "--tenant", tenant, "--scopes", scopes, "--note", "test"];
        let output = self.command().args(arguments).output().expect("the command runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let printed = String::from_utf8(output.stdout).expect("text");
        printed.split_whitespace().find(|word| word.starts_with("cw_")).expect("a token was printed").to_owned()
    }

    /// What a scrape of its metrics shows.
    pub async fn metrics(&self) -> String {
        http_get(self.admin_port, "/metrics").await.expect("the admin port answers").1
    }

    /// The value of a metric: of all its series together.
    pub async fn metric(&self, name: &str) -> f64 {
        let scrape = self.metrics().await;
        let series = scrape.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Its answer to a probe.
    pub async fn probe(&self, path: &str) -> Option<u16> {
        http_get(self.admin_port, path).await.map(|(code, _)| code)
    }

    /// Its files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// What it has printed.
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

/// A port that nobody listened on a moment ago, and that this function has not returned before. Until the caller listens
/// on the port, another process may take it.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let socket = TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr()).expect("a free port");
        if GIVEN.lock().expect("no test panics here").insert(socket.port()) {
            return socket.port();
        }
    }
}

/// Status and body; nothing if nobody answers.
async fn http_get(port: u16, path: &str) -> Option<(u16, String)> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let code = head.split(' ').nth(1)?.parse().ok()?;
    Some((code, body.to_owned()))
}
