//! The HTTP client of the export. The exporter of metrics has a thread without a runtime, so the
//! client runs its requests as tasks of the runtime in which it was made.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;

/// Maximum size of an answer in bytes. An answer says how many spans the collector has refused.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Longest time for a whole request.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct TokioClient {
    runtime: Handle,
    client: reqwest::Client,
}

impl TokioClient {
    /// A client that trusts the authority, or those of the system. Must be called in a runtime.
    pub(super) fn new(authority: Option<reqwest::Certificate>) -> Result<Self, reqwest::Error> {
        // An error means only that the process already has a provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder().timeout(TIMEOUT).redirect(reqwest::redirect::Policy::none());
        let builder = match authority {
            Some(authority) => builder.tls_certs_only([authority]),
            None => builder,
        };
        Ok(Self { runtime: Handle::current(), client: builder.build()? })
    }
}

#[async_trait]
impl HttpClient for TokioClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (client, request) = (self.client.clone(), reqwest::Request::try_from(request)?);
        self.runtime.spawn(async move { answer(client.execute(request).await?).await }).await?
    }
}

async fn answer(mut answer: reqwest::Response) -> Result<Response<Bytes>, HttpError> {
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await? {
        if body.len() + piece.len() > ANSWER_BYTES_MAX {
            return Err("the answer of the collector is too large".into());
        }
        body.extend_from_slice(&piece);
    }
    let mut response = Response::builder().status(answer.status()).body(Bytes::from(body))?;
    *response.headers_mut() = answer.headers().clone();
    Ok(response)
}
