//! Startup from a configuration, and graceful shutdown on a signal.

use std::{
    fs::{File, TryLockError},
    future::Future,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use cloakwork_clock::Clock;
use cloakwork_proto::is_loopback;
use cloakwork_storage::{
    Database, OpenError,
    private::{self, DirectoryError},
};
use cloakwork_worker::{WorkerError, warn_if_exposed};
use rustls::ServerConfig;
use tokio::{
    net::TcpListener,
    task::JoinHandle,
    time::{Instant, sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::{
    address::Addresses,
    admin::{self, Readiness},
    auth::{Authenticator, Rules, TokenStore},
    backend::{self, Backend},
    config::Config,
    connection::Callers,
    database,
    edge::{Door, Edge},
    installation::{Installation, InstallationError},
    metrics::Telemetry,
    tasks::{Ended, Tasks},
    tls::{Port, Tls, TlsError},
};

/// The error that kept a server from starting, or ended a running server.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The data directory cannot be used.
    #[error("storage.directory: {0}")]
    Directory(#[from] DirectoryError),
    /// Another server uses the data directory.
    #[error("storage.directory {path}: another server or command is running on it", path = path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// A server uses a database of an earlier version, which this program would change under it.
    #[error(
        "storage.directory {path}: a server or command is running on a database of an earlier version; stop it, or wait \
         until a server of this version has started", path = path.display()
    )]
    EarlierServer {
        /// The directory.
        path: PathBuf,
    },
    /// A database of an earlier version is here without the catalogue that belongs to it.
    #[error(
        "{file} is missing: it has the metadata of all blobs and keys. Restore it together with server.db, from one \
         backup", file = file.display()
    )]
    CatalogueMissing {
        /// The missing file.
        file: PathBuf,
    },
    /// The database cannot be opened or migrated.
    #[error("the database {path}: {source}", path = path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: OpenError,
    },
    /// A port cannot be bound.
    #[error("{setting} = {address}: {source}")]
    Port {
        /// The setting that names the port.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The key of the installation cannot be used.
    #[error(transparent)]
    Installation(#[from] InstallationError),
    /// An internal failure without an external cause.
    #[error("{what}: {cause}")]
    Internal {
        /// The component that did not start, or ended.
        what: &'static str,
        /// The cause.
        cause: String,
    },
}

/// Runs a server until `shutdown` resolves, then drains it within the grace period that the limits
/// set.
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
    Server::start(config, Clock::system()).await?.run(shutdown).await
}

/// Opens the server's database in a data directory. Missing directories and databases are created
/// with access for the server's user only. A directory that other users may write to is refused.
async fn open_database(directory: &Path, readers: u64) -> Result<Database, RunError> {
    private::open_directory(directory, backend::DIRECTORIES)?;
    check_catalogue(directory).await?;
    let path = directory.join(database::FILE);
    let readers = u32::try_from(readers).unwrap_or(u32::MAX);
    let opened = Database::open(&path, &database::SCHEMAS, readers).await;
    opened.map_err(|source| RunError::Database { path, source })
}

/// Opens the database for a command, which may run beside a server of this version.
pub(crate) async fn open_database_for_command(directory: &Path) -> Result<Database, RunError> {
    unless_an_earlier_server_runs(directory, async || open_database(directory, 1).await).await
}

/// Opens a database, unless a server of an earlier version may be using it. Opening the database
/// would rename columns, and the statements of that server would fail from then on.
///
/// If no server runs, the directory stays locked until the database is open. Otherwise a server of
/// an earlier version could start between the check and the change.
async fn unless_an_earlier_server_runs<T>(
    directory: &Path,
    open: impl AsyncFnOnce() -> Result<T, RunError>,
) -> Result<T, RunError> {
    let begun = Instant::now();
    let _lock = loop {
        let lock = try_lock(directory)?;
        if lock.is_some() || has_current_version(directory).await? {
            break lock;
        }
        // Another command, or a server of this version, may be about to change the database.
        if begun.elapsed() >= LOCK_TIMEOUT {
            return Err(RunError::EarlierServer { path: directory.to_owned() });
        }
        sleep(LOCK_INTERVAL).await;
    };
    open().await
}

/// Whether the database exists and has this version of each schema, so that opening the database
/// does not change it.
async fn has_current_version(directory: &Path) -> Result<bool, RunError> {
    let path = directory.join(database::FILE);
    for schema in &database::SCHEMAS {
        let version = Database::version_of(&path, schema).await;
        let version = version.map_err(|source| RunError::Database { path: path.clone(), source })?;
        if version.is_none_or(|version| version < schema.version()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Refuses a directory that a server of an earlier version used, and whose catalogue file is
/// missing. With an empty catalogue, the server would take every stored blob for a leftover and
/// remove it.
async fn check_catalogue(directory: &Path) -> Result<(), RunError> {
    let path = directory.join(database::FILE);
    let version = Database::version_of(&path, &database::SCHEMA).await;
    let version = version.map_err(|source| RunError::Database { path, source })?;
    let apart = version.is_some_and(|version| version < database::ONE_DATABASE);
    let file = directory.join(database::CATALOGUE_FILE);
    // The first start of a server makes the staging directory. Before that, `tenant` and `token`
    // may have made the database.
    let missing = apart && directory.join(backend::STAGING).exists() && !file.exists();
    if missing { Err(RunError::CatalogueMissing { file }) } else { Ok(()) }
}

/// Moves the catalogue of an earlier version into the database. The caller holds the lock of the
/// directory, so no other server uses either file.
async fn absorb_catalogue(database: &Database, directory: &Path) -> Result<(), RunError> {
    let path = directory.join(database::CATALOGUE_FILE);
    match cloakwork_keystore::absorb(database, &path).await {
        Ok(false) => Ok(()),
        Ok(true) => {
            tracing::info!(file = %path.display(), "the catalogue was moved into {}", database::FILE);
            Ok(())
        }
        Err(source) => Err(RunError::Database { path, source }),
    }
}

/// Name of the file in a data directory that a server locks.
const LOCK_FILE: &str = "lock";

/// Maximum time to wait for the lock of a data directory. A killed process takes some time to exit
/// and release its lock, and supervisors seldom wait for that before they start the next process.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Time between two attempts to lock a data directory.
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// Locks a data directory against other servers. Makes a missing directory.
async fn lock(directory: &Path) -> Result<File, RunError> {
    let begun = Instant::now();
    loop {
        match try_lock(directory)? {
            Some(lock) => return Ok(lock),
            None if begun.elapsed() < LOCK_TIMEOUT => sleep(LOCK_INTERVAL).await,
            None => return Err(RunError::InUse { path: directory.to_owned() }),
        }
    }
}

/// Locks a data directory, or returns `None` if another process has the lock. Makes a missing
/// directory.
fn try_lock(directory: &Path) -> Result<Option<File>, RunError> {
    private::open_directory(directory, backend::DIRECTORIES)?;
    let path = directory.join(LOCK_FILE);
    let failed = |source| DirectoryError::Io { path: path.clone(), source };
    private::close_file(&path).map_err(failed)?;
    let file = private::file_options().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(source)) => Err(failed(source).into()),
    }
}

/// A server whose ports are open.
#[derive(Debug)]
pub struct Server {
    // The lock of the data directory. The operating system releases the lock when the process ends
    // for any reason.
    _lock: File,
    address: SocketAddr,
    admin_address: SocketAddr,
    readiness: Readiness,
    health: HealthReporter,
    database: Database,
    backend: Backend,
    worker: Option<JoinHandle<Result<(), WorkerError>>>,
    drain: Duration,
    stop_worker: CancellationToken,
    /// The embedded worker's path into the edge.
    door: Door,
    // Ends the API. The admin port keeps reporting until the end of the shutdown.
    stop: CancellationToken,
    stop_admin: CancellationToken,
    api: Tasks,
    admin: Tasks,
}

impl Server {
    /// Opens the database and the ports, and begins to serve. All stored times come from `clock`.
    pub async fn start(config: Config, clock: Clock) -> Result<Self, RunError> {
        let tls = Tls::load(&config.listen)?;
        if let Some(file) = &config.listen.tls_key {
            warn_if_exposed("listen.tls_key", file);
        }
        let [api_tls, admin_tls] = [Port::Api, Port::Admin].map(|port| match &tls {
            Some(tls) => tls.server_config(port),
            None => Ok(None),
        });
        let (api_tls, admin_tls) = (api_tls?, admin_tls?);
        let lock = lock(&config.storage.directory).await?;
        let database = open_database(&config.storage.directory, config.limits.database_readers).await?;
        absorb_catalogue(&database, &config.storage.directory).await?;
        let internal = |what| {
            move |error: Box<dyn std::error::Error + Send + Sync>| RunError::Internal { what, cause: error.to_string() }
        };
        let telemetry = Arc::new(Telemetry::new().map_err(internal("the metrics"))?);
        let readiness = Readiness::default();
        let stop_admin = CancellationToken::new();
        let mut admin = Tasks::default();
        let (listener, admin_address) = bind("listen.admin_address", config.listen.admin_address).await?;
        if !is_loopback(&admin_address.ip().to_string()) {
            tracing::warn!(%admin_address, "the admin port has no authentication: keep it on a private network");
        }
        admin.spawn(ADMIN_PORT, {
            let (readiness, telemetry, stop) = (readiness.clone(), telemetry.clone(), stop_admin.clone());
            let limits = config.limits.clone();
            async move { admin::serve(listener, admin_tls, &limits, readiness, telemetry, stop).await }
        });
        if let Some(tls) = tls {
            admin.spawn(CERTIFICATES, tls.watch());
        }
        let installation = Arc::new(Installation::open(&config, clock.clone(), telemetry.clone())?);
        let mut backend = Backend::open(&config, clock.clone(), database.clone(), telemetry.clone(), installation)
            .await
            .map_err(|error| internal("the stores")(error.into()))?;
        let (health, routes) = standard_routes().map_err(|error| internal("reflection")(error.into()))?;
        for service in backend::SERVICES {
            health.set_service_status(service, ServingStatus::Serving).await;
        }
        let (stop, stop_worker, door) = <(CancellationToken, CancellationToken, Door)>::default();
        let routes = backend.routes(routes);
        let addresses = Arc::new(Addresses::new(&config.limits));
        let authenticator = authenticator(&config, clock, &database, addresses.clone());
        let callers = Callers { proxies: Arc::new(config.listen.trusted_proxies.clone()), addresses: Some(addresses) };
        let edge = Edge::new(authenticator, callers, telemetry, routes, &config.limits, stop.clone());
        let mut worker = None;
        if config.worker.embedded {
            let uplink = edge.uplink(&door);
            let started = backend.start_worker(&config, uplink, stop_worker.clone()).await;
            worker = Some(started.map_err(|error| internal("the embedded worker")(error.into()))?);
        }
        let mut api = Tasks::default();
        let address = serve_api(&mut api, edge, &config, api_tls).await?;
        readiness.ready();
        tracing::info!(%address, admin_address = %admin_address, tls = config.tls(), "the server is ready");
        let drain = Duration::from_millis(config.limits.drain_ms);
        Ok(Self {
            _lock: lock,
            address,
            admin_address,
            readiness,
            health,
            database,
            backend,
            worker,
            drain,
            stop_worker,
            door,
            stop,
            stop_admin,
            api,
            admin,
        })
    }

    /// Address of the gRPC port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address of the admin port.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// Serves until `shutdown` resolves, then drains: reports not-serving to probes, accepts no new
    /// connections, and waits for running calls.
    ///
    /// Returns an error as soon as one of the server's long-lived tasks ends by itself. Without its
    /// dispatcher, for example, the server would answer calls but make no decisions about jobs.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
        let failure = tokio::select! {
            () = shutdown => None,
            ended = self.backend.ended() => Some(ended),
            ended = worker_ended(&mut self.worker) => Some(ended),
            ended = self.api.ended() => Some(ended),
            ended = self.admin.ended() => Some(ended),
        };
        if let Some(Ended { name, cause }) = failure {
            tracing::error!(what = name, cause, "a long-lived task ended, and the server stops");
            return Err(RunError::Internal { what: name, cause });
        }
        tracing::info!(grace_ms = u64::try_from(self.drain.as_millis()).unwrap_or(u64::MAX), "the server drains");
        self.readiness.drain();
        for service in [""].iter().chain(backend::SERVICES) {
            self.health.set_service_status(service, ServingStatus::NotServing).await;
        }
        self.backend.drain().await;
        // The worker finishes or hands back its jobs while the server still answers it.
        let begun = Instant::now();
        let deadline = begun + self.drain;
        self.stop_worker.cancel();
        // A sixth of the grace period is reserved for taking back the jobs that the worker does not
        // hand back.
        if let Some(worker) = self.worker.take() {
            end_worker(worker, begun + self.drain * 5 / 6, deadline).await;
        }
        // The worker's calls must end before the stores that they use are closed.
        if timeout_at(deadline, self.door.close()).await.is_err() {
            tracing::warn!("some calls of the embedded worker had not ended when the grace period was over");
        }
        // Calls that wait for a job fail with an error that asks the caller to retry.
        self.backend.stop().await;
        self.stop.cancel();
        if timeout_at(deadline, self.api.join()).await.is_err() {
            tracing::warn!("some calls had not ended when the grace period was over");
            self.api.shutdown().await;
        }
        self.backend.close().await;
        self.stop_admin.cancel();
        self.admin.shutdown().await;
        self.database.close().await;
        tracing::info!("the server has stopped");
        Ok(())
    }
}

const API_PORT: &str = "the API port";
const ADMIN_PORT: &str = "the admin port";
const CERTIFICATES: &str = "the watch on certificates";

/// Waits until the worker inside this process ends by itself. If the server ran on without its
/// worker, jobs would wait for ever.
async fn worker_ended(worker: &mut Option<JoinHandle<Result<(), WorkerError>>>) -> Ended {
    let Some(worker) = worker else { return std::future::pending().await };
    let cause = match worker.await {
        Ok(Ok(())) => "it ended".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    Ended { name: "the embedded worker", cause }
}

/// Waits for the worker inside this process, which has been told to stop. At the time `grace`, the
/// worker's task is aborted.
async fn end_worker(mut worker: JoinHandle<Result<(), WorkerError>>, grace: Instant, deadline: Instant) {
    match timeout_at(grace, &mut worker).await {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(error))) => tracing::error!(%error, "the embedded worker has stopped"),
        Ok(Err(error)) => tracing::error!(%error, "the embedded worker failed"),
        Err(_) => {
            tracing::warn!(
                "the embedded worker had not ended when its grace period was over; its jobs return to the queue"
            );
            worker.abort();
            let _ = timeout_at(deadline, worker).await;
        }
    }
}

fn authenticator(config: &Config, clock: Clock, database: &Database, addresses: Arc<Addresses>) -> Authenticator {
    let rules = Rules { anonymous: config.auth.anonymous, worker_mtls: config.auth.worker_mtls };
    Authenticator::new(rules, TokenStore::new(database.clone(), clock), addresses, &config.limits)
}

/// Maximum size in bytes of a message that needs no token. The message contains only the name of a
/// service or symbol.
const PROBE_MESSAGE_BYTES_MAX: usize = 1 << 10;

/// Health and reflection services, which every server has.
fn standard_routes() -> Result<(HealthReporter, Routes), tonic_reflection::server::Error> {
    let (reporter, health) = tonic_health::server::health_reporter();
    let health = health.max_decoding_message_size(PROBE_MESSAGE_BYTES_MAX);
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(cloakwork_proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let v1 = reflection().build_v1()?.max_decoding_message_size(PROBE_MESSAGE_BYTES_MAX);
    let v1alpha = reflection().build_v1alpha()?.max_decoding_message_size(PROBE_MESSAGE_BYTES_MAX);
    let routes = Routes::new(health).add_service(v1).add_service(v1alpha);
    Ok((reporter, routes))
}

async fn serve_api(
    api: &mut Tasks,
    edge: Arc<Edge>,
    config: &Config,
    tls: Option<Arc<ServerConfig>>,
) -> Result<SocketAddr, RunError> {
    let (listener, address) = bind("listen.address", config.listen.address).await?;
    if config.is_open_in_the_clear() {
        tracing::warn!(
            %address,
            "without TLS, attackers on the network path can read and change all messages, including tokens: set \
             listen.tls_certificate and listen.tls_key, or keep the port on a private network"
        );
    }
    api.spawn(API_PORT, edge.serve(listener, tls));
    Ok(address)
}

async fn bind(setting: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), RunError> {
    let failed = |source| RunError::Port { setting, address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

#[cfg(test)]
mod tests;
