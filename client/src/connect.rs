//! Connection to a server.

use std::time::Duration;

use cloakwork_proto::is_loopback;
use cloakwork_trace::{TRACEPARENT, TraceContext};
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::Interceptor,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};

use crate::{Anchor, ClientError, Result, RetryPolicy, Trust};

/// Address of the server, and how to connect to it.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// `http://host:port`, or `https://` for TLS. A token goes over `http` only to loopback, where
    /// it cannot be read on the way.
    pub url: String,
    /// API token; calls without a token are anonymous. For where the token may go, see
    /// [`Self::url`].
    pub token: Option<Token>,
    /// PEM certificate to trust instead of the system's certificates.
    pub ca_pem: Option<Vec<u8>>,
    /// Client certificate, if the server or a proxy in front of it requires one.
    pub identity: Option<Identity>,
    /// Whose results the client takes.
    pub trust: Trust,
    /// Timeout of establishing a connection.
    pub connect_timeout: Duration,
    /// Timeout of short calls. Transfers of bulk data and calls that wait for a job have no
    /// timeout: keep-alive pings detect a dead connection.
    pub call_timeout: Duration,
    /// Retry policy.
    pub retry: RetryPolicy,
}

impl ConnectOptions {
    /// Default options for a server.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            token: None,
            ca_pem: None,
            identity: None,
            trust: Trust::FirstUse,
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(30),
            retry: RetryPolicy::default(),
        }
    }

    /// Sets the token.
    pub fn token(self, token: Token) -> Self {
        Self { token: Some(token), ..self }
    }

    /// Sets the anchor of the installation whose results the client takes.
    pub fn anchor(self, anchor: Anchor) -> Self {
        Self { trust: Trust::Anchor(anchor), ..self }
    }

    /// A channel that connects on the first call, and whether it leads to this machine.
    pub(crate) fn channel(&self) -> Result<(Channel, bool)> {
        let refused = |problem: String| ClientError::Endpoint { url: self.url.clone(), problem };
        let endpoint = Endpoint::from_shared(self.url.clone()).map_err(|error| refused(root_cause(&error)))?;
        let mut endpoint = sized(endpoint).connect_timeout(self.connect_timeout);
        match endpoint.uri().scheme_str() {
            Some("http") => self.check_plain(endpoint.uri().host().unwrap_or_default()).map_err(refused)?,
            Some("https") => endpoint = endpoint.tls_config(self.tls()).map_err(|error| refused(root_cause(&error)))?,
            _ => return Err(refused("expected http://HOST:PORT or https://HOST:PORT".into())),
        }
        let is_loopback = is_loopback(endpoint.uri().host().unwrap_or_default());
        Ok((endpoint.connect_lazy(), is_loopback))
    }

    fn tls(&self) -> ClientTlsConfig {
        let tls = match &self.ca_pem {
            Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        match &self.identity {
            Some(identity) => tls.identity(identity.0.clone()),
            None => tls,
        }
    }

    /// Refuses secrets and certificates over a connection without encryption.
    fn check_plain(&self, host: &str) -> std::result::Result<(), String> {
        if self.ca_pem.is_some() || self.identity.is_some() {
            return Err("a certificate was given, but only https:// uses one".into());
        }
        if self.token.is_some() && !is_loopback(host) {
            return Err("anyone on the path can read and use a token sent over http://: use https://, or a tunnel \
                        that ends on this machine, such as ssh -L 7270:127.0.0.1:7270, and http://127.0.0.1:7270"
                .into());
        }
        Ok(())
    }
}

/// A client's certificate and its private key. `Debug` does not print them.
#[derive(Clone)]
pub struct Identity(tonic::transport::Identity);

impl Identity {
    /// Reads PEM texts. Invalid texts are refused when a connection is prepared.
    pub fn from_pem(certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        Self(tonic::transport::Identity::from_pem(certificate, key))
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Identity(..)")
    }
}

/// Sets HTTP/2 windows and keep-alive. The windows let a fast line with 100 ms of latency run full
/// with a key of 400 MB.
pub fn sized(endpoint: Endpoint) -> Endpoint {
    endpoint
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(20))
}

const STREAM_WINDOW_BYTES: u32 = 16 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;

/// Largest message in either direction. Keys and long lists travel in chunks far below this size.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// An API token. `Debug` does not print it.
#[derive(Clone)]
pub struct Token(MetadataValue<Ascii>);

impl Token {
    /// Checks that the token can travel in a header.
    pub fn new(token: &str) -> Result<Self> {
        let refused = || ClientError::Endpoint {
            url: "the token".into(),
            problem: "it contains characters that a token cannot have".into(),
        };
        let mut value: MetadataValue<Ascii> = format!("Bearer {}", token.trim()).parse().map_err(|_| refused())?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Token(..)")
    }
}

/// Adds the token, and the context of a trace, to every call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Headers {
    pub(crate) token: Option<Token>,
    pub(crate) trace: Option<TraceContext>,
}

impl Interceptor for Headers {
    fn call(&mut self, mut request: Request<()>) -> std::result::Result<Request<()>, Status> {
        if let Some(Token(value)) = &self.token {
            request.metadata_mut().insert("authorization", value.clone());
        }
        if let Some(trace) = self.trace
            && let Ok(value) = trace.to_string().parse()
        {
            request.metadata_mut().insert(TRACEPARENT, value);
        }
        Ok(request)
    }
}

/// The last cause of an error, which is the most specific one.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
