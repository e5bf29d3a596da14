//! Where calls are handled: by the server that owns the shard of the caller's tenant.
//!
//! Any other server passes the call on to the owner. If the owner stops or fails before its answer,
//! the server repeats the call: at the next owner, or here, once this server has taken the shard
//! over. A repetition has no second effect, because the protocol demands a request id for each
//! request that creates something. So callers notice a change of the owner as a delay only. A
//! deletion that is repeated may find nothing, and then its answer says so. Two kinds of calls are
//! not repeated:
//!
//! - Streams of messages. Clients continue an upload where it broke off.
//! - Calls whose answer has begun, such as downloads. Their callers see the answer break off.
//!
//! The owner checks the token of a call again. A call that was passed on never counts as a call
//! from the owner's own machine, and never has a client certificate.
//!
//! Calls of workers are not passed on. A worker serves one shard, which its calls name in a header,
//! and a server that does not own the shard names the server that does.

mod caller;
mod handled;
mod homes;
mod links;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use cloakwork_proto::SHARD_OF_WORKER;
use http::{HeaderValue, Request, Response, request::Parts};
use http_body::Body as HttpBody;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, body::Body, service::Routes, transport::ClientTlsConfig};
use tonic_types::StatusExt as _;
use tower::Service as _;

use self::{caller::CallerBody, homes::Home, links::Links};
pub use self::{handled::Handled, homes::Homes};
use super::{arrival::FORWARDED_BY_SERVER, deadline::Deadline};
use crate::{
    auth::{
        Peer, Principal,
        policy::{Access, Load, Rule},
    },
    error::{ApiError, DRAINING, INTERNAL, NOT_OWNER},
    limits::Limits,
    message::{self, Whole},
    metrics::Telemetry,
};

/// Brings calls to the server that handles them.
#[derive(Debug)]
pub struct Forward {
    /// Health, reflection and the service of operators, which each server answers for itself.
    standard: Routes,
    homes: watch::Receiver<Homes>,
    handled: Arc<Handled>,
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
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Forward {
    /// Calls go where `homes` says. `standard` are the services that each server answers for
    /// itself. With `tls`, the owner must present a certificate that `tls` accepts. Once `draining`
    /// is cancelled, calls wait for no owner and no job.
    pub fn new(
        standard: Routes,
        homes: watch::Receiver<Homes>,
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
        Self { standard, homes, handled: Arc::default(), links, owner_wait, message_bytes_max, telemetry, draining }
    }

    /// Calls are handled here.
    #[cfg(test)]
    pub(crate) fn here(routes: Routes, limits: &Limits, telemetry: Arc<Telemetry>) -> Self {
        let (_, homes) = watch::channel(Homes::default().with(0, routes.clone()));
        Self::new(routes, homes, None, limits, telemetry, CancellationToken::new())
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
        if rule.access == Access::Anyone || rule.is_of_operators() {
            return Ok(handle(self.standard.clone(), request).await);
        }
        if rule.is_of_workers() {
            return self.of_worker(peer, request).await;
        }
        let principal = request.extensions().get::<Principal>().cloned();
        let Some(caller) = principal else { return Err(INTERNAL.error("a call has no caller")) };
        // A move waits for the calls that are counted here. A call is counted before the look,
        // because the move may begin between the two.
        let handling = self.handled.begin(caller.tenant.clone());
        let home = self.homes.borrow().of(&caller);
        match home {
            Home::Here(routes) => Ok(handle(routes, request).await),
            Home::At(_) | Home::Nowhere => {
                drop(handling);
                self.forward(peer, rule, &caller, request.map(Body::new)).await
            }
        }
    }

    /// Handles the call of a worker, unless the worker serves another shard.
    async fn of_worker<B>(&self, peer: Peer, request: Request<B>) -> Result<Response<Body>, ApiError>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let shard = request.headers().get(SHARD_OF_WORKER).and_then(|shard| shard.to_str().ok()?.parse().ok());
        let home = self.homes.borrow().of_worker(shard.filter(|_| peer != Peer::Embedded));
        match home {
            (shard, Home::Here(routes)) => {
                let mut answer = handle(routes, request).await;
                answer.headers_mut().insert(SHARD_OF_WORKER, HeaderValue::from(shard));
                Ok(answer)
            }
            (shard, home) => Err(elsewhere(shard, &home)),
        }
    }

    async fn forward(
        &self,
        peer: Peer,
        rule: &Rule,
        caller: &Principal,
        request: Request<Body>,
    ) -> Result<Response<Body>, ApiError> {
        // Two servers that take each other for the owner would pass a call on for ever.
        if request.headers().contains_key(FORWARDED_BY_SERVER) {
            // Anyone can send the header, so the answer does not name the owner.
            return Err(elsewhere(self.homes.borrow().shard_of(caller), &Home::Nowhere));
        }
        let answer = match rule.load {
            Load::Stream => self.pass_on(peer, rule, caller, request).await,
            // The owner answers such a call at the end of the job, possibly hours later.
            Load::Wait => tokio::select! {
                biased;
                answer = self.repeat_until_answered(peer, rule, caller, request) => answer,
                () = self.draining.cancelled() => Err(stopping()),
            },
            _ => self.repeat_until_answered(peer, rule, caller, request).await,
        };
        let outcome = if answer.is_ok() { "answered" } else { "failed" };
        self.telemetry.metrics.forwarded.add(1, [outcome]);
        answer
    }

    /// Handles a call here, after a wait for this server to own the shard.
    async fn handle_here(&self, caller: &Principal, request: Request<Body>) -> Result<Response<Body>, ApiError> {
        let _handling = self.handled.begin(caller.tenant.clone());
        let home = self.homes.borrow().of(caller);
        match home {
            Home::Here(routes) => Ok(handle(routes, request).await),
            home => Err(elsewhere(caller.shard, &home)),
        }
    }

    /// Calls that are handled here.
    pub fn handled(&self) -> Arc<Handled> {
        self.handled.clone()
    }

    /// Passes a stream of messages on, once.
    async fn pass_on(
        &self,
        peer: Peer,
        rule: &Rule,
        caller: &Principal,
        request: Request<Body>,
    ) -> Result<Response<Body>, ApiError> {
        let mut homes = self.homes.clone();
        let known = homes.wait_for(|homes| !matches!(homes.of(caller), Home::Nowhere));
        let known = tokio::select! {
            known = tokio::time::timeout(self.owner_wait, known) => known,
            () = self.draining.cancelled() => return Err(stopping()),
        };
        match known.map(|known| known.map(|homes| homes.of(caller))) {
            Ok(Ok(Home::Here(_))) => self.handle_here(caller, request).await,
            Ok(Ok(Home::At(url))) => {
                let (parts, body) = request.into_parts();
                let (body, fault) = CallerBody::new(body);
                match self.links.send(&url, rule, onward(&parts, peer, Body::new(body))).await {
                    Ok(answer) => Ok(answer),
                    Err(failure) => match fault.get() {
                        // The caller has sent too much, or nothing for too long. The owner is well.
                        Some(status) => Ok(status.clone().into_http()),
                        None => Err(no_owner(&homes.borrow().of(caller), &failure)),
                    },
                }
            }
            _ => Err(no_owner(&Home::Nowhere, "")),
        }
    }

    /// Repeats a request of one message until a server has handled it.
    async fn repeat_until_answered(
        &self,
        peer: Peer,
        rule: &Rule,
        caller: &Principal,
        request: Request<Body>,
    ) -> Result<Response<Body>, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = match message::whole(body, self.message_bytes_max).await {
            Ok(bytes) => bytes,
            Err(status) => return Ok(status.into_http()),
        };
        let mut homes = self.homes.clone();
        let mut caller = caller.clone();
        let (mut give_up, mut begun) = (Instant::now() + self.owner_wait, Instant::now());
        let mut cause = String::new();
        loop {
            // An owner may have worked on the call for long before it failed.
            if begun.elapsed() > self.owner_wait / 2 {
                give_up = Instant::now() + self.owner_wait;
            }
            begun = Instant::now();
            let home = {
                let homes = homes.borrow_and_update();
                // The call may wait for longer than the news of a move is kept.
                caller.shard = homes.shard_of(&caller);
                homes.of(&caller)
            };
            let body = Body::new(Whole(bytes.clone()));
            match &home {
                Home::Here(_) => match self.handle_here(&caller, Request::from_parts(parts.clone(), body)).await {
                    Err(error) if error.reason() == NOT_OWNER => {}
                    answer => return answer,
                },
                Home::At(url) => {
                    let sent = tokio::select! {
                        biased;
                        sent = self.links.send(url, rule, onward(&parts, peer, body)) => sent,
                        () = changed(&mut homes, &caller, &home) => continue,
                    };
                    match sent {
                        Ok(answer) if !is_turned_away(&answer) => return Ok(answer),
                        Ok(_) => "it does not own the shard, or stops".clone_into(&mut cause),
                        Err(failure) => {
                            tracing::debug!(%failure, %url, "a call is repeated");
                            cause = failure;
                        }
                    }
                }
                Home::Nowhere => {}
            }
            let has_failed_early = begun.elapsed() <= self.owner_wait / 2;
            if has_failed_early && Instant::now() >= give_up {
                return Err(no_owner(&home, &cause));
            }
            tokio::select! {
                () = self.draining.cancelled() => return Err(stopping()),
                () = changed(&mut homes, &caller, &home) => {}
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

/// Waits until the caller has another home.
async fn changed(homes: &mut watch::Receiver<Homes>, caller: &Principal, home: &Home) {
    if homes.wait_for(|homes| !homes.of(caller).is(home)).await.is_err() {
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

/// The refusal of a call that the caller sends to the owner of a shard itself.
fn elsewhere(shard: i32, home: &Home) -> ApiError {
    let error = NOT_OWNER.error("another server owns the shard").retry_after(REPEAT_PAUSE);
    let error = error.with("shard", shard.to_string());
    match home {
        Home::At(url) => error.with("owner", url.as_ref()),
        Home::Nowhere | Home::Here(_) => error,
    }
}

/// The error of a call that no owner has answered. The cause is for operators alone.
fn no_owner(home: &Home, cause: &str) -> ApiError {
    let message = match home {
        Home::At(url) => {
            tracing::warn!(%url, cause, "the owner of a shard does not answer");
            "the server that owns the tenant's shard does not answer"
        }
        Home::Nowhere | Home::Here(_) => "no server owns the tenant's shard",
    };
    NOT_OWNER.error(message).retry_after(RETRY_DELAY)
}

#[cfg(test)]
mod tests;
