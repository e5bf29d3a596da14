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
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use tonic::{Status, body::Body, server::NamedService};
use tower::Service;

pub(super) use arrived::Arrived;

use crate::{
    limits::Limits,
    message::{self, Whole},
};
use arrived::Metered;

/// Calls whose requests are streams of messages. A test compares the list with the protocol.
const STREAMS: [&str; 4] = [
    "/cloakwork.v1.BlobService/Write",
    "/cloakwork.v1.CiphertextService/Put",
    "/cloakwork.v1.WorkerService/Attach",
    "/cloakwork.v1.WorkerService/CommitResult",
];

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
    let bytes = message::whole(body, limits.message_bytes).await?;
    if let Some(message) = message::content(&bytes) {
        elements::check(parts.uri.path(), message, limits)?;
    }
    Ok(Request::from_parts(parts, Body::new(Whole(bytes))))
}

#[cfg(test)]
mod tests;
