//! The admin port: liveness, readiness, metrics and the console.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::{
    Extension, Router,
    extract::State,
    http::{
        HeaderMap, StatusCode,
        header::{ACCEPT, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
    routing::get,
};
use cloakwork_telemetry::Format;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    connection::{self, Callers, ConnectionLimits},
    limits::Limits,
    metrics::Telemetry,
};

/// Whether a server accepts traffic. Clones share the state, which the server sets at startup and
/// drain.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicU8>);

const STARTING: u8 = 0;
const READY: u8 = 1;
const DRAINING: u8 = 2;

impl Readiness {
    /// Marks the server as ready. Has no effect once the server drains.
    pub fn ready(&self) {
        // The exchange fails if the server is ready or draining already, and then nothing has to
        // change.
        let _ = self.0.compare_exchange(STARTING, READY, SeqCst, SeqCst);
    }

    /// Marks the server as draining. This is final.
    pub fn drain(&self) {
        self.0.store(DRAINING, SeqCst);
    }

    /// The state in one word.
    pub fn name(&self) -> &'static str {
        match self.0.load(SeqCst) {
            READY => "ready",
            STARTING => "starting",
            _ => "draining",
        }
    }

    /// Whether the server accepts traffic.
    pub fn is_ready(&self) -> bool {
        self.0.load(SeqCst) == READY
    }
}

/// Serves the port until `stop` is cancelled, and returns when the remaining connections have
/// ended.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    limits: &Limits,
    readiness: Readiness,
    telemetry: Arc<Telemetry>,
    console: Router,
    stop: CancellationToken,
) {
    let limits = ConnectionLimits {
        connections: usize::try_from(limits.admin_connections).unwrap_or(usize::MAX),
        // Probes and metrics have no authentication, and the console has one of its own.
        tenant_connections: 0,
        // Strangers at one address leave room for probes.
        address_connections: usize::try_from(limits.admin_connections / 2).unwrap_or(usize::MAX).max(1),
        // HTTP/1 handles one request at a time for each connection, so the number of connections
        // limits their memory.
        unauthenticated_bytes: u64::MAX,
        header_timeout: Duration::from_millis(limits.header_timeout_ms),
        idle_timeout: Duration::from_millis(limits.idle_timeout_ms),
    };
    let router = router(readiness, telemetry).merge(console);
    let ended = stop.clone();
    connection::serve(listener, tls, limits, Callers::default(), stop, move |connection, peer| {
        let service = TowerToHyperService::new(router.clone().layer(Extension(peer)));
        let ended = ended.clone();
        async move {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(limits.header_timeout);
            let mut running = pin!(http.serve_connection(TokioIo::new(connection), service));
            let result = tokio::select! {
                result = running.as_mut() => result,
                () = ended.cancelled() => {
                    running.as_mut().graceful_shutdown();
                    running.await
                }
            };
            if let Err(error) = result {
                tracing::debug!(%error, "a connection to the admin port failed");
            }
        }
    })
    .await;
}

fn router(readiness: Readiness, telemetry: Arc<Telemetry>) -> Router {
    Router::new()
        .route("/livez", get(async || "alive\n"))
        .route("/readyz", get(readyz))
        .with_state(readiness)
        .merge(Router::new().route("/metrics", get(metrics)).with_state(telemetry))
}

async fn readyz(State(readiness): State<Readiness>) -> (StatusCode, &'static str) {
    match readiness.0.load(SeqCst) {
        READY => (StatusCode::OK, "ready\n"),
        STARTING => (StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
    }
}

async fn metrics(State(telemetry): State<Arc<Telemetry>>, headers: HeaderMap) -> Response {
    let format = Format::accepted(headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()));
    ([(CONTENT_TYPE, format.content_type())], telemetry.scrape(format)).into_response()
}
