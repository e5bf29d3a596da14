//! The part of a server that works before the server owns its database, and until the end.

use std::{fs::File, io::IsTerminal as _, net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use cloakwork_clock::Clock;
use cloakwork_oidc::Issuer;
use cloakwork_proto::{is_loopback, v1::admin_service_server::AdminServiceServer};
use cloakwork_storage::Database;
use cloakwork_worker::warn_if_exposed;
use rustls::ServerConfig;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinHandle,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic_health::{ServingStatus, server::HealthReporter};

use super::RunError;
use crate::{
    address::Addresses,
    admin::{self, Readiness},
    auth::{Authenticator, Rules, TokenStore, policy},
    backend, blobs,
    config::{Config, wrong_issuer},
    connection::Callers,
    console::{Console, Parts},
    data,
    edge::{Edge, Forward, Homes},
    installation::Installation,
    metrics::Telemetry,
    operators::Operators,
    owner::{self, Candidate, Ownership, Replica},
    readings::Readings,
    services::{Admin, Intake},
    shards::{self, Lookout, Seen},
    tasks::{Ended, Tasks},
    tls::{self, Port, Tls},
};

/// The database, the ports, and what they need.
#[derive(Debug)]
pub(super) struct Front {
    // The lock of the data directory. The operating system releases the lock when the process ends
    // for any reason.
    _lock: File,
    replica: Replica,
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) telemetry: Arc<Telemetry>,
    pub(super) installation: Arc<Installation>,
    /// The handle without the check of the owner. Servers that do not own the database read tokens
    /// through it, and write only the times of their last use.
    pub(super) database: Database,
    pub(super) readiness: Readiness,
    health: HealthReporter,
    /// Health and reflection.
    pub(super) standard: Routes,
    /// The parts that operators work with.
    pub(super) operators: Arc<Operators>,
    homes: watch::Sender<Homes>,
    /// The latest look at all shards.
    seen: watch::Sender<Seen>,
    pub(super) edge: Arc<Edge>,
    address: Option<SocketAddr>,
    pub(super) operator_address: Option<SocketAddr>,
    pub(super) admin_address: SocketAddr,
    api_tls: Option<Arc<ServerConfig>>,
    // Ends the API. The admin port keeps reporting until the end of the shutdown.
    stop: CancellationToken,
    stop_admin: CancellationToken,
    api: Tasks,
    others: Tasks,
    /// The export of spans. Traces are no reason to end a server, so the server goes on without.
    export: Option<JoinHandle<()>>,
    stop_export: CancellationToken,
}

pub(super) const API_PORT: &str = "the API port";
const BEATS: &str = "the sign of life of the owner";
const READINGS: &str = "the readings for gauges";
const LOOKOUT: &str = "the watch on shards";
const OPERATOR_PORT: &str = "the operator port";
const AUDIT: &str = "the audit log";
const PULSE: &str = "the samples for the console";
const TENANT_LIMITS: &str = "the limits of tenants";
pub(super) const ADMIN_PORT: &str = "the admin port";
pub(super) const CERTIFICATES: &str = "the watch on certificates";

impl Front {
    /// Opens the database and the admin port.
    pub(super) async fn open(config: Config, clock: Clock) -> Result<Self, RunError> {
        let tls = Tls::load(&config.listen)?;
        for (setting, file) in [
            ("listen.tls_key", &config.listen.tls_key),
            ("storage.s3_credentials_file", &config.storage.s3_credentials_file),
            ("database.password_file", &config.database.password_file),
        ] {
            file.iter().for_each(|file| warn_if_exposed(setting, file));
        }
        let [api_tls, admin_tls] = [Port::Api, Port::Admin].map(|port| match &tls {
            Some(tls) => tls.server_config(port),
            None => Ok(None),
        });
        let (api_tls, admin_tls) = (api_tls?, admin_tls?);
        let owner_tls = config.replica.ca_file.as_deref().map(tls::client_config).transpose()?;
        let lock = data::lock(&config.storage.directory).await?;
        let replica = Replica::new().map_err(|error| internal("a random number")(error.into()))?;
        let database = data::open(&config, replica).await?;
        let instance = uuid::Uuid::new_v4().to_string();
        let (telemetry, export) =
            Telemetry::for_config(&config, clock.clone(), instance).map_err(internal("telemetry"))?;
        let telemetry = Arc::new(telemetry);
        let stop_export = CancellationToken::new();
        let export = export.map(|export| tokio::spawn(export.run(stop_export.clone().cancelled_owned())));
        let (readiness, stop, stop_admin) = <(Readiness, CancellationToken, CancellationToken)>::default();
        let mut others = Tasks::default();
        if let Some(tls) = tls {
            others.spawn(CERTIFICATES, tls.watch());
        }
        let installation = Arc::new(Installation::open(&config, clock.clone(), telemetry.clone())?);
        let (health, standard) = standard_routes().map_err(|error| internal("reflection")(error.into()))?;
        for service in backend::SERVICES {
            health.set_service_status(service, ServingStatus::Serving).await;
        }
        let (homes, places) = watch::channel(Homes::default());
        let operators = Operators::new(&database, &clock, &config.limits);
        if let Err(error) = operators.tenant_limits.read(&database).await {
            tracing::warn!(%error, "limits of single tenants are not in force until they are read");
        }
        others.spawn(AUDIT, operators.audit.clone().run());
        others.spawn(TENANT_LIMITS, operators.tenant_limits.clone().follow(database.clone()));
        let admin = Intake::new(AdminServiceServer::new(Admin(operators.clone())), operators.limits.clone());
        let everywhere = standard.clone().add_service(admin);
        let forward = Forward::new(everywhere, places, owner_tls, &config.limits, telemetry.clone(), stop.clone());
        let addresses = Arc::new(Addresses::new(&config.limits));
        let authenticator = Arc::new(authenticator(&config, clock.clone(), &database, addresses.clone())?);
        let (listener, admin_address) = bind("listen.admin_address", config.listen.admin_address).await?;
        if !is_loopback(&admin_address.ip().to_string()) {
            tracing::warn!(
                %admin_address,
                "metrics and probes on the admin port have no authentication: keep it on a private network"
            );
        }
        let console = config.console.enabled.then(|| {
            let (operators, authenticator, telemetry) = (operators.clone(), authenticator.clone(), telemetry.clone());
            let parts = Parts { operators, authenticator, addresses: addresses.clone(), telemetry };
            Console::new(&config, admin_address, parts, readiness.clone(), clock.clone())
        });
        if let Some(link) = console.as_ref().and_then(|console| console.login_link())
            && std::io::stderr().is_terminal()
        {
            eprintln!("Console: {link}\nThe link works once; `cloakwork-server console` prints the next one.");
        }
        others.spawn(PULSE, telemetry.clone().sample_pulse());
        let console = console.map_or_else(Router::new, |console| console.routes());
        others.spawn(ADMIN_PORT, {
            let (readiness, telemetry, stop) = (readiness.clone(), telemetry.clone(), stop_admin.clone());
            let limits = config.limits.clone();
            async move { admin::serve(listener, admin_tls, &limits, readiness, telemetry, console, stop).await }
        });
        let callers = Callers { proxies: Arc::new(config.listen.trusted_proxies.clone()), addresses: Some(addresses) };
        let (audit, limits) = (operators.audit.clone(), &config.limits);
        let edge = Edge::new(authenticator, callers, telemetry.clone(), forward, audit, limits, stop.clone());
        let readings = Readings::new(&config, clock.clone(), database.clone(), edge.clone(), telemetry.clone());
        others.spawn(READINGS, readings.run());
        Ok(Self {
            _lock: lock,
            replica,
            config,
            clock,
            telemetry,
            installation,
            database,
            readiness,
            health,
            standard,
            operators,
            homes,
            seen: watch::Sender::default(),
            edge,
            address: None,
            operator_address: None,
            admin_address,
            api_tls,
            stop,
            stop_admin,
            api: Tasks::default(),
            others,
            export,
            stop_export,
        })
    }

    /// Waits until this server owns a shard of the database, and begins to beat. Meanwhile, passes
    /// calls on to the owners. A file has no other server.
    pub(super) async fn own(&mut self) -> Result<(Ownership, Database), RunError> {
        self.telemetry.metrics.owner.set(0, []);
        self.telemetry.metrics.shards_without_owner.set(0, []);
        self.telemetry.metrics.fenced.add(0, []);
        self.telemetry.metrics.clock_difference.set(0, []);
        let owned = match self.database.is_on_server() {
            false => (Ownership::of_directory(), self.database.clone()),
            true => self.take().await?,
        };
        self.telemetry.metrics.owner.set(1, []);
        Ok(owned)
    }

    async fn take(&mut self) -> Result<(Ownership, Database), RunError> {
        // A bucket refuses requests that have a wrong time.
        if let Err(error) = shards::follow_clock_of(&self.clock, &self.database).await {
            tracing::warn!(%error, "the database does not tell the time");
        }
        blobs::check(&self.config.storage, &self.database, &self.clock).await?;
        let address = self.open_api().await?;
        let url = match self.config.replica.url.as_str() {
            "" => format!("{}://{address}", if self.config.tls() { "https" } else { "http" }),
            url => url.to_owned(),
        };
        self.homes.send_replace(Homes::of_url(&url));
        let (database, clock, telemetry) = (self.database.clone(), self.clock.clone(), self.telemetry.clone());
        let lookout = Lookout { database, clock, telemetry };
        self.others.spawn(LOOKOUT, lookout.run(self.note()));
        let Self { replica, installation, database, clock, api, others, .. } = self;
        let (anchor, replica) = (installation.anchor(), *replica);
        let candidate = Candidate { replica, url: &url, anchor, database };
        let (ownership, guarded) = tokio::select! {
            taken = candidate.take(clock) => taken?,
            ended = api.ended() => return Err(ended.into()),
            ended = others.ended() => return Err(ended.into()),
        };
        others.spawn(BEATS, owner::keep(ownership.clone(), database.clone()));
        Ok((ownership, guarded))
    }

    /// Takes note of a look at all shards. A server without a shard is ready once it can pass calls
    /// on.
    fn note(&self) -> impl FnMut(Seen) -> bool + Send + 'static {
        let (homes, seen, readiness) = (self.homes.clone(), self.seen.clone(), self.readiness.clone());
        move |look| {
            let mut has_other = false;
            homes.send_if_modified(|homes| {
                let (other, has_changed) = homes.update(look.shards.clone());
                has_other = other;
                has_changed
            });
            if has_other {
                readiness.ready();
            }
            seen.send_replace(look);
            homes.borrow().has_shard()
        }
    }

    /// The looks at all shards.
    pub(super) fn seen(&self) -> watch::Receiver<Seen> {
        self.seen.subscribe()
    }

    /// Where calls go.
    pub(super) fn homes(&self) -> watch::Sender<Homes> {
        self.homes.clone()
    }

    /// Handles calls for a shard in this server from now on.
    pub(super) fn handle_calls(&self, shard: i32, routes: Routes) {
        let routes = routes.prepare();
        self.homes.send_modify(|homes| *homes = std::mem::take(homes).with(shard, routes));
    }

    /// Opens the port for gRPC, unless it is open.
    pub(super) async fn open_api(&mut self) -> Result<SocketAddr, RunError> {
        if let Some(address) = self.address {
            return Ok(address);
        }
        let (listener, address) = bind("listen.address", self.config.listen.address).await?;
        if self.config.is_open_in_the_clear() {
            tracing::warn!(
                %address,
                "without TLS, attackers on the network path can read and change all messages, including tokens: set \
                 listen.tls_certificate and listen.tls_key, or keep the port on a private network"
            );
        }
        let edge = self.edge.clone();
        self.api.spawn(API_PORT, edge.clone().serve(policy::Port::Api, listener, self.api_tls.clone()));
        self.address = Some(address);
        if let Some(wanted) = self.config.listen.operator_address {
            let (listener, operator_address) = bind("listen.operator_address", wanted).await?;
            self.api.spawn(OPERATOR_PORT, edge.serve(policy::Port::Operator, listener, self.api_tls.clone()));
            self.operator_address = Some(operator_address);
            if !self.config.tls() && !operator_address.ip().is_loopback() {
                tracing::warn!(
                    %operator_address,
                    "without TLS, attackers on the network path can read the tokens of operators: set \
                     listen.tls_certificate and listen.tls_key, or keep the port on a private network"
                );
            }
            tracing::info!(%operator_address, "the operator port is open");
        }
        Ok(address)
    }

    /// Waits until one of the tasks ends by itself.
    pub(super) async fn ended(&mut self) -> Ended {
        tokio::select! {
            ended = self.api.ended() => ended,
            ended = self.others.ended() => ended,
        }
    }

    /// Ends a task as a panic in the task would.
    #[cfg(test)]
    pub(super) fn kill(&self, name: &str) {
        if name == API_PORT { self.api.kill(name) } else { self.others.kill(name) }
    }

    /// Stops a server that waits for its database.
    pub(super) async fn stop(mut self) {
        let deadline = self.drain().await;
        self.end_calls(deadline).await;
        self.close().await;
    }

    /// Reports to probes that this server stops. Returns the end of the grace period.
    pub(super) async fn drain(&self) -> Instant {
        let grace = self.grace();
        tracing::info!(grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX), "the server drains");
        self.readiness.drain();
        for service in [""].iter().chain(backend::SERVICES) {
            self.health.set_service_status(service, ServingStatus::NotServing).await;
        }
        Instant::now() + grace
    }

    /// The time that calls and jobs have to end.
    pub(super) fn grace(&self) -> Duration {
        Duration::from_millis(self.config.limits.drain_ms)
    }

    /// Accepts no new connections, and waits for running calls. Calls at other servers wait for the
    /// next owner meanwhile, so they are not kept waiting for a long upload or download.
    pub(super) async fn end_calls(&mut self, mut deadline: Instant) {
        self.stop.cancel();
        if self.database.is_on_server() {
            deadline = deadline.min(Instant::now() + SHARED_CALLS_END);
        }
        if timeout_at(deadline, self.api.join()).await.is_err() {
            tracing::warn!("some calls had not ended when the grace period was over");
            self.api.shutdown().await;
        }
    }

    /// Closes the admin port and the database.
    pub(super) async fn close(mut self) {
        self.stop_admin.cancel();
        self.others.shutdown().await;
        self.database.close().await;
        self.stop_export.cancel();
        if let Some(export) = self.export.take() {
            // The export has a time limit for its last spans.
            let _ = export.await;
        }
        let telemetry = self.telemetry.clone();
        // An error means that the runtime ends.
        let _ = tokio::task::spawn_blocking(move || telemetry.registry.close()).await;
        tracing::info!("the server has stopped");
    }
}

/// Time that running calls have to end at the stop of a server that shares its database. At the
/// next owner, clients begin uploads again and continue downloads.
const SHARED_CALLS_END: Duration = Duration::from_secs(3);

/// The error of a component that does not start.
pub(super) fn internal(what: &'static str) -> impl Fn(Box<dyn std::error::Error + Send + Sync>) -> RunError {
    move |error| RunError::Internal { what, cause: error.to_string() }
}

fn authenticator(
    config: &Config,
    clock: Clock,
    database: &Database,
    addresses: Arc<Addresses>,
) -> Result<Authenticator, RunError> {
    let issuer = config.auth.issuer().map(|options| Issuer::new(options, clock.clone())).transpose();
    let issuer = issuer.map_err(|error| RunError::Issuer(wrong_issuer(&error)))?;
    let rules = Rules { anonymous: config.auth.anonymous, worker_mtls: config.auth.worker_mtls };
    let tokens = TokenStore::new(database.clone(), clock);
    Ok(Authenticator::new(rules, tokens, addresses, &config.limits).with_issuer(issuer))
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

pub(super) async fn bind(setting: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), RunError> {
    let failed = |source| RunError::Port { setting, address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}
