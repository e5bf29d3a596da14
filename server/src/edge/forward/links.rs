//! Connections to the owners of shards.

use std::{
    error::Error,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, Uri, uri::Scheme};
use http_body::{Frame, SizeHint};
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{
    Status,
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
    /// Maximum number of calls on a connection.
    calls_max: usize,
    /// The servers that were called last, the latest last.
    open: Mutex<Vec<Arc<Open>>>,
}

/// The connections to a server.
struct Open {
    url: Arc<str>,
    kinds: [Vec<Link>; 2],
}

/// A connection, and the places for calls on it. The owner lets a call beyond its limit for a
/// connection wait until another one ends, and does not say so.
struct Link {
    channel: Channel,
    places: Arc<Semaphore>,
}

/// The body of an answer, which keeps the place of its call.
struct Placed {
    body: Body,
    _place: OwnedSemaphorePermit,
}

impl Links {
    pub(super) fn new(tls: Option<ClientTlsConfig>, limits: &Limits) -> Self {
        let count = |calls: u64| calls.div_ceil(limits.connection_streams.max(1)).clamp(1, LINKS_MAX) as usize;
        let counts = [limits.watchers, limits.requests].map(count);
        let calls_max = usize::try_from(limits.connection_streams.max(1)).unwrap_or(usize::MAX);
        Self { tls, counts, calls_max: calls_max.min(Semaphore::MAX_PERMITS), open: Mutex::default() }
    }

    /// Sends a call, and waits for the head of its answer. The error describes the cause.
    pub(super) async fn send(
        &self,
        url: &Arc<str>,
        rule: &Rule,
        request: Request<Body>,
    ) -> Result<Response<Body>, String> {
        let (mut channel, place) = self.place(url, rule)?;
        let ready = channel.ready().await.map_err(|error| causes(&error))?;
        let answer = ready.call(request).await.map_err(|error| causes(&error))?;
        Ok(answer.map(|body| Body::new(Placed { body, _place: place })))
    }

    /// A place on the connection with the fewest calls. With connections in turn, the calls of one
    /// tenant could fill a connection, and some calls of all others would wait there.
    fn place(&self, url: &Arc<str>, rule: &Rule) -> Result<(Channel, OwnedSemaphorePermit), String> {
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
        let links = &links.kinds[usize::from(rule.load != Load::Wait)];
        let link = links.iter().max_by_key(|link| link.places.available_permits());
        let Link { channel, places } = link.expect("each kind has a connection");
        let place = places.clone().try_acquire_owned().map_err(|_| "all connections are full")?;
        Ok((channel.clone(), place))
    }

    /// Prepares connections to a server. A server with TLS sends no token over a connection without
    /// it, whatever URL the database names.
    fn connect(&self, url: &Arc<str>) -> Result<Open, String> {
        let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
        if self.tls.is_some() && uri.scheme() != Some(&Scheme::HTTPS) {
            return Err("the owner's URL is not https://, although this server uses TLS".to_owned());
        }
        let mut endpoint = Endpoint::from(uri)
            .connect_timeout(HANDSHAKE_TIMEOUT)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .http2_keep_alive_interval(PROBE_INTERVAL)
            .keep_alive_timeout(PROBE_TIMEOUT);
        if let Some(tls) = &self.tls {
            endpoint = endpoint.tls_config(tls.clone()).map_err(|error| causes(&error))?;
        }
        // With the connector of tonic, the time limit would not cover the handshake.
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let link = || Link {
            channel: endpoint.connect_with_connector_lazy(connector.clone()),
            places: Arc::new(Semaphore::new(self.calls_max)),
        };
        let kinds = self.counts.map(|count| (0..count).map(|_| link()).collect());
        Ok(Open { url: url.clone(), kinds })
    }
}

impl http_body::Body for Placed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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
    async fn a_call_takes_a_place_on_the_emptiest_connection() {
        let limits = Limits { requests: 6, connection_streams: 2, ..Limits::default() };
        let links = Links::new(None, &limits);
        let (url, rule) = ("http://127.0.0.1:1".into(), policy::rule("/cloakwork.v1.JobService/GetJob").unwrap());
        let mut places: Vec<_> = (0..6).map(|_| links.place(&url, rule).unwrap().1).collect();
        assert_eq!(links.place(&url, rule).unwrap_err(), "all connections are full");
        // Both places of one connection come free. Turns would lead to the other connections too.
        let semaphore = Arc::as_ptr(places[0].semaphore());
        places.retain(|place| Arc::as_ptr(place.semaphore()) != semaphore);
        assert_eq!(places.len(), 4);
        let again: Vec<_> = (0..2).map(|_| links.place(&url, rule).unwrap().1).collect();
        assert!(again.iter().all(|place| Arc::as_ptr(place.semaphore()) == semaphore));
    }

    #[tokio::test]
    async fn a_server_with_tls_sends_nothing_to_a_url_without() {
        let tls = ClientTlsConfig::new().domain_name("server");
        let rule = policy::rule("/cloakwork.v1.JobService/GetJob").unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let links = Links::new(Some(tls), &Limits::default());
        for (url, is_taken) in [("http://127.0.0.1:1", false), ("HTTPS://127.0.0.1:1", true), ("127.0.0.1:1", false)] {
            assert_eq!(links.place(&url.into(), rule).is_ok(), is_taken, "{url}");
        }
    }

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
