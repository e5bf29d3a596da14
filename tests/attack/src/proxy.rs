//! nginx and Envoy, with the configurations of `deploy/proxy`.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use cloakwork_client::{Client, ClientError, ConnectOptions, RetryPolicy, Token};
use cloakwork_tests_service::{Process, Server, dev_certificates, eventually, free_port};
use tempfile::TempDir;
use tokio::net::TcpStream;

/// The version that `proxies.sh` installs.
const ENVOY: &str = "envoy-1.40.0";

/// Timeout for the end of a proxy.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// The kind of a proxy.
#[derive(Clone, Copy, Debug)]
pub enum ProxyKind {
    /// nginx, with a connection to the server for each running call.
    Nginx,
    /// Envoy, with a few connections to the server that all callers share.
    Envoy,
}

/// A running proxy that takes callers over TLS, for a server on the same machine.
pub struct Proxy {
    port: u16,
    directory: TempDir,
    process: Process,
}

impl Proxy {
    /// Starts a proxy. Returns `None` where the proxy is not installed, which is an error in CI.
    pub async fn start(kind: ProxyKind, server: &Server) -> Option<Self> {
        let Some(program) = kind.program() else {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{kind:?} is missing: tests/attack/proxies.sh");
            eprintln!("*** SKIPPED: {kind:?} is missing: run tests/attack/proxies.sh ***");
            return None;
        };
        let directory = dev_certificates();
        let port = free_port();
        let configuration = directory.path().join(kind.file());
        fs::write(&configuration, kind.configuration(directory.path(), port, server.address().port())).expect("a file");
        let command = kind.command(&program, directory.path(), &configuration);
        let mut process = Process::start(command, &directory.path().join("proxy.log"));
        eventually("the proxy listens", || {
            assert!(process.is_running(), "{kind:?} ended at its start:\n{}", process.log());
            async move { TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok() }
        })
        .await;
        Some(Self { port, directory, process })
    }

    /// Address that callers connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The certificate of the authority that callers trust.
    #[must_use]
    pub fn authority_pem(&self) -> Vec<u8> {
        fs::read(self.directory.path().join("ca.pem")).expect("a certificate")
    }

    /// Connects a client to the proxy. The client never retries a call.
    pub async fn client(&self, token: Option<&str>) -> Result<Client, ClientError> {
        let options = ConnectOptions {
            token: token.map(|token| Token::new(token).expect("a token")),
            ca_pem: Some(self.authority_pem()),
            retry: RetryPolicy::NEVER,
            ..ConnectOptions::new(format!("https://localhost:{}", self.port))
        };
        Client::connect(&options).await
    }

    /// Output of the proxy so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }
}

impl Drop for Proxy {
    /// Asks the proxy to end. A signal that kills nginx's master process would leave its workers
    /// running.
    fn drop(&mut self) {
        if self.process.is_running() {
            self.process.terminate(END_TIMEOUT);
        }
    }
}

impl ProxyKind {
    fn program(self) -> Option<PathBuf> {
        let cache = std::env::var_os("CLOAKWORK_CACHE").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/cloakwork")));
        let programs = match self {
            Self::Nginx => vec!["/usr/sbin/nginx".into(), "/usr/bin/nginx".into()],
            Self::Envoy => cache.map(|cache| cache.join("proxies").join(ENVOY)).into_iter().collect::<Vec<_>>(),
        };
        programs.into_iter().find(|program| program.exists())
    }

    fn file(self) -> &'static str {
        match self {
            Self::Nginx => "nginx.conf",
            Self::Envoy => "envoy.yaml",
        }
    }

    /// Returns the configuration that operators get, with the test's ports and paths.
    fn configuration(self, directory: &Path, port: u16, server_port: u16) -> String {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/proxy").join(self.file());
        let mut text = fs::read_to_string(shipped).expect("a configuration");
        let path = |name: &str| directory.join(name).display().to_string();
        let (port, server_port) = (port.to_string(), server_port.to_string());
        let mut replace = |from: &str, to: &str| {
            assert_eq!(text.matches(from).count(), 1, "{} has no single {from:?}", self.file());
            text = text.replace(from, to);
        };
        replace("/etc/cloakwork/server.pem", &path("server.pem"));
        replace("/etc/cloakwork/server.key", &path("server.key"));
        match self {
            Self::Nginx => {
                replace("listen 443 ", &format!("listen 127.0.0.1:{port} "));
                replace("server 127.0.0.1:7270;", &format!("server 127.0.0.1:{server_port};"));
                // nginx's default places for temporary files belong to the system's nginx.
                let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                    .map(|kind| format!("{kind}_temp_path {kind};"));
                replace("access_log off;", &format!("access_log off; {}", temporary.join(" ")));
            }
            Self::Envoy => {
                replace("address: 0.0.0.0, port_value: 443", &format!("address: 127.0.0.1, port_value: {port}"));
                replace("port_value: 7270", &format!("port_value: {server_port}"));
            }
        }
        text
    }

    fn command(self, program: &Path, directory: &Path, configuration: &Path) -> Command {
        let mut command = Command::new(program);
        match self {
            Self::Nginx => {
                command.arg("-p").arg(directory).arg("-c").arg(configuration).args(["-e", "stderr"]);
                command.args(["-g", "daemon off; pid nginx.pid;"]);
            }
            Self::Envoy => {
                command.arg("-c").arg(configuration).args(["--disable-hot-restart", "--concurrency", "1"]);
                command.args(["--log-level", "warn"]);
            }
        }
        command
    }
}
