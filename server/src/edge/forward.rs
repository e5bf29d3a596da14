//! Where calls are handled: by the server that owns the database.
//!
//! A server that does not own the database passes each call on to the owner. If the owner stops or
//! fails before its answer, the server repeats the call: at the next owner, or here, once this
//! server has taken the database over. A repetition has no second effect, because the protocol
//! demands a request id for each request that creates something. So callers notice a change of the
//! owner as a delay only. Two kinds of calls are not repeated:
//!
//! - Streams of messages. Clients continue an upload where it broke off.
//! - Calls whose answer has begun, such as downloads. Their callers see the answer break off.
//!
//! The owner checks the token of a call again. A call that was passed on never counts as a call
//! from the owner's own machine, and never has a client certificate.

mod links;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::Body as HttpBody;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, body::Body, service::Routes, transport::ClientTlsConfig};
use tonic_types::StatusExt as _;
use tower::Service as _;

use self::links::Links;
use super::{arrival::FORWARDED_BY_SERVER, deadline::Deadline};
use crate::{
    auth::{
        Peer,
        policy::{Access, Load, Rule},
    },
    error::{ApiError, DRAINING, NOT_OWNER},
    limits::Limits,
    message::{self, Whole},
    metrics::Telemetry,
};

/// The server that handles calls.
#[derive(Clone, Debug)]
pub enum Home {
    /// No server owns the database, as far as is known.
    Nowhere,
    /// The server with this URL owns the database.
    At(Arc<str>),
    /// This server owns the database.
    Here(Routes),
}

/// Brings calls to the server that handles them.
#[derive(Debug)]
pub struct Forward {
    /// Health and reflection, which each server answers for itself.
    standard: Routes,
    home: watch::Receiver<Home>,
    links: Links,
    owner_wait: Duration,
    message_bytes_max: u64,
    telemetry: Arc<Telemetry>,
    /// Cancelled when this server stops.
    draining: CancellationToken,
}

/// Longest time for which a call waits for an owner that answers. A takeover takes up to 4.5 s. An
/// owner that cannot be reached may have lost its machine, so calls wait for it as long.
const OWNER_WAIT_MAX: Duration = Duration::from_secs(10);

/// Pause before a call is repeated, unless the owner changes earlier.
const REPEAT_PAUSE: Duration = Duration::from_millis(100);

/// Delay after which a caller may try again when no owner has answered.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Forward {
    /// Calls go where `home` says. `standard` are the services that each server answers for itself.
    /// With `tls`, the owner must present a certificate that `tls` accepts. Once `draining` is
    /// cancelled, calls wait for no owner and no job.
    pub fn new(
        standard: Routes,
        home: watch::Receiver<Home>,
        tls: Option<ClientTlsConfig>,
        limits: &Limits,
        telemetry: Arc<Telemetry>,
        draining: CancellationToken,
    ) -> Self {
        for outcome in ["answered", "failed"] {
            telemetry.metrics.forwarded.add(0, [outcome]);
        }
        telemetry.metrics.forward_repeats.add(0, []);
        let (links, message_bytes_max) = (Links::new(tls, limits), limits.message_bytes);
        let (standard, owner_wait) = (standard.prepare(), OWNER_WAIT_MAX);
        Self { standard, home, links, owner_wait, message_bytes_max, telemetry, draining }
    }

    /// Calls are handled here.
    #[cfg(test)]
    pub(crate) fn here(routes: Routes, limits: &Limits, telemetry: Arc<Telemetry>) -> Self {
        let (_, home) = watch::channel(Home::Here(routes.clone()));
        Self::new(routes, home, None, limits, telemetry, CancellationToken::new())
    }

    /// Hands a call to its service, here or at the owner.
    pub(super) async fn route<B>(
        &self,
        peer: Peer,
        rule: &Rule,
        request: Request<B>,
    ) -> Result<Response<Body>, ApiError>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let here = match &*self.home.borrow() {
            _ if rule.access == Access::Anyone => Some(self.standard.clone()),
            Home::Here(routes) => Some(routes.clone()),
            Home::At(_) | Home::Nowhere => None,
        };
        match here {
            Some(routes) => Ok(handle(routes, request).await),
            None => self.forward(peer, rule, request.map(Body::new)).await,
        }
    }

    async fn forward(&self, peer: Peer, rule: &Rule, request: Request<Body>) -> Result<Response<Body>, ApiError> {
        // Two servers that take each other for the owner would pass a call on for ever.
        if rule.is_of_workers() || request.headers().contains_key(FORWARDED_BY_SERVER) {
            return Err(self.moved());
        }
        let answer = match rule.load {
            Load::Stream => self.pass_on(peer, rule, request).await,
            // The owner answers such a call at the end of the job, possibly hours later.
            Load::Wait => tokio::select! {
                biased;
                answer = self.repeat_until_answered(peer, rule, request) => answer,
                () = self.draining.cancelled() => Err(stopping()),
            },
            _ => self.repeat_until_answered(peer, rule, request).await,
        };
        let outcome = if answer.is_ok() { "answered" } else { "failed" };
        self.telemetry.metrics.forwarded.add(1, [outcome]);
        answer
    }

    /// The refusal of a call that the caller sends to the owner itself.
    fn moved(&self) -> ApiError {
        let error = NOT_OWNER.error("another server owns the database").retry_after(REPEAT_PAUSE);
        match &*self.home.borrow() {
            Home::At(url) => error.with("owner", url),
            Home::Nowhere | Home::Here(_) => error,
        }
    }

    /// Passes a stream of messages on, once.
    async fn pass_on(&self, peer: Peer, rule: &Rule, request: Request<Body>) -> Result<Response<Body>, ApiError> {
        let mut home = self.home.clone();
        let known = home.wait_for(|home| !matches!(home, Home::Nowhere));
        let known = tokio::select! {
            known = tokio::time::timeout(self.owner_wait, known) => known,
            () = self.draining.cancelled() => return Err(stopping()),
        };
        match known.map(|known| known.map(|home| home.clone())) {
            Ok(Ok(Home::Here(routes))) => Ok(handle(routes, request).await),
            Ok(Ok(Home::At(url))) => {
                let (parts, body) = request.into_parts();
                let sent = self.links.send(&url, rule, onward(&parts, peer, body)).await;
                sent.map_err(|failure| {
                    tracing::debug!(%failure, %url, "a stream was not passed on");
                    no_owner(&home)
                })
            }
            _ => Err(no_owner(&home)),
        }
    }

    /// Repeats a request of one message until a server has handled it.
    async fn repeat_until_answered(
        &self,
        peer: Peer,
        rule: &Rule,
        request: Request<Body>,
    ) -> Result<Response<Body>, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = match message::whole(body, self.message_bytes_max).await {
            Ok(bytes) => bytes,
            Err(status) => return Ok(status.into_http()),
        };
        let mut home = self.home.clone();
        let mut give_up = Instant::now() + self.owner_wait;
        loop {
            let place = home.borrow_and_update().clone();
            let body = Body::new(Whole(bytes.clone()));
            let begun = Instant::now();
            match place {
                Home::Here(routes) => return Ok(handle(routes, Request::from_parts(parts, body)).await),
                Home::At(url) => {
                    let sent = tokio::select! {
                        biased;
                        sent = self.links.send(&url, rule, onward(&parts, peer, body)) => sent,
                        () = changed(&mut home) => continue,
                    };
                    match sent {
                        Ok(answer) if !is_turned_away(&answer) => return Ok(answer),
                        Ok(_) => {}
                        Err(failure) => tracing::debug!(%failure, %url, "a call is repeated"),
                    }
                }
                Home::Nowhere => {}
            }
            // The owner may have worked on the call for long before it failed.
            if begun.elapsed() > self.owner_wait / 2 {
                give_up = Instant::now() + self.owner_wait;
            }
            if Instant::now() >= give_up {
                return Err(no_owner(&home));
            }
            tokio::select! {
                () = self.draining.cancelled() => return Err(stopping()),
                () = changed(&mut home) => {}
                () = sleep(REPEAT_PAUSE) => {}
            }
            self.telemetry.metrics.forward_repeats.add(1, []);
        }
    }
}

async fn handle<B>(mut routes: Routes, request: Request<B>) -> Response<Body>
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    // A router is always ready, so `poll_ready` is not needed.
    match routes.call(request).await {
        Ok(response) => response,
    }
}

/// Waits for the next change of the owner.
async fn changed(home: &mut watch::Receiver<Home>) {
    if home.changed().await.is_err() {
        // The server stops, and the call ends with it.
        std::future::pending().await
    }
}

/// The request as it goes on to the owner: with the headers that a server reads, the time that is
/// left, and the caller's address.
fn onward(parts: &Parts, peer: Peer, body: Body) -> Request<Body> {
    let mut request = Request::new(body);
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = parts.uri.clone();
    *request.headers_mut() = parts.headers.clone();
    if let Some(deadline) = parts.extensions.get::<Deadline>() {
        deadline.write_to(request.headers_mut());
    }
    let address = peer.ip().map(|address| address.to_string());
    let headers = [("x-forwarded-for", address.as_deref()), (FORWARDED_BY_SERVER, Some("1"))];
    for (name, value) in headers {
        if let Some(value) = value.and_then(|value| value.parse().ok()) {
            request.headers_mut().insert(name, value);
        }
    }
    request
}

/// Whether the server has turned the call away, because it is not the owner or not for long.
fn is_turned_away(answer: &Response<Body>) -> bool {
    Status::from_header_map(answer.headers()).is_some_and(|status| {
        let reason = || status.get_details_error_info().map(|info| info.reason);
        status.code() == Code::Unavailable
            && reason().is_some_and(|reason| [DRAINING.code, NOT_OWNER.code].contains(&reason.as_str()))
    })
}

/// The error of a call that no owner has answered when this server stops.
fn stopping() -> ApiError {
    DRAINING.error("the server is about to stop")
}

/// The error of a call that no owner has answered.
fn no_owner(home: &watch::Receiver<Home>) -> ApiError {
    let message = match &*home.borrow() {
        Home::At(url) => {
            tracing::warn!(%url, "the owner of the database does not answer");
            "the server that owns the database does not answer"
        }
        Home::Nowhere | Home::Here(_) => "no server owns the database",
    };
    NOT_OWNER.error(message).retry_after(RETRY_DELAY)
}

#[cfg(test)]
mod tests;
