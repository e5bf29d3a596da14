//! The admin port: is the process alive, should it get traffic, what has it counted.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
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

/// Whether a server should get traffic. Shared: whoever starts or drains the server says so here.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicU8>);

const STARTING: u8 = 0;
const READY: u8 = 1;
const DRAINING: u8 = 2;

impl Readiness {
    /// The server can serve. Does nothing once it drains.
    pub fn ready(&self) {
        // Fails where it drains or is ready already, and both are fine.
        let _ = self.0.compare_exchange(STARTING, READY, SeqCst, SeqCst);
    }

    /// The server is going away, for good.
    pub fn drain(&self) {
        self.0.store(DRAINING, SeqCst);
    }

    /// Should it get traffic?
    pub fn is_ready(&self) -> bool {
        self.0.load(SeqCst) == READY
    }
}

/// Serves the port until `stop`, then until what runs has ended.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    limits: &Limits,
    readiness: Readiness,
    telemetry: Arc<Telemetry>,
    stop: CancellationToken,
) {
    let limits = ConnectionLimits {
        connections: usize::try_from(limits.admin_connections).unwrap_or(usize::MAX),
        // Nobody authenticates on this port.
        tenant_connections: 0,
        address_connections: usize::MAX,
        // HTTP/1 takes one request at a time, so that the number of connections bounds their memory.
        unauthenticated_bytes: u64::MAX,
        header_timeout: Duration::from_millis(limits.header_timeout_ms),
        idle_timeout: Duration::from_millis(limits.idle_timeout_ms),
    };
    let router = router(readiness, telemetry);
    let ended = stop.clone();
    connection::serve(listener, tls, limits, Callers::default(), stop, move |connection, _| {
        let service = TowerToHyperService::new(router.clone());
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
                tracing::debug!(%error, "a connection to the admin port broke");
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

async fn metrics(State(telemetry): State<Arc<Telemetry>>) -> Response {
    match telemetry.scrape() {
        Ok(text) => ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "the metrics cannot be shown");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
