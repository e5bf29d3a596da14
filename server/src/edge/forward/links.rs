//! Connections to the owners of shards.

use std::{
    error::Error,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use http::{Request, Response};
use hyper_util::client::legacy::connect::HttpConnector;
use tonic::{
    body::Body,
    transport::{Channel, ClientTlsConfig, Endpoint},
};
use tower::{Service as _, ServiceExt as _};

use crate::{
    auth::policy::{Load, Rule},
    limits::Limits,
};

/// Longest time to open a connection. Servers of one database are close to each other.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Longest time until a connection can be used, with the handshake of TLS. A suspended server
/// accepts connections and never answers.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);

/// Silence of a connection after which it is probed, while a call waits on it.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// Time for the answer to a probe. A busy machine answers late.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of connections of one kind.
const LINKS_MAX: u64 = 64;

/// Maximum number of servers to which connections stay open.
const SERVERS_MAX: usize = 64;

/// Bytes of an answer that may wait for a slow reader.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;

/// Bytes of all answers that may wait. This is the largest window, so that callers who read slowly
/// do not stop the answers of others.
const CONNECTION_WINDOW_BYTES: u32 = (1 << 31) - 1;

/// Connections to other servers, opened when they are needed.
pub(super) struct Links {
    tls: Option<ClientTlsConfig>,
    /// Numbers of connections for calls that wait for jobs, and for other calls. A connection has a
    /// limited number of calls, and calls that wait must not take the places of others.
    counts: [usize; 2],
    /// The servers that were called last, the latest last.
    open: Mutex<Vec<Arc<Open>>>,
}

/// The connections to a server.
struct Open {
    url: Arc<str>,
    kinds: [Kind; 2],
}

/// Connections for one kind of calls, which take turns.
struct Kind {
    channels: Vec<Channel>,
    next: AtomicUsize,
}

impl Links {
    pub(super) fn new(tls: Option<ClientTlsConfig>, limits: &Limits) -> Self {
        let count = |calls: u64| calls.div_ceil(limits.connection_streams.max(1)).clamp(1, LINKS_MAX) as usize;
        Self { tls, counts: [limits.watchers, limits.requests].map(count), open: Mutex::default() }
    }

    /// Sends a call, and waits for the head of its answer. The error describes the cause.
    pub(super) async fn send(
        &self,
        url: &Arc<str>,
        rule: &Rule,
        request: Request<Body>,
    ) -> Result<Response<Body>, String> {
        let mut channel = self.channel(url, rule).map_err(|error| causes(&error))?;
        let ready = channel.ready().await.map_err(|error| causes(&error))?;
        ready.call(request).await.map_err(|error| causes(&error))
    }

    fn channel(&self, url: &Arc<str>, rule: &Rule) -> Result<Channel, tonic::transport::Error> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let links = match open.iter().position(|links| links.url == *url) {
            Some(place) => open.remove(place),
            None => Arc::new(self.connect(url)?),
        };
        if open.len() >= SERVERS_MAX {
            open.remove(0);
        }
        open.push(links.clone());
        drop(open);
        let Kind { channels, next } = &links.kinds[usize::from(rule.load != Load::Wait)];
        Ok(channels[next.fetch_add(1, Relaxed) % channels.len()].clone())
    }

    fn connect(&self, url: &Arc<str>) -> Result<Open, tonic::transport::Error> {
        let mut endpoint = Endpoint::from_shared(url.to_string())?
            .connect_timeout(HANDSHAKE_TIMEOUT)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .http2_keep_alive_interval(PROBE_INTERVAL)
            .keep_alive_timeout(PROBE_TIMEOUT);
        if let Some(tls) = self.tls.as_ref().filter(|_| url.starts_with("https:")) {
            endpoint = endpoint.tls_config(tls.clone())?;
        }
        // With the connector of tonic, the time limit would not cover the handshake.
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let kinds = self.counts.map(|count| Kind {
            channels: (0..count).map(|_| endpoint.connect_with_connector_lazy(connector.clone())).collect(),
            next: AtomicUsize::default(),
        });
        Ok(Open { url: url.clone(), kinds })
    }
}

impl fmt::Debug for Links {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Links").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// The error with its causes.
fn causes(error: &tonic::transport::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::auth::policy;

    #[tokio::test]
    async fn a_server_that_accepts_connections_and_never_answers_fails_a_call_soon() {
        // The system accepts connections for this socket, and nothing answers.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap();
        // Any provider of the process serves the client.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let rule = policy::rule("/cloakwork.v1.JobService/GetJob").unwrap();
        for (scheme, tls) in [("http", None), ("https", Some(ClientTlsConfig::new().domain_name("server")))] {
            let links = Links::new(tls, &Limits::default());
            let url: Arc<str> = format!("{scheme}://{address}").into();
            let begun = Instant::now();
            let request = Request::post(rule.method).body(Body::empty()).unwrap();
            let sent = tokio::time::timeout(Duration::from_secs(30), links.send(&url, rule, request)).await;
            assert!(sent.expect("an end").is_err(), "{scheme}");
            assert!(begun.elapsed() < Duration::from_secs(10), "{scheme}: {:?}", begun.elapsed());
        }
    }
}
