//! Connections to a server, and what they need: addresses, a password, and trust.

use std::{
    fmt, fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tokio::task::AbortHandle;
use tokio_postgres::{
    Config, NoTls,
    config::{Host, SslMode},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{Session, error};
use crate::{Error, read_small_file, read_small_file_now};

/// A PostgreSQL database that a URL names.
#[derive(Clone)]
pub struct Server {
    config: Config,
    password_file: Option<PathBuf>,
    /// `None` for connections without encryption.
    tls: Option<Arc<ClientConfig>>,
}

/// Why a URL cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The text is not a URL of a database.
    #[error("it is not a URL such as postgres://user@host:5432/database: {0}")]
    Url(String),
    /// The URL has a password, which would be shown wherever the setting is shown.
    #[error("it must not hold a password: put the password into a file, and name the file")]
    Password,
    /// No certificates are known that the server's certificate could be signed by.
    #[error("certificates: {0}")]
    Certificates(String),
    /// A file cannot be read.
    #[error("{file}: {source}", file = file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl Server {
    /// The database that `url` names. The password is read from `password_file` for each
    /// connection, so that it can change. The server's certificate must be signed by an authority
    /// of `ca_file`, or of the system if there is no such file.
    ///
    /// Connections to another machine are encrypted, unless the URL says `sslmode=disable`.
    pub fn new(url: &str, password_file: Option<PathBuf>, ca_file: Option<PathBuf>) -> Result<Self, ServerError> {
        let mut config = parse(url)?;
        let explicit = url.contains("sslmode=");
        let mode = config.get_ssl_mode();
        let encrypted = match (explicit, mode) {
            (true, SslMode::Disable) => false,
            (false, _) => ca_file.is_some() || !is_here(&config),
            _ => true,
        };
        config
            .ssl_mode(if encrypted { SslMode::Require } else { SslMode::Disable })
            .application_name("cloakwork")
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(UNACKNOWLEDGED_LONGEST)
            .keepalives_idle(KEEPALIVE_IDLE)
            .options(SETTINGS);
        let tls = if encrypted { Some(Arc::new(trust(ca_file)?)) } else { None };
        if let Some(file) = &password_file {
            read_password(file).map_err(|source| ServerError::File { file: file.clone(), source })?;
        }
        Ok(Self { config, password_file, tls })
    }

    /// Whether [`Self::new`] accepts a URL.
    pub fn check(url: &str) -> Result<(), ServerError> {
        parse(url).map(drop)
    }

    /// Gives the connections a name, which the server shows.
    pub fn named(mut self, name: &str) -> Self {
        self.config.application_name(name);
        self
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> Result<Session, Error> {
        let mut config = self.config.clone();
        if let Some(file) = &self.password_file {
            let failed = |error| Error::Failed(format!("{}: {error}", file.display()));
            config.password(password(file.clone()).await.map_err(failed)?);
        }
        let opening = async {
            Ok(match &self.tls {
                Some(tls) => {
                    let (client, connection) = config.connect(MakeRustlsConnect::new((**tls).clone())).await?;
                    (client, run(connection))
                }
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    (client, run(connection))
                }
            })
        };
        // The driver's own limit covers only the connection of TCP.
        let (client, running) = match tokio::time::timeout(CONNECT_TIMEOUT, opening).await {
            Ok(opened) => opened.map_err(error::of)?,
            Err(_) => return Err(Error::Failed("the server did not answer in time".to_owned())),
        };
        Session::begun(client, running, self.tls.clone()).await
    }
}

/// Maximum length of a password file.
const PASSWORD_FILE_BYTES_MAX: u64 = 4096;

/// The password in a file.
async fn password(file: PathBuf) -> io::Result<String> {
    read_small_file(file, PASSWORD_FILE_BYTES_MAX, CONNECT_TIMEOUT, ()).await.map(without_line_end)
}

fn read_password(file: &Path) -> io::Result<String> {
    read_small_file_now(file, PASSWORD_FILE_BYTES_MAX).map(without_line_end)
}

fn without_line_end(text: String) -> String {
    text.trim_end_matches(['\r', '\n']).to_owned()
}

/// Shows where the server is, and nothing that a connection needs as proof.
impl fmt::Debug for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Server({:?}, {:?})", self.config.get_hosts(), self.config.get_dbname())
    }
}

fn parse(url: &str) -> Result<Config, ServerError> {
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(ServerError::Url("it begins with another scheme".to_owned()));
    }
    // The driver's error names the part that is wrong, without the text of the URL.
    let config: Config = url.parse().map_err(|error| ServerError::Url(describe(&error)))?;
    if config.get_password().is_some() { Err(ServerError::Password) } else { Ok(config) }
}

fn describe(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| cause.to_string())
}

/// Runs a connection until nobody uses it.
fn run(connection: impl Future<Output = Result<(), tokio_postgres::Error>> + Send + 'static) -> AbortHandle {
    let running = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::warn!(error = describe(&error), "a connection to the database ended");
        }
    });
    running.abort_handle()
}

/// Whether all hosts are this machine. The driver connects to the addresses of the parameter
/// `hostaddr` where the URL has them, whatever the names of the hosts are.
fn is_here(config: &Config) -> bool {
    let is_here = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
    };
    let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
    let is_named = !hosts.is_empty() || !addresses.is_empty();
    is_named && hosts.iter().all(is_here) && addresses.iter().all(IpAddr::is_loopback)
}

/// The authorities that a connection trusts.
fn trust(ca_file: Option<PathBuf>) -> Result<ClientConfig, ServerError> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(file) => {
            let read = |source| ServerError::File { file: file.clone(), source };
            let pem = fs::read(&file).map_err(read)?;
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                let certificate = certificate.map_err(|error| ServerError::Certificates(error.to_string()))?;
                roots.add(certificate).map_err(|error| ServerError::Certificates(error.to_string()))?;
            }
        }
        None => {
            // A certificate of the system that cannot be read is left out.
            let found = rustls_native_certs::load_native_certs().certs;
            roots.add_parsable_certificates(found);
        }
    }
    if roots.is_empty() {
        return Err(ServerError::Certificates("there are none".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| ServerError::Certificates(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for which data may wait for the other side before the system gives the connection up. A
/// server that stores large values does not take the values behind them for some seconds.
const UNACKNOWLEDGED_LONGEST: Duration = Duration::from_secs(15);

/// Time without traffic after which the system tests a connection.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);

/// Settings of each connection. Times are in milliseconds.
///
/// The server ends a transaction whose client went away, so that its locks do not stay.
///
/// Statements stay prepared for hours. A plan that the server made and kept while the tables were
/// small reads a whole table, or all rows of a tenant, until the next ANALYZE. So each execution
/// gets a plan of its own, which takes tens of microseconds. Plans in triggers are kept
/// nevertheless, and use the indexes that every statement has. A high estimate of their cost must
/// not lead to a compilation.
const SETTINGS: &str = "-c lock_timeout=1500 -c client_connection_check_interval=1000 \
                        -c idle_in_transaction_session_timeout=10000 -c tcp_keepalives_idle=5 \
                        -c tcp_keepalives_interval=2 -c tcp_keepalives_count=2 -c client_min_messages=warning \
                        -c plan_cache_mode=force_custom_plan -c enable_seqscan=off -c enable_hashjoin=off \
                        -c enable_mergejoin=off -c jit=off";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_read_from_a_regular_file_of_limited_length() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("password");
        let read = |bytes: usize| {
            fs::write(&file, "p".repeat(bytes) + "\r\n").expect("a file");
            read_password(&file)
        };
        assert_eq!(read(8).expect("a password"), "pppppppp");
        assert!(read(4095).is_err(), "it is too long");
        assert!(read_password(directory.path()).is_err());
        fs::remove_file(&file).expect("the file");
        assert!(std::process::Command::new("mkfifo").arg(&file).status().expect("mkfifo runs").success());
        assert!(read_password(&file).is_err(), "a pipe has no end");
    }

    #[test]
    fn only_connections_within_this_machine_go_without_encryption() {
        let is_here = |url: &str| is_here(&url.parse().expect(url));
        for here in ["postgres://u@localhost/d", "postgres://u@127.0.0.1,[::1]/d", "postgres:///d?host=/run"] {
            assert!(is_here(here), "{here}");
        }
        for other in [
            "postgres://u@database/d",
            "postgres://u@localhost,database/d",
            "postgres://u@10.0.0.5/d",
            "postgres://u@/d?hostaddr=10.0.0.5",
            "postgres://u@localhost/d?hostaddr=10.0.0.5",
            "postgres://u@/d",
        ] {
            assert!(!is_here(other), "{other}");
        }
    }
}
