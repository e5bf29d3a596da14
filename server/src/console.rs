//! The web console on the admin port: what the server does now, its jobs, keys, tenants and errors.
//!
//! The console is for operators. A caller logs in with a token that has the scope `admin`, or, on a
//! loopback address, with the one-time link that the command `console` prints. The session is a
//! cookie that scripts cannot read and that other sites cannot send. Calls that change something
//! need a second secret, which other sites cannot read, and the setting `console.writes`.

mod api;
mod assets;
mod guard;
mod link;
mod sessions;

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::DefaultBodyLimit,
    middleware,
    routing::{get, post},
};
use cloakwork_clock::Clock;

use crate::{
    address::{Act, Addresses, TrustedProxies},
    admin::Readiness,
    auth::{Authenticator, Peer},
    config::Config,
    error::{ADDRESS_LIMITED, ApiError},
    hosts::Hosts,
    metrics::Telemetry,
    operators::Operators,
};
pub use link::LINK_FILE;
use link::Link;
use sessions::Sessions;

/// Maximum size of the body of a request to the console.
const BODY_BYTES_MAX: usize = 16 << 10;

/// The parts of a server that the console needs.
pub struct Parts {
    /// The parts that operators work with.
    pub operators: Arc<Operators>,
    /// Authenticates operators.
    pub authenticator: Arc<Authenticator>,
    /// Budgets of callers' addresses.
    pub addresses: Arc<Addresses>,
    /// The server's metrics.
    pub telemetry: Arc<Telemetry>,
}

/// The console of a server.
pub struct Console {
    operators: Arc<Operators>,
    authenticator: Arc<Authenticator>,
    addresses: Arc<Addresses>,
    telemetry: Arc<Telemetry>,
    readiness: Readiness,
    clock: Clock,
    sessions: Sessions,
    link: Option<Link>,
    hosts: Hosts,
    trusted_networks: TrustedProxies,
    /// Whether the console may change anything.
    has_writes: bool,
    /// Whether the admin port is encrypted.
    has_tls: bool,
    /// Whether the admin port is on a loopback address.
    is_on_loopback: bool,
    /// Name of the sessions' cookies.
    cookie_name: String,
    facts: Facts,
}

/// Facts that stay the same while the server runs.
#[derive(Clone, Debug)]
struct Facts {
    started_micros: i64,
    address: String,
    has_api_tls: bool,
    database: &'static str,
}

impl Console {
    /// The console of a server with this configuration, whose admin port is at `admin_address`.
    pub fn new(
        config: &Config,
        admin_address: SocketAddr,
        parts: Parts,
        readiness: Readiness,
        clock: Clock,
    ) -> Arc<Self> {
        let Parts { operators, authenticator, addresses, telemetry } = parts;
        let is_on_loopback = admin_address.ip().is_loopback();
        let scheme = if config.listen.admin_tls { "https" } else { "http" };
        let link = is_on_loopback.then(|| Link::new(&config.storage.directory, &format!("{scheme}://{admin_address}")));
        Arc::new(Self {
            operators,
            authenticator,
            addresses,
            telemetry,
            readiness,
            sessions: Sessions::new(clock.clone()),
            link,
            hosts: config.console.hosts.clone(),
            trusted_networks: config.console.trusted_networks.clone(),
            has_writes: config.console.writes,
            has_tls: config.listen.admin_tls,
            is_on_loopback,
            // Browsers keep one cookie of a name for all ports of a host. Consoles at several ports
            // would replace each other's cookies if their names were equal. A container does not
            // know at which port it is published, so the name is random. Without randomness, no
            // session begins.
            cookie_name: format!("cloakwork_console_{:016x}", getrandom::u64().unwrap_or_default()),
            facts: Facts {
                started_micros: clock.unix_micros(),
                address: config.listen.address.to_string(),
                has_api_tls: config.tls(),
                database: if config.database.url.is_empty() { "file" } else { "server" },
            },
            clock,
        })
    }

    /// Fails while too many logins from the caller's address have failed.
    fn failures(&self, peer: Peer) -> Result<(), ApiError> {
        let debt = peer.address().map_or(Duration::ZERO, |address| self.addresses.debt(address, Act::Failure));
        if debt.is_zero() {
            return Ok(());
        }
        let message = "too many logins from this address failed (address_failures_per_minute)";
        Err(ADDRESS_LIMITED.error(message).retry_after(debt))
    }

    /// Counts a login that failed.
    fn failed(&self, peer: Peer) {
        if let Some(address) = peer.address() {
            self.addresses.charge(address, Act::Failure);
        }
    }

    /// The link with which an operator at this machine logs in, and which works once.
    pub fn login_link(&self) -> Option<String> {
        self.link.as_ref()?.text()
    }

    /// The routes of the console, below `/console`.
    pub fn routes(self: Arc<Self>) -> Router {
        let reads = Router::new()
            .route("/session", get(api::session))
            .route("/overview", get(api::overview))
            .route("/jobs", get(api::jobs))
            .route("/job", get(api::job))
            .route("/keys", get(api::keys))
            .route("/tenants", get(api::tenants))
            .route("/usage", get(api::usage))
            .route("/errors", get(api::errors))
            .route("/audit", get(api::audit));
        let writes = Router::new()
            .route("/cancel", post(api::cancel))
            .route("/drain", post(api::drain))
            .route("/resume", post(api::resume))
            .route_layer(middleware::from_fn_with_state(self.clone(), guard::writes));
        let session = Router::new()
            .merge(reads)
            .merge(writes)
            .route("/logout", post(api::logout))
            .route_layer(middleware::from_fn_with_state(self.clone(), guard::session));
        let api = Router::new()
            .route("/login", post(api::login))
            .merge(session)
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .layer(middleware::from_fn(guard::in_time));
        Router::new()
            .route("/console", get(assets::redirect))
            .route("/console/", get(assets::index))
            .route("/console/{*path}", get(assets::file))
            .nest("/console/api", api)
            .route_layer(middleware::from_fn_with_state(self.clone(), guard::hosts))
            .with_state(self)
    }
}

/// The link with which an operator at this machine logs in to the server of a data directory.
pub fn stored_link(directory: &Path) -> std::io::Result<String> {
    std::fs::read_to_string(directory.join(LINK_FILE))
}

#[cfg(test)]
mod tests;
