//! The gRPC edge: the checks that every call passes before its handler runs.
//!
//! On its way in, a call passes the table of rights, authentication, the limits on concurrent calls
//! and its deadline. On its way out, each error gets a reason, and the call is counted in the
//! metrics.

mod admission;
mod answers;
mod arrival;
mod attempt;
mod body;
mod call;
mod deadline;
mod embedded;
mod forward;
mod memory;
mod probe;
mod request;

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use cloakwork_trace::{TRACEPARENT, TraceContext};
use http::{
    HeaderValue, Request, Response, StatusCode,
    header::{ALLOW, AUTHORIZATION},
};
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::{
    net::TcpListener,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tonic::{Status, body::Body};
use tracing::Instrument as _;

pub use deadline::Deadline;
pub use embedded::Door;
pub use forward::{Forward, Handled, Homes};
pub use memory::Held;

use crate::{
    address::Act,
    audit::Audit,
    auth::{
        Authenticator, Peer,
        policy::{self, Load, Port, Rule},
    },
    connection::{self, Callers, Connection, ConnectionLimits, Slot},
    error::{ADDRESS_LIMITED, ApiError, DRAINING, METHOD_UNKNOWN},
    limits::Limits,
    metrics::Telemetry,
    tenant::Tenant,
};
use admission::Admission;
use answers::Answers;
use arrival::{Arrivals, Charge};
use attempt::Attempt;
use body::{Answer, Cut, Guarded, Taken};
use call::{Call, CallTrace, RequestState};
use memory::Memory;
use probe::{Probe, Probes};
use request::Received;

/// Maximum length of a frame that a peer may send. With the usual 16 KiB, uploading a key is slow
/// because of the cost per frame header.
const FRAME_BYTES: u32 = 1 << 20;

/// Maximum number of streams that a proxy's connection may reset before the server has accepted
/// them. The value exceeds the number of frames that one read of a connection can return.
const PROXY_RESET_STREAMS_MAX: usize = 4096;

/// The server's gRPC service: admission, routing and accounting of calls.
#[derive(Debug)]
pub struct Edge {
    authenticator: Arc<Authenticator>,
    callers: Callers,
    admission: Arc<Admission>,
    probes: Arc<Probes>,
    memory: Memory,
    /// Memory for the answers to workers. These answers do not count against the limit of the
    /// workers' tenant, because many workers share one token.
    worker_answers: Memory,
    telemetry: Arc<Telemetry>,
    forward: Forward,
    audit: Arc<Audit>,
    limits: Limits,
    draining: CancellationToken,
}

impl Edge {
    /// Creates an edge that passes admitted calls to `forward`. Once `draining` is cancelled, the
    /// edge accepts no further connections and ends the streams that would otherwise never end.
    ///
    /// Handlers find [`Principal`](crate::auth::Principal), [`Deadline`] and [`Peer`] in the
    /// extensions of a request.
    pub fn new(
        authenticator: Arc<Authenticator>,
        callers: Callers,
        telemetry: Arc<Telemetry>,
        forward: Forward,
        audit: Arc<Audit>,
        limits: &Limits,
        draining: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            authenticator,
            callers,
            admission: Arc::new(Admission::new(limits)),
            probes: Probes::new(limits.probes),
            memory: Memory::new(limits),
            worker_answers: Memory::of_workers(limits),
            telemetry,
            forward,
            audit,
            limits: limits.clone(),
            draining,
        })
    }

    /// The use of limits: name, use and limit of each.
    pub fn uses(&self) -> [(&'static str, u64, u64); 3] {
        let Limits { requests, watchers, held_bytes, .. } = self.limits;
        let [used_requests, used_watchers] = self.admission.used();
        [
            ("requests", used_requests, requests),
            ("watchers", used_watchers, watchers),
            ("message_bytes", self.memory.used(), held_bytes),
        ]
    }

    /// Calls of tenants that this server handles.
    pub fn handled(&self) -> Arc<Handled> {
        self.forward.handled()
    }

    /// Serves a port until the server drains, and returns when the remaining calls have ended.
    pub async fn serve(self: Arc<Self>, port: Port, listener: TcpListener, tls: Option<Arc<ServerConfig>>) {
        let Limits { connections, tenant_connections, address_connections, .. } = self.limits;
        let [connections, tenant_connections, address_connections] =
            [connections, tenant_connections, address_connections]
                .map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let limits = ConnectionLimits {
            connections,
            tenant_connections,
            address_connections,
            unauthenticated_bytes: self.limits.unauthenticated_bytes,
            header_timeout: Duration::from_millis(self.limits.header_timeout_ms),
            idle_timeout: Duration::from_millis(self.limits.idle_timeout_ms),
        };
        let (callers, draining) = (self.callers.clone(), self.draining.clone());
        connection::serve(listener, tls, limits, callers, draining.clone(), move |connection, peer| {
            self.clone().serve_connection(port, connection, peer, draining.clone())
        })
        .await;
    }

    async fn serve_connection(
        self: Arc<Self>,
        port: Port,
        connection: Connection,
        peer: Peer,
        stop: CancellationToken,
    ) {
        let Limits {
            connection_streams, stream_window_bytes, connection_window_bytes, header_list_bytes, ping_ms, ..
        } = self.limits;
        let [streams, stream_window, connection_window, header_list] =
            [connection_streams, stream_window_bytes, connection_window_bytes, header_list_bytes]
                .map(|limit| u32::try_from(limit).unwrap_or(u32::MAX));
        let (slot, backlog) = (connection.slot(), connection.backlog());
        let is_proxy = slot.is_proxy();
        let arrivals = Arrivals {
            slot: slot.clone(),
            peer,
            proxies: self.callers.proxies.clone(),
            header_fields_max: self.limits.header_fields,
        };
        let answers = Arc::<Answers>::default();
        let its_answers = answers.clone();
        let service = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
            // The request is received outside the future. A connection decodes many requests before
            // the first of their futures runs, and each decoded request would keep a buffer of the
            // connection in memory.
            let (peer, received) = arrivals.receive(request);
            let (edge, slot, scheduled) = (self.clone(), slot.clone(), backlog.schedule());
            let answers = its_answers.clone();
            async move {
                drop(scheduled);
                Ok::<_, Infallible>(match received {
                    Ok(mut request) => {
                        request.extensions_mut().insert(answers);
                        edge.handle(port, peer, request).await
                    }
                    Err((status, error)) => {
                        let mut response = edge.refuse(peer, Some(&slot), "_OTHER", error);
                        *response.status_mut() = status;
                        if status == StatusCode::METHOD_NOT_ALLOWED {
                            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
                        }
                        response
                    }
                })
            }
        });
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new())
            .max_concurrent_streams(streams)
            .initial_stream_window_size(stream_window)
            .initial_connection_window_size(connection_window)
            .max_header_list_size(header_list)
            .max_frame_size(FRAME_BYTES)
            .keep_alive_interval(Duration::from_millis(ping_ms))
            .keep_alive_timeout(Duration::from_millis(ping_ms));
        if is_proxy {
            // The HTTP library closes a connection on which a peer resets many streams or sends
            // many malformed streams. Behind a proxy, other callers share that connection. The
            // library counts malformed streams over the connection's whole life, so any finite
            // limit would eventually close the connection.
            http.max_pending_accept_reset_streams(PROXY_RESET_STREAMS_MAX).max_local_error_reset_streams(None);
        }
        let mut running = pin!(http.serve_connection(TokioIo::new(connection), service));
        let served = async {
            tokio::select! {
                ended = running.as_mut() => ended,
                () = stop.cancelled() => {
                    running.as_mut().graceful_shutdown();
                    running.await
                }
            }
        };
        let ended = tokio::select! {
            ended = served => ended,
            () = answers.end_stalled(), if !is_proxy => {
                tracing::debug!(?peer, "closed a connection whose peer reads nothing");
                return;
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, ?peer, "a connection failed");
        }
    }

    /// Handles one call from its request headers to its response.
    pub async fn handle<B>(self: Arc<Self>, port: Port, peer: Peer, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    {
        let Some(rule) = policy::rule(request.uri().path()).filter(|rule| rule.is_served_on(port)) else {
            let error = METHOD_UNKNOWN.error("the server has no such method");
            return self.refuse(peer, request.extensions().get(), "_OTHER", error);
        };
        let deadline = match Deadline::of(request.headers()) {
            Ok(deadline) => deadline,
            Err(error) => return self.refuse(peer, request.extensions().get(), rule.method, error),
        };
        let mut call = Call::begin(self.telemetry.clone(), rule.method);
        let is_long_lived = matches!(rule.load, Load::Wait | Load::Attached | Load::Stream);
        let credentials: Option<Vec<_>> =
            is_long_lived.then(|| request.headers().get_all(AUTHORIZATION).into_iter().cloned().collect());
        let answers = request.extensions().get::<Arc<Answers>>().cloned();
        let work = self.work(peer, rule, deadline, request, call.request());
        let work = async {
            match deadline.0 {
                Some(at) => tokio::time::timeout_at(at, work).await.unwrap_or_else(|_| Err(deadline::exceeded())),
                None => work.await,
            }
        };
        let outcome = tokio::select! {
            // A call that has ended keeps its outcome, even if its credentials expire in that poll.
            biased;
            outcome = work => outcome,
            error = self.refused(peer, rule, credentials.as_deref()) => Err(error),
        };
        match outcome {
            Ok((mut response, taken)) => {
                call.end(response.headers_mut());
                let cut = self.cut(peer, rule, deadline, credentials, &taken);
                response.map(|body| Body::new(Guarded::new(Answer::new(body, cut, call, taken, answers))))
            }
            Err(error) => {
                self.audit.refused(peer.address(), rule.method, &error);
                let mut response = empty();
                call.fail(error, response.headers_mut());
                response
            }
        }
    }

    async fn work<B>(
        &self,
        peer: Peer,
        rule: &Rule,
        deadline: Deadline,
        mut request: Request<B>,
        state: RequestState,
    ) -> Result<(Response<Body>, Taken), ApiError>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    {
        let charge = request.extensions_mut().remove::<Charge>();
        let slot = request.extensions_mut().remove::<Arc<Slot>>();
        let attempt = Attempt::begin(self, peer, slot.as_ref(), request.headers());
        let admitted = self.authenticator.admit(peer, request.headers(), rule).await;
        attempt.settle(&admitted);
        if admitted.is_err()
            && let Some(slot) = &slot
        {
            slot.disown();
        }
        let principal = admitted?;
        request.extensions_mut().insert(deadline);
        request.extensions_mut().insert(peer);
        let Some(principal) = principal else {
            let debt = self.charge(peer, slot.as_ref(), Act::Call);
            // A direct connection is paused instead: its next calls stay unread.
            if !debt.is_zero() && slot.is_some_and(|slot| slot.is_proxy()) {
                let message = "too many calls without a token come from this address (address_calls_per_second)";
                return Err(ADDRESS_LIMITED.error(message).retry_after(debt));
            }
            return self.probe(peer, rule, request, charge, state).await;
        };
        let tenant = principal.tenant.clone();
        if let Some(slot) = slot {
            slot.authenticate(&tenant);
        }
        drop(charge);
        // The embedded worker shares the memory of this process, so its calls have no limits here.
        let load = if peer == Peer::Embedded { Load::Free } else { rule.load };
        let place = self.admission.enter(load, &tenant)?;
        let logged = self.trace(rule, &mut request, &tenant, &state);
        request.extensions_mut().insert(principal);
        if peer == Peer::Embedded {
            let response = self.forward.route(peer, rule, request).instrument(logged).await?;
            return Ok((response, Taken::Tenant(place, None)));
        }
        let received = |body, held| Received::new(body, held, rule, &self.limits, state);
        // Reports do not count against the memory for messages, which tenants may fill: a worker
        // whose reports are refused loses its jobs. The places of streams limit their memory.
        if rule.load == Load::Attached {
            let request = request.map(|body| received(body, None));
            let response = self.forward.route(peer, rule, request).instrument(logged).await?;
            return Ok((response, Taken::Tenant(place, None)));
        }
        let memory = self.memory.of(&tenant);
        let held = Arc::new(memory.hold());
        request.extensions_mut().insert(held.clone());
        // A call that waits for a job releases its request before the answer. For other calls, the
        // edge holds the request's bytes until the handler returns.
        let until_answered = (rule.load != Load::Wait).then(|| held.clone());
        let request = request.map(|body| received(body, Some(held)));
        let response = self.forward.route(peer, rule, request).instrument(logged).await?;
        drop(until_answered);
        let answers = if rule.load == Load::Free { self.worker_answers.of(&tenant) } else { memory };
        Ok((response, Taken::Tenant(place, Some(answers))))
    }

    /// Begins the span of a call, if the call is traced. The handler finds the span's context in
    /// the extensions of the request, and the next server in its headers. Calls of workers begin
    /// no traces. Returns the span of log lines, which name the trace.
    fn trace<B>(&self, rule: &Rule, request: &mut Request<B>, tenant: &Tenant, state: &RequestState) -> tracing::Span {
        let given = request.headers().get(TRACEPARENT).and_then(|value| TraceContext::parse(value.to_str().ok()?));
        // A traced job brings calls of its worker, which belong to the trace that was counted.
        let context = match rule.is_of_workers() {
            true => given.and_then(|given| self.telemetry.tracer.child(given)),
            false => self.telemetry.enter(given),
        };
        let Some(context) = context else { return tracing::Span::none() };
        if let Ok(value) = HeaderValue::from_str(&context.to_string()) {
            request.headers_mut().insert(TRACEPARENT, value);
        }
        request.extensions_mut().insert(context);
        let (at, at_nanos) = (std::time::Instant::now(), self.telemetry.now_nanos());
        let parent = given.map(|given| given.span);
        state.trace(CallTrace { context, parent, tenant: tenant.clone(), at, at_nanos });
        tracing::info_span!("call", trace_id = %context.trace)
    }

    /// Charges the caller's address for an unauthenticated act, and pauses reading of the
    /// connection while the address is in debt. Returns the duration of the debt.
    fn charge(&self, peer: Peer, slot: Option<&Arc<Slot>>, act: Act) -> Duration {
        let (Some(addresses), Some(address)) = (&self.callers.addresses, peer.address()) else {
            return Duration::ZERO;
        };
        let mut debt = addresses.charge(address, act);
        if matches!(act, Act::Failure) {
            // A call with a wrong token is an unauthenticated call as well.
            debt = debt.max(addresses.charge(address, Act::Call));
        }
        if let Some(slot) = slot {
            slot.pause(debt);
        }
        debt
    }

    /// Handles a call that needs no token.
    async fn probe<B>(
        &self,
        peer: Peer,
        rule: &Rule,
        request: Request<B>,
        charge: Option<Charge>,
        state: RequestState,
    ) -> Result<(Response<Body>, Taken), ApiError>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    {
        let place = self.probes.enter(rule.load);
        let idle = Duration::from_millis(self.limits.probe_idle_ms);
        let reading = charge.clone();
        let request = request.map(|body| probe::read_at_once(body, idle, state, reading));
        tokio::select! {
            response = self.forward.route(peer, rule, request) => {
                Ok((response?, Taken::Probe(place, charge.map(|charge| charge.call))))
            }
            () = place.evicted() => Err(Probe::eviction()),
        }
    }

    /// Returns a future that resolves with the error that ends a response body early: an expired
    /// deadline, a lost right, an eviction or the drain. Returns `None` if none of these applies to
    /// the call.
    fn cut(
        self: Arc<Self>,
        peer: Peer,
        rule: &'static Rule,
        Deadline(at): Deadline,
        credentials: Option<Vec<HeaderValue>>,
        taken: &Taken,
    ) -> Option<Cut> {
        let waits = matches!(rule.load, Load::Wait | Load::ProbeStream);
        if at.is_none() && !waits && credentials.is_none() {
            return None;
        }
        let draining = self.draining.clone();
        let evicted = taken.evicted();
        Some(Box::pin(async move {
            tokio::select! {
                error = self.refused(peer, rule, credentials.as_deref()) => error,
                error = evicted => error,
                () = async { sleep_until(at.unwrap_or_else(Instant::now)).await }, if at.is_some() => deadline::exceeded(),
                () = draining.cancelled(), if waits => DRAINING.error("the server is about to stop"),
            }
        }))
    }

    /// Resolves when the authenticator no longer accepts the caller's credentials. Never resolves
    /// for calls whose credentials are checked only at their start (`credentials` is `None`).
    async fn refused(&self, peer: Peer, rule: &Rule, credentials: Option<&[HeaderValue]>) -> ApiError {
        match credentials {
            Some(credentials) => self.authenticator.refused(peer, credentials, rule).await,
            None => std::future::pending().await,
        }
    }

    /// Refuses a call before authentication.
    fn refuse(&self, peer: Peer, slot: Option<&Arc<Slot>>, method: &'static str, error: ApiError) -> Response<Body> {
        self.charge(peer, slot, Act::Call);
        let mut response = empty();
        Call::begin(self.telemetry.clone(), method).fail(error, response.headers_mut());
        response
    }
}

/// Returns a response that consists of headers only and has no gRPC status yet.
fn empty() -> Response<Body> {
    let mut response = Status::ok("").into_http();
    response.headers_mut().remove(Status::GRPC_STATUS);
    response
}

#[cfg(test)]
mod tests;
