//! The way of a request from the edge to its handler, before the request is decoded.
//!
//! A decoded message takes up to twenty times its bytes: an empty element of two bytes becomes a
//! value of forty. The edge counts bytes and not values. Therefore:
//!
//! - A request of one message is decoded only when it is complete. The library that decodes a
//!   message keeps the decoded message until the request ends, and a caller can delay that end.
//! - The elements of such a message are counted first (`intake/elements.rs`).
//! - For a stream of messages, the handler learns how many bytes have arrived
//!   (`intake/arrived.rs`).

mod arrived;
mod elements;

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body::Body as _;
use tonic::{Status, body::Body, server::NamedService};
use tower::Service;

pub(super) use arrived::Arrived;

use crate::limits::Limits;
use arrived::Metered;

/// Calls whose requests are streams of messages. A test compares the list with the protocol.
const STREAMS: [&str; 4] = [
    "/cloakwork.v1.BlobService/Write",
    "/cloakwork.v1.CiphertextService/Put",
    "/cloakwork.v1.WorkerService/Attach",
    "/cloakwork.v1.WorkerService/CommitResult",
];

/// Bytes before a message: the compression flag and the message's length.
const PREFIX_BYTES: usize = 5;

/// A generated service, behind the checks of this module.
#[derive(Clone, Debug)]
pub struct Intake<S> {
    service: S,
    limits: Arc<Limits>,
}

impl<S> Intake<S> {
    /// Puts the checks before a service.
    pub fn new(service: S, limits: Arc<Limits>) -> Self {
        Self { service, limits }
    }
}

impl<S: NamedService> NamedService for Intake<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Intake<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if STREAMS.contains(&request.uri().path()) {
            let arrived = Arrived::default();
            request.extensions_mut().insert(arrived.clone());
            return Box::pin(self.service.call(request.map(|body| Body::new(Metered::new(body, arrived)))));
        }
        // `poll_ready` has prepared this service, and not the copy that stays.
        let copy = self.service.clone();
        let (mut service, limits) = (std::mem::replace(&mut self.service, copy), self.limits.clone());
        Box::pin(async move {
            match complete(request, &limits).await {
                Ok(request) => service.call(request).await,
                Err(status) => Ok(status.into_http()),
            }
        })
    }
}

/// Waits for the whole of a request of one message, and checks the lists in the message.
async fn complete(request: Request<Body>, limits: &Limits) -> Result<Request<Body>, Status> {
    let (parts, body) = request.into_parts();
    let bytes = whole(body, limits.message_bytes).await?;
    if let Some(message) = message(&bytes) {
        elements::check(parts.uri.path(), message, limits)?;
    }
    Ok(Request::from_parts(parts, Body::new(Whole(bytes))))
}

/// Reads a request of one message to its end, and returns the message with its prefix. The decoder
/// refuses an incomplete message, and a message whose announced length exceeds `bytes_max`.
async fn whole(mut body: Body, bytes_max: u64) -> Result<Bytes, Status> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        // Nothing follows the trailers of a body.
        let Ok(data) = frame?.into_data() else { break };
        if bytes.is_empty() && body.is_end_stream() {
            return Ok(first(data));
        }
        // The pieces are copied. Each is a slice of a buffer of the connection, and would keep the
        // whole buffer in memory.
        bytes.extend_from_slice(&data);
        if announced(&bytes).is_some_and(|length| length > bytes_max) {
            break;
        }
    }
    Ok(first(bytes.freeze()))
}

/// The first message with its prefix, without the bytes that follow it. The library would decode
/// these as further messages, and drop them.
fn first(mut bytes: Bytes) -> Bytes {
    if let Some(length) = announced(&bytes) {
        bytes.truncate(PREFIX_BYTES.saturating_add(usize::try_from(length).unwrap_or(usize::MAX)));
    }
    bytes
}

/// The length of the first message, as its prefix announces it.
fn announced(bytes: &[u8]) -> Option<u64> {
    let [_, length @ ..] = bytes.first_chunk::<PREFIX_BYTES>()?;
    Some(u32::from_be_bytes(*length).into())
}

/// The message without its prefix, or `None` if the message is incomplete or compressed. The
/// decoder refuses both.
fn message(bytes: &[u8]) -> Option<&[u8]> {
    let (length, message) = (announced(bytes)?, bytes.get(PREFIX_BYTES..)?);
    (bytes[0] == 0 && message.len() as u64 == length).then_some(message)
}

/// A body of one piece.
struct Whole(Bytes);

impl http_body::Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        let bytes = std::mem::take(&mut self.0);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(http_body::Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests;
