mod embedded;

use std::time::Duration;

use axum::{Extension, Router, routing::post};
use cloakwork_clock::Clock;
use http::header::AUTHORIZATION;
use http_body::Body as _;
use tokio::sync::{Notify, mpsc};
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic_types::StatusExt as _;

use super::*;
use crate::{
    address::Addresses,
    auth::{Principal, Rules, Scope, TokenStore, policy::REPORT_MESSAGE_BYTES_MAX},
    database::SCHEMAS,
    error::{self, KEY_NOT_FOUND},
    tenant::Tenant,
};

const SUBMIT: &str = "/cloakwork.v1.JobService/SubmitJob";
const GET: &str = "/cloakwork.v1.JobService/GetJob";
const WATCH: &str = "/cloakwork.v1.JobService/WatchJob";
const ATTACH: &str = "/cloakwork.v1.WorkerService/Attach";
const READ_BLOB: &str = "/cloakwork.v1.WorkerService/ReadBlob";
const RUN: &str = "/cloakwork.v1.JobService/RunJob";
const WATCH_HEALTH: &str = "/grpc.health.v1.Health/Watch";
const HEALTH: &str = "/grpc.health.v1.Health/Check";
const LOOPBACK: Peer = network(std::net::Ipv4Addr::LOCALHOST);
const REMOTE: Peer = network(std::net::Ipv4Addr::new(192, 0, 2, 1));

const fn network(address: std::net::Ipv4Addr) -> Peer {
    Peer::Network { address: std::net::IpAddr::V4(address), certified: false, direct: true }
}

pub(super) struct Fixture {
    pub(super) edge: Arc<Edge>,
    telemetry: Arc<Telemetry>,
    pub(super) draining: CancellationToken,
    pub(super) tokens: TokenStore,
    _directory: Arc<tempfile::TempDir>,
}

impl Fixture {
    async fn new(router: Router, limits: Limits) -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        Self::at(directory, limits, |limits, telemetry| Forward::here(router.into(), limits, telemetry)).await
    }

    /// An edge on the database in this directory, which edges may share.
    pub(super) async fn at(
        directory: Arc<tempfile::TempDir>,
        limits: Limits,
        forward: impl FnOnce(&Limits, Arc<Telemetry>) -> Forward,
    ) -> Self {
        let database = cloakwork_tests_database::open(&directory.path().join("server.db"), &SCHEMAS, 1).await;
        let rules = Rules { anonymous: true, worker_mtls: false };
        let audit = Audit::new(database.clone(), Clock::system(), &limits);
        let tokens = TokenStore::new(database, Clock::system());
        let addresses = Arc::new(Addresses::new(&limits));
        let authenticator = Arc::new(Authenticator::new(rules, tokens.clone(), addresses.clone(), &limits));
        let callers = Callers { addresses: Some(addresses), ..Callers::default() };
        let telemetry = Arc::new(Telemetry::new(10).unwrap());
        let draining = CancellationToken::new();
        let forward = forward(&limits, telemetry.clone());
        let edge = Edge::new(authenticator, callers, telemetry.clone(), forward, audit, &limits, draining.clone());
        Self { edge, telemetry, draining, tokens, _directory: directory }
    }

    async fn call(&self, peer: Peer, path: &str, headers: &[(&str, &str)]) -> Response<Body> {
        let mut request = Request::post(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let call = self.edge.clone().handle(Port::Api, peer, request.body(Body::empty()).unwrap());
        // Far longer than any call here takes. A call that hangs must not hang the tests.
        tokio::time::timeout(Duration::from_secs(60), call).await.unwrap()
    }

    pub(super) fn counted(&self, line: &str) -> bool {
        self.telemetry.scrape(cloakwork_telemetry::Format::Prometheus).lines().any(|found| found == line)
    }
}

/// Returns the outcome of a call: from the headers, or from the trailers once the body is read.
pub(super) async fn end(response: Response<Body>) -> (Code, String) {
    let (parts, mut body) = response.into_parts();
    let mut status = Status::from_header_map(&parts.headers);
    while let Some(frame) = tokio::time::timeout(
        Duration::from_secs(60),
        std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)),
    )
    .await
    .unwrap()
    {
        if let Some(trailers) = frame.unwrap().trailers_ref() {
            status = Status::from_header_map(trailers);
        }
    }
    // Handlers of these tests that succeed set no status.
    let status = status.unwrap_or_else(|| Status::ok(""));
    let reason = status.get_details_error_info().map(|info| info.reason).unwrap_or_default();
    (status.code(), reason)
}

fn ok() -> Response<Body> {
    Status::ok("").into_http()
}

fn answering(status: fn() -> Status) -> Router {
    Router::new().route(SUBMIT, post(async move || status().into_http::<axum::body::Body>()))
}

#[tokio::test]
async fn calls_of_unknown_methods_are_refused_and_counted_together() {
    let fixture = Fixture::new(Router::new(), Limits::default()).await;
    for path in ["/", "/cloakwork.v1.JobService/DropTables", "/x/y/z"] {
        let answer = fixture.call(LOOPBACK, path, &[]).await;
        assert_eq!(end(answer).await, (Code::Unimplemented, "METHOD_UNKNOWN".to_owned()), "{path}");
    }
    assert!(fixture.counted("cloakwork_grpc_calls_total{code=\"UNIMPLEMENTED\",method=\"_OTHER\"} 3"));
    assert!(fixture.counted("cloakwork_rejected_total{reason=\"METHOD_UNKNOWN\"} 3"));
}

#[tokio::test]
async fn handlers_receive_the_principal_and_the_deadline_of_authenticated_calls_only() {
    let router = Router::new().route(
        SUBMIT,
        post(async |Extension(caller): Extension<Principal>, Extension(Deadline(at)): Extension<Deadline>| {
            assert_eq!(caller.tenant.as_str(), "local");
            assert!(at.is_some());
            "x"
        }),
    );
    let fixture = Fixture::new(router, Limits::default()).await;
    let answer = fixture.call(LOOPBACK, SUBMIT, &[("grpc-timeout", "1H")]).await;
    assert_eq!(answer.status(), 200);
    assert!(Status::from_header_map(answer.headers()).is_none());
    let answer = fixture.call(REMOTE, SUBMIT, &[]).await;
    assert_eq!(end(answer).await, (Code::Unauthenticated, "UNAUTHENTICATED".to_owned()));
    let answer = fixture.call(LOOPBACK, SUBMIT, &[(AUTHORIZATION.as_str(), "Bearer nonsense")]).await;
    assert_eq!(end(answer).await, (Code::Unauthenticated, "UNAUTHENTICATED".to_owned()));
    let answer = fixture.call(LOOPBACK, SUBMIT, &[("grpc-timeout", "soon")]).await;
    assert_eq!(end(answer).await, (Code::InvalidArgument, "INVALID_ARGUMENT".to_owned()));
}

#[tokio::test]
async fn an_expired_deadline_has_its_own_code() {
    let router = Router::new()
        .route(SUBMIT, post(async || std::future::pending::<()>().await))
        .route(GET, post(async || axum::body::Body::new(Endless { _drop: None })));
    let fixture = Fixture::new(router, Limits::default()).await;
    let expected = (Code::DeadlineExceeded, "DEADLINE_EXCEEDED".to_owned());
    for time in ["0n", "1u", "20m"] {
        assert_eq!(end(fixture.call(LOOPBACK, SUBMIT, &[("grpc-timeout", time)]).await).await, expected, "{time}");
    }
    assert_eq!(end(fixture.call(LOOPBACK, GET, &[("grpc-timeout", "200m")]).await).await, expected);
    assert!(
        fixture.counted(&format!("cloakwork_grpc_calls_total{{code=\"DEADLINE_EXCEEDED\",method=\"{SUBMIT}\"}} 3"))
    );
}

/// A body that never ends. Dropping the body drops its sender, which the test observes.
struct Endless {
    _drop: Option<mpsc::Sender<()>>,
}

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        std::task::Poll::Pending
    }
}

#[tokio::test]
async fn draining_ends_the_streams_that_wait() {
    let (sender, mut dropped) = mpsc::channel::<()>(1);
    let router =
        Router::new().route(WATCH, post(async move || axum::body::Body::new(Endless { _drop: Some(sender.clone()) })));
    let fixture = Fixture::new(router, Limits::default()).await;
    let answer = fixture.call(LOOPBACK, WATCH, &[]).await;
    let ended = tokio::spawn(end(answer));
    fixture.draining.cancel();
    assert_eq!(ended.await.unwrap(), (Code::Unavailable, "DRAINING".to_owned()));
    let Fixture { edge, .. } = fixture;
    drop(edge);
    // The last sender is gone: the body was dropped when it was cut off, and the router with the
    // edge.
    assert_eq!(tokio::time::timeout(Duration::from_secs(60), dropped.recv()).await.unwrap(), None);
}

/// If the stream of a worker whose token is revoked did not end, the worker would receive jobs
/// whose results the server refuses.
#[tokio::test]
async fn a_revoked_token_ends_streams_and_waiting_calls() {
    let endless = async || axum::body::Body::new(Endless { _drop: None });
    let entered = Arc::new(Notify::new());
    let begun = entered.clone();
    let waiting = post(async move || {
        begun.notify_one();
        std::future::pending::<()>().await
    });
    let router = Router::new().route(WATCH, post(endless)).route(ATTACH, post(endless)).route(RUN, waiting);
    let fixture = Fixture::new(router, Limits::default()).await;
    let tenant = Tenant::new("acme").unwrap();
    fixture.tokens.create_tenant(&tenant, 0).await.unwrap();
    let mut streams = Vec::new();
    for (path, scope) in [(WATCH, Scope::Jobs), (ATTACH, Scope::Worker)] {
        let scopes = [scope].into_iter().collect();
        let token = fixture.tokens.create_token(&tenant, scopes, "", None).await.unwrap();
        let shown = format!("Bearer {}", token.reveal());
        streams.push(fixture.call(REMOTE, path, &[(AUTHORIZATION.as_str(), &shown)]).await);
        fixture.tokens.revoke_token(&token.id()).await.unwrap();
    }
    for stream in streams {
        assert_eq!(end(stream).await.0, Code::Unauthenticated);
    }
    // The right is also checked while the handler has not answered yet.
    let token = fixture.tokens.create_token(&tenant, [Scope::Jobs].into_iter().collect(), "", None).await.unwrap();
    let shown = format!("Bearer {}", token.reveal());
    let shown = [(AUTHORIZATION.as_str(), &*shown)];
    let (answer, revoked) = tokio::join!(fixture.call(REMOTE, RUN, &shown), async {
        entered.notified().await;
        fixture.tokens.revoke_token(&token.id()).await
    });
    revoked.unwrap();
    assert_eq!(end(answer).await.0, Code::Unauthenticated);
}

/// Streams without a token take no places of calls that wait for jobs. The oldest such stream is
/// evicted for a new stream, and draining ends them all.
#[tokio::test]
async fn streams_without_a_token_evict_only_each_other() {
    let endless = async || axum::body::Body::new(Endless { _drop: None });
    let router = Router::new().route(WATCH_HEALTH, post(endless)).route(WATCH, post(endless));
    let limits = Limits { watchers: 1, tenant_watchers: 1, probes: 1, ..Limits::default() };
    let fixture = Fixture::new(router, limits).await;
    let evicted = fixture.call(REMOTE, WATCH_HEALTH, &[]).await;
    let probe = fixture.call(REMOTE, WATCH_HEALTH, &[]).await;
    assert_eq!(end(evicted).await.1, "OVERLOADED");
    let watching = fixture.call(LOOPBACK, WATCH, &[]).await;
    assert_eq!(end(fixture.call(LOOPBACK, WATCH, &[]).await).await.1, "OVERLOADED");
    fixture.draining.cancel();
    for answer in [probe, watching] {
        assert_eq!(end(answer).await, (Code::Unavailable, "DRAINING".to_owned()));
    }
}

/// Without eviction and a time limit, an unfinished request without a token would keep its place
/// and its memory.
#[tokio::test]
async fn unfinished_health_checks_are_evicted_or_time_out() {
    let router = Router::new().route(HEALTH, post(echo));
    let fixture = Fixture::new(router, Limits { probes: 2, probe_idle_ms: 50, ..Limits::default() }).await;
    let [(_a, first), (_b, second), (_c, third)] = [(); 3].map(|()| fixture.send(HEALTH));
    assert_eq!(end(first.await.unwrap()).await.1, "OVERLOADED");
    for idle in [second, third] {
        assert_eq!(end(idle.await.unwrap()).await, (Code::DeadlineExceeded, "DEADLINE_EXCEEDED".to_owned()));
    }
}

#[tokio::test]
async fn a_call_beyond_the_limit_is_refused_at_once_but_health_checks_are_not() {
    let (go, entered) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let router = {
        let (go, entered) = (go.clone(), entered.clone());
        Router::new()
            .route(
                SUBMIT,
                post(async move || {
                    entered.notify_one();
                    go.notified().await;
                    "the last byte"
                }),
            )
            .route(HEALTH, post(async || ok().map(axum::body::Body::new)))
    };
    let limits = Limits { requests: 1, tenant_requests: 1, ..Limits::default() };
    let fixture = Arc::new(Fixture::new(router, limits).await);
    let first = tokio::spawn({
        let fixture = fixture.clone();
        async move { fixture.call(LOOPBACK, SUBMIT, &[]).await }
    });
    entered.notified().await;
    let refused = fixture.call(LOOPBACK, SUBMIT, &[]).await;
    let status = Status::from_header_map(refused.headers()).unwrap();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.get_details_error_info().unwrap().reason, "OVERLOADED");
    assert!(status.get_details_retry_info().unwrap().retry_delay.is_some());
    assert!(status.get_details_quota_failure().is_some());
    assert_eq!(end(fixture.call(LOOPBACK, HEALTH, &[]).await).await.0, Code::Ok);
    go.notify_one();
    let response = first.await.unwrap();
    // The call keeps its place until the last byte of its response.
    let refused = fixture.call(LOOPBACK, SUBMIT, &[]).await;
    assert_eq!(end(refused).await.1, "OVERLOADED");
    drop(response);
    go.notify_one();
    assert_eq!(fixture.call(LOOPBACK, SUBMIT, &[]).await.status(), 200);
    assert!(fixture.counted("cloakwork_rejected_total{reason=\"OVERLOADED\"} 2"));
}

/// Reads the request as the real services do, and answers with the same bytes.
async fn echo(body: axum::body::Body) -> Response<axum::body::Body> {
    match axum::body::to_bytes(body, usize::MAX).await {
        Ok(bytes) => Response::new(axum::body::Body::from(bytes)),
        Err(error) => Status::from_error(error.into_inner()).into_http(),
    }
}

/// A message of `length` bytes with its header, as encoded in a body.
fn message(length: u32) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(length.to_be_bytes());
    bytes.resize(5 + length as usize, 7);
    bytes
}

impl Fixture {
    /// Starts a call whose body comes from a channel and ends when the channel is closed.
    fn send(&self, path: &str) -> Sending {
        self.send_with(Request::post(path))
    }

    fn send_with(&self, request: http::request::Builder) -> Sending {
        let (sender, receiver) = mpsc::channel::<Vec<u8>>(1);
        let pieces = tokio_stream::wrappers::ReceiverStream::new(receiver);
        let body = axum::body::Body::from_stream(pieces.map(Ok::<_, Infallible>));
        let call = self.edge.clone().handle(Port::Api, LOOPBACK, request.body(body).unwrap());
        (sender, tokio::spawn(call))
    }

    /// The authorization of a worker.
    async fn worker(&self) -> String {
        let tenant = Tenant::new("workers").unwrap();
        self.tokens.create_tenant(&tenant, 0).await.unwrap();
        let scopes = [Scope::Worker].into_iter().collect();
        format!("Bearer {}", self.tokens.create_token(&tenant, scopes, "", None).await.unwrap().reveal())
    }
}

/// The body of a call, and its response.
type Sending = (mpsc::Sender<Vec<u8>>, tokio::task::JoinHandle<Response<Body>>);

/// Memory is allocated for a whole message once its header has arrived. Reports do not count
/// against the memory for messages, so a long report would exceed the memory of the streams.
#[tokio::test]
async fn a_worker_that_announces_too_long_a_report_is_refused_before_the_report_arrives() {
    let fixture = Fixture::new(Router::new().route(ATTACH, post(echo)), little_memory()).await;
    let worker = fixture.worker().await;
    let attach = || fixture.send_with(Request::post(ATTACH).header(AUTHORIZATION, &worker));
    let (sender, answer) = attach();
    sender.send(message(REPORT_MESSAGE_BYTES_MAX)).await.unwrap();
    drop(sender);
    assert_eq!(end(answer.await.unwrap()).await.0, Code::Ok, "a report of the largest size");
    let (sender, answer) = attach();
    sender.send(message(REPORT_MESSAGE_BYTES_MAX + 1)[..5].to_vec()).await.unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(60), answer).await.unwrap().unwrap();
    assert_eq!(end(answer).await, (Code::ResourceExhausted, "REQUEST_TOO_LARGE".to_owned()));
}

#[tokio::test]
async fn a_stream_of_a_worker_that_stalls_times_out() {
    let limits = Limits { request_idle_ms: 50, lease_ms: 50, ..Limits::default() };
    let fixture = Fixture::new(Router::new().route(ATTACH, post(echo)), limits).await;
    let worker = fixture.worker().await;
    let (sender, answer) = fixture.send_with(Request::post(ATTACH).header(AUTHORIZATION, worker));
    sender.send(message(20)[..10].to_vec()).await.unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(60), answer).await.unwrap().unwrap();
    assert_eq!(end(answer).await, (Code::DeadlineExceeded, "DEADLINE_EXCEEDED".to_owned()));
}

/// A stream takes memory before its first report, and the dispatcher counts workers only by their
/// reports.
#[tokio::test]
async fn streams_of_workers_are_limited_before_their_first_report() {
    let endless = async || axum::body::Body::new(Endless { _drop: None });
    let limits = Limits { workers: 1, ..Limits::default() };
    let fixture = Fixture::new(Router::new().route(ATTACH, post(endless)), limits).await;
    let worker = fixture.worker().await;
    let headers = [(AUTHORIZATION.as_str(), &*worker)];
    let attach = || fixture.call(REMOTE, ATTACH, &headers);
    let open = [attach().await, attach().await];
    assert!(open.iter().all(|stream| Status::from_header_map(stream.headers()).is_none()));
    assert_eq!(end(attach().await).await, (Code::ResourceExhausted, "WORKER_REFUSED".to_owned()));
    drop(open);
    assert!(Status::from_header_map(attach().await.headers()).is_none(), "the places are free again");
}

#[tokio::test]
async fn a_request_that_stalls_times_out() {
    let limits = Limits { request_idle_ms: 50, ..Limits::default() };
    let fixture = Fixture::new(Router::new().route(SUBMIT, post(echo)), limits).await;
    for begun in [0, 3, 20] {
        let (sender, answer) = fixture.send(SUBMIT);
        if begun > 0 {
            sender.send(message(20)[..begun].to_vec()).await.unwrap();
        }
        let answer = tokio::time::timeout(Duration::from_secs(60), answer).await.unwrap().unwrap();
        assert_eq!(end(answer).await, (Code::DeadlineExceeded, "DEADLINE_EXCEEDED".to_owned()), "{begun} bytes");
    }
}

impl Fixture {
    /// Whether the memory limits leave the test tenant room for `bytes` more bytes.
    fn has_room_for(&self, bytes: u64) -> bool {
        self.edge.memory.of(&Tenant::local()).hold().resize(bytes).is_ok()
    }

    pub(super) async fn until(&self, what: impl Fn(&Self) -> bool) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while !what(self) {
            assert!(tokio::time::Instant::now() < deadline, "the condition was not met within 60 s");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// The limit on held bytes for each tenant.
const TENANT_HELD_BYTES: u64 = 1000;

fn little_memory() -> Limits {
    Limits { held_bytes: 2 * TENANT_HELD_BYTES, tenant_held_bytes: TENANT_HELD_BYTES, ..Limits::default() }
}

#[tokio::test]
async fn unfinished_requests_are_limited_by_held_bytes() {
    let fixture = Fixture::new(Router::new().route(SUBMIT, post(echo)), little_memory()).await;
    let post = async |length| {
        let (sender, answer) = fixture.send(SUBMIT);
        sender.send(message(length)).await.unwrap();
        drop(sender);
        end(answer.await.unwrap()).await
    };
    let (sender, unfinished) = fixture.send(SUBMIT);
    sender.send(message(1000)[..600].to_vec()).await.unwrap();
    fixture.until(|fixture| !fixture.has_room_for(401)).await;
    let overloaded = (Code::ResourceExhausted, "OVERLOADED".to_owned());
    assert_eq!(post(500).await, overloaded);
    assert_eq!(post(100).await.0, Code::Ok, "there is room for this request");
    // A message that follows in the same call does not free the bytes of the first message.
    sender.send(message(1000)[600..].to_vec()).await.unwrap();
    assert_eq!(end(unfinished.await.unwrap()).await, overloaded);
    assert_eq!(post(500).await.0, Code::Ok);
    assert!(fixture.has_room_for(TENANT_HELD_BYTES), "all bytes were released");
}

/// The call uses a real connection: bytes that the connection buffers must count although the
/// answer's body has been read.
#[tokio::test]
async fn unread_answers_are_limited_by_held_bytes() {
    let fixture = Fixture::new(Router::new().route(SUBMIT, post(echo)), little_memory()).await;
    let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let stream = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    tokio::spawn(fixture.edge.clone().serve(Port::Api, listener, None));
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (mut client, connection) =
        builder.initial_stream_window_size(1).handshake::<_, axum::body::Body>(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut post = async |length| {
        let request = Request::post(format!("http://localhost{SUBMIT}"))
            .header("content-type", "application/grpc")
            .body(message(length).into())
            .unwrap();
        tokio::time::timeout(Duration::from_secs(60), client.send_request(request)).await.unwrap().unwrap()
    };
    let unread = post(900).await;
    assert_eq!(unread.status(), 200);
    assert!(!fixture.has_room_for(TENANT_HELD_BYTES - 900));
    let refused = Status::from_header_map(post(200).await.headers()).expect("an end without a body");
    assert_eq!(refused.get_details_error_info().unwrap().reason, "OVERLOADED");
    drop(unread);
    fixture.until(|fixture| fixture.has_room_for(TENANT_HELD_BYTES)).await;
    assert!(Status::from_header_map(post(900).await.headers()).is_none());
}

/// Many workers share one token, so the limit for each tenant does not apply to their answers.
#[tokio::test]
async fn unread_answers_to_workers_have_a_limit_of_their_own() {
    let fixture = Fixture::new(Router::new().route(READ_BLOB, post(echo)), little_memory()).await;
    let tenant = Tenant::new("workers").unwrap();
    fixture.tokens.create_tenant(&tenant, 0).await.unwrap();
    let scopes = [Scope::Worker].into_iter().collect();
    let token = format!("Bearer {}", fixture.tokens.create_token(&tenant, scopes, "", None).await.unwrap().reveal());
    let read = async || {
        let request = Request::post(READ_BLOB).header(AUTHORIZATION, &token);
        let request = request.body(axum::body::Body::from(message(TENANT_HELD_BYTES as u32 - 100))).unwrap();
        let mut answer = fixture.edge.clone().handle(Port::Api, LOOPBACK, request).await;
        // The frame is what a connection holds after it has read the body.
        let frame = std::future::poll_fn(|cx| std::pin::Pin::new(answer.body_mut()).poll_frame(cx)).await;
        frame.expect("a frame").unwrap()
    };
    let unread = [read().await, read().await];
    assert!(unread.iter().all(http_body::Frame::is_data), "together more than the tenant's limit");
    assert!(fixture.edge.memory.of(&tenant).hold().resize(TENANT_HELD_BYTES).is_ok());
    let refused = Status::from_header_map(read().await.trailers_ref().expect("an end")).unwrap();
    assert_eq!(refused.get_details_error_info().unwrap().reason, "OVERLOADED");
    drop(unread);
    assert!(read().await.is_data());
}

#[tokio::test]
async fn transport_errors_get_a_reason_and_server_errors_keep_theirs() {
    type Case = (fn() -> Status, Code, &'static str);
    let cases: [Case; 7] = [
        (|| Status::internal("failed to decode Protobuf message: x"), Code::InvalidArgument, "INVALID_ARGUMENT"),
        (|| Status::internal("Missing request message."), Code::InvalidArgument, "INVALID_ARGUMENT"),
        (|| Status::internal("oh"), Code::Internal, "INTERNAL"),
        (|| Status::out_of_range("message length too large"), Code::ResourceExhausted, "REQUEST_TOO_LARGE"),
        (|| Status::unimplemented(""), Code::Unimplemented, "METHOD_UNKNOWN"),
        (|| Status::unknown("oh"), Code::Internal, "INTERNAL"),
        (|| KEY_NOT_FOUND.error("no key").into(), Code::NotFound, "KEY_NOT_FOUND"),
    ];
    for (status, code, reason) in cases {
        let fixture = Fixture::new(answering(status), Limits::default()).await;
        let answer = fixture.call(LOOPBACK, SUBMIT, &[]).await;
        assert_eq!(end(answer).await, (code, reason.to_owned()), "{}", status());
        assert!(fixture.counted(&format!("cloakwork_rejected_total{{reason=\"{reason}\"}} 1")), "{reason}");
        let name = error::code_name(code);
        assert!(fixture.counted(&format!("cloakwork_grpc_calls_total{{code=\"{name}\",method=\"{SUBMIT}\"}} 1")));
    }
}

#[tokio::test]
async fn calls_whose_callers_go_away_count_as_cancelled() {
    let router = Router::new().route(SUBMIT, post(async || std::future::pending::<()>().await));
    let fixture = Fixture::new(router, Limits { requests: 1, tenant_requests: 1, ..Limits::default() }).await;
    for _ in 0..3 {
        let request = Request::post(SUBMIT).body(Body::empty()).unwrap();
        let call = fixture.edge.clone().handle(Port::Api, LOOPBACK, request);
        assert!(tokio::time::timeout(Duration::from_millis(10), call).await.is_err());
    }
    assert!(fixture.counted(&format!("cloakwork_grpc_calls_total{{code=\"CANCELLED\",method=\"{SUBMIT}\"}} 3")));
}
