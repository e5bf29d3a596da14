use std::{
    net::Ipv4Addr,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
};

use axum::{Router, routing::post};
use futures_util::StreamExt as _;
use http::HeaderMap;
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle};

use super::*;
use crate::{
    auth::{Scope, Scopes, TokenStore, policy::Port},
    edge::tests::{Fixture, end},
    shards::{Moved, Shards},
    tenant::Tenant,
};

const SUBMIT: &str = "/cloakwork.v1.JobService/SubmitJob";
const RUN: &str = "/cloakwork.v1.JobService/RunJob";
const WRITE: &str = "/cloakwork.v1.BlobService/Write";
const ATTACH: &str = "/cloakwork.v1.WorkerService/Attach";
const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// URL of the first server, which no test calls.
const FRONT: &str = "http://127.0.0.1:2";

/// A caller on another machine.
const CALLER: Peer =
    Peer::Network { address: std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9)), certified: false, direct: true };

/// Time for steps that should take no noticeable time.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// Two servers on one database. Calls arrive at the first, which does not own the database.
struct Servers {
    front: Fixture,
    homes: watch::Sender<Homes>,
    token: String,
    directory: Arc<tempfile::TempDir>,
    /// Cancelled when the first server stops.
    draining: CancellationToken,
}

/// A server with an open port.
struct Served {
    fixture: Fixture,
    url: Arc<str>,
    port: JoinHandle<()>,
}

impl Servers {
    async fn new() -> Self {
        Self::waiting(STEP_TIMEOUT).await
    }

    /// Calls wait this long for an owner.
    async fn waiting(owner_wait: Duration) -> Self {
        Self::with(owner_wait, Limits::default()).await
    }

    async fn with(owner_wait: Duration, limits: Limits) -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        let (homes, places) = watch::channel(Homes::of_url(FRONT));
        let standard = Router::new().route(HEALTH, post(async || ok())).into();
        let draining = CancellationToken::new();
        let forward = |limits: &Limits, telemetry| Forward {
            owner_wait,
            ..Forward::new(standard, places, None, limits, telemetry, draining.clone())
        };
        let front = Fixture::at(directory.clone(), limits, forward).await;
        let token = token(&front.tokens).await;
        Self { front, homes, token, directory, draining }
    }

    /// Starts a server that owns the database and never answers. The notice comes with each call.
    async fn silent_owner(&self) -> (Served, Arc<Notify>) {
        let come = Arc::new(Notify::new());
        let noted = come.clone();
        let wait = post(async move || {
            noted.notify_one();
            std::future::pending::<()>().await
        });
        let router = Router::new().route(SUBMIT, wait.clone()).route(WRITE, wait.clone()).route(RUN, wait);
        let owner = self.serve(router).await;
        self.owned_by(&owner);
        (owner, come)
    }

    /// Starts another server, which handles calls itself.
    async fn serve(&self, router: Router) -> Served {
        let forward = |limits: &Limits, telemetry| Forward::here(router.into(), limits, telemetry);
        let fixture = Fixture::at(self.directory.clone(), Limits::default(), forward).await;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).into();
        let port = tokio::spawn(fixture.edge.clone().serve(Port::Api, listener, None));
        Served { fixture, url, port }
    }

    fn owned_by(&self, server: &Served) {
        self.owned([(0, &server.url)]);
    }

    /// Shards come to have these owners.
    fn owned<const COUNT: usize>(&self, owners: [(i32, &str); COUNT]) {
        self.homes.send_modify(|homes| _ = homes.update(Shards::owned(owners)));
    }

    /// The first server comes to own shard 0.
    fn owned_here(&self, router: Router) {
        self.homes.send_modify(|homes| *homes = std::mem::take(homes).with(0, router.into()));
    }

    /// A request with the token.
    fn request(&self, path: &str) -> http::request::Builder {
        let request = Request::post(path).header("authorization", format!("Bearer {}", self.token));
        request.header("content-type", "application/grpc")
    }

    fn call(&self, path: &str) -> JoinHandle<(Code, String)> {
        self.call_with(path, &[])
    }

    /// Attaches a worker that serves this shard.
    async fn attach(&self, shard: Option<&str>) -> Response<Body> {
        let mut request = Request::post(ATTACH).header("authorization", format!("Bearer {}", self.token));
        if let Some(shard) = shard {
            request = request.header(SHARD_OF_WORKER, shard);
        }
        self.front.edge.clone().handle(Port::Api, CALLER, request.body(Body::empty()).unwrap()).await
    }

    /// Calls the first server with a message of three bytes.
    fn call_with(&self, path: &str, headers: &[(&str, &str)]) -> JoinHandle<(Code, String)> {
        let mut request = self.request(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = Body::new(Whole(Bytes::from_static(&[0, 0, 0, 0, 3, 7, 8, 9])));
        let call = self.front.edge.clone().handle(Port::Api, CALLER, request.body(body).unwrap());
        tokio::spawn(async { end(call.await).await })
    }
}

async fn token(tokens: &TokenStore) -> String {
    let tenant = Tenant::new("acme").unwrap();
    tokens.create_tenant(&tenant, 0).await.unwrap();
    let scopes = Scopes::from_iter([Scope::Jobs, Scope::Worker]);
    tokens.create_token(&tenant, scopes, "", None).await.unwrap().reveal().to_owned()
}

fn ok() -> Response<axum::body::Body> {
    Status::ok("").into_http()
}

/// A service that answers each call with this status, and counts the calls.
fn counting(status: fn() -> Status) -> (Router, Arc<AtomicU64>) {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    let answer = post(async move |body: Bytes| {
        assert_eq!(body[..], [0, 0, 0, 0, 3, 7, 8, 9], "each repetition has the whole message");
        counted.fetch_add(1, SeqCst);
        status().into_http::<axum::body::Body>()
    });
    (Router::new().route(SUBMIT, answer.clone()).route(WRITE, answer), calls)
}

async fn reached(come: &Notify) {
    tokio::time::timeout(STEP_TIMEOUT, come.notified()).await.expect("the call arrives");
}

async fn ended<T>(task: JoinHandle<T>) -> T {
    tokio::time::timeout(STEP_TIMEOUT, task).await.expect("in time").unwrap()
}

fn success() -> (Code, String) {
    (Code::Ok, String::new())
}

fn not_owner() -> (Code, String) {
    (Code::Unavailable, "NOT_OWNER".to_owned())
}

#[tokio::test]
async fn a_call_waits_for_an_owner_and_goes_on_to_it_with_token_address_and_remaining_time() {
    let servers = Servers::new().await;
    let seen = post(async |headers: HeaderMap| {
        let millis: u64 = headers["grpc-timeout"].to_str().unwrap().trim_end_matches('m').parse().unwrap();
        assert!((1..60_000).contains(&millis), "{millis}");
        assert!(!headers.contains_key("x-other"));
        ok()
    });
    let owner = servers.serve(Router::new().route(SUBMIT, seen)).await;
    let call = servers.call_with(SUBMIT, &[("grpc-timeout", "60S"), ("x-other", "1")]);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!call.is_finished());
    servers.owned_by(&owner);
    assert_eq!(ended(call).await, success());
    assert!(servers.front.counted("cloakwork_forwarded_total{outcome=\"answered\"} 1"));
    let code = "code=\"OK\"";
    assert!(owner.fixture.counted(&format!("cloakwork_grpc_calls_total{{{code},method=\"{SUBMIT}\"}} 1")));
}

/// The first server accepts calls without a token from its own machine. The owner must not take a
/// call that the first server passes on for a call from the owner's machine.
#[tokio::test]
async fn the_owner_refuses_a_call_without_a_token_that_another_server_let_in() {
    let servers = Servers::new().await;
    let (router, calls) = counting(|| Status::ok(""));
    let owner = servers.serve(router.clone()).await;
    servers.owned_by(&owner);
    let call = || {
        let body = Body::new(Whole(Bytes::from_static(&[0, 0, 0, 0, 3, 7, 8, 9])));
        let request = Request::post(SUBMIT).header("content-type", "application/grpc").body(body).unwrap();
        let here = Peer::Network { address: Ipv4Addr::LOCALHOST.into(), certified: false, direct: true };
        let call = servers.front.edge.clone().handle(Port::Api, here, request);
        tokio::spawn(async { end(call.await).await })
    };
    assert_eq!(ended(call()).await, (Code::Unauthenticated, "UNAUTHENTICATED".to_owned()));
    assert_eq!(calls.load(SeqCst), 0);
    // The call comes as far as the owner: the first server alone handles it.
    servers.owned_here(router);
    assert_eq!(ended(call()).await, success());
}

/// Otherwise the server would wait for the end of a job at another server, until its own grace
/// period is over.
#[tokio::test]
async fn a_server_that_stops_ends_the_calls_that_wait_elsewhere() {
    let servers = Servers::new().await;
    let draining = (Code::Unavailable, "DRAINING".to_owned());
    let without_owner = [SUBMIT, WRITE].map(|path| servers.call(path));
    tokio::time::sleep(Duration::from_millis(20)).await;
    servers.draining.cancel();
    for call in without_owner {
        assert_eq!(ended(call).await, draining);
    }
    let servers = Servers::new().await;
    let (_owner, come) = servers.silent_owner().await;
    let waiting = servers.call(RUN);
    reached(&come).await;
    let short = servers.call(SUBMIT);
    reached(&come).await;
    servers.draining.cancel();
    assert_eq!(ended(waiting).await, draining);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!short.is_finished(), "the owner answers it soon");
}

#[tokio::test]
async fn errors_of_the_owner_reach_the_caller() {
    let servers = Servers::new().await;
    let (router, calls) = counting(|| crate::error::DATABASE_UNAVAILABLE.error("away").into());
    let owner = servers.serve(router).await;
    servers.owned_by(&owner);
    assert_eq!(ended(servers.call(SUBMIT)).await, (Code::Unavailable, "DATABASE_UNAVAILABLE".to_owned()));
    assert_eq!(calls.load(SeqCst), 1, "the caller decides whether to try again");
}

#[tokio::test]
async fn a_call_is_repeated_at_the_next_owner_when_the_first_one_dies() {
    let servers = Servers::new().await;
    let (first, come) = servers.silent_owner().await;
    let call = servers.call(SUBMIT);
    reached(&come).await;
    first.port.abort();
    let _ = first.port.await;
    let (router, calls) = counting(|| Status::ok(""));
    let second = servers.serve(router).await;
    assert!(!call.is_finished());
    servers.owned_by(&second);
    assert_eq!(ended(call).await, success());
    assert_eq!(calls.load(SeqCst), 1);
    assert!(!servers.front.counted("cloakwork_forward_repeats_total 0"));
}

#[tokio::test]
async fn a_call_leaves_an_owner_that_was_replaced_and_never_answers() {
    let servers = Servers::new().await;
    let (_first, come) = servers.silent_owner().await;
    let call = servers.call(SUBMIT);
    reached(&come).await;
    let (router, calls) = counting(|| Status::ok(""));
    servers.owned_here(router);
    assert_eq!(ended(call).await, success());
    assert_eq!(calls.load(SeqCst), 1, "it is handled here");
}

/// The owner beats no more, so no server owns the shard for a moment.
#[tokio::test]
async fn a_call_that_has_waited_for_its_owner_waits_for_the_next_one_too() {
    let owner_wait = Duration::from_millis(600);
    let servers = Servers::waiting(owner_wait).await;
    let (_first, come) = servers.silent_owner().await;
    let call = servers.call(SUBMIT);
    reached(&come).await;
    sleep(2 * owner_wait).await;
    servers.owned([]);
    sleep(owner_wait / 6).await;
    let (router, calls) = counting(|| Status::ok(""));
    servers.owned_here(router);
    assert_eq!(ended(call).await, success());
    assert_eq!(calls.load(SeqCst), 1);
}

#[tokio::test]
async fn a_call_that_a_stopping_owner_refuses_goes_to_the_next_owner() {
    let servers = Servers::new().await;
    let (router, refused) = counting(|| DRAINING.error("the server is about to stop").into());
    let first = servers.serve(router).await;
    servers.owned_by(&first);
    let call = servers.call(SUBMIT);
    while refused.load(SeqCst) < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (router, _) = counting(|| Status::ok(""));
    let second = servers.serve(router).await;
    servers.owned_by(&second);
    assert_eq!(ended(call).await, success());
}

#[tokio::test]
async fn a_call_fails_if_no_server_takes_the_database_over() {
    let owner_wait = Duration::from_millis(300);
    let servers = Servers::waiting(owner_wait).await;
    let begun = Instant::now();
    for path in [SUBMIT, WRITE] {
        assert_eq!(ended(servers.call(path)).await, not_owner(), "{path}");
    }
    assert!(begun.elapsed() >= 2 * owner_wait);
    // An address at which no server listens, as after a crash.
    servers.owned([(0, "http://127.0.0.1:1")]);
    assert_eq!(ended(servers.call(SUBMIT)).await, not_owner());
    assert!(servers.front.counted("cloakwork_forwarded_total{outcome=\"failed\"} 3"));
}

/// The server keeps no bytes of a stream of messages.
#[tokio::test]
async fn a_stream_of_messages_is_passed_on_once() {
    let servers = Servers::new().await;
    let (router, calls) = counting(|| Status::ok(""));
    let owner = servers.serve(router).await;
    servers.owned_by(&owner);
    assert_eq!(ended(servers.call(WRITE)).await, success());
    assert_eq!(calls.load(SeqCst), 1);
    let (dying, come) = servers.silent_owner().await;
    let call = servers.call(WRITE);
    reached(&come).await;
    dying.port.abort();
    assert_eq!(ended(call).await, not_owner());
}

/// The caller sends nothing for too long. The owner is well, so the call does not count as failed.
#[tokio::test]
async fn a_stream_that_its_caller_breaks_is_no_failure_of_the_owner() {
    let limits = Limits { request_idle_ms: 100, ..Limits::default() };
    let servers = Servers::with(STEP_TIMEOUT, limits).await;
    let _owner = servers.silent_owner().await;
    let begun = futures_util::stream::iter([Ok::<_, Status>(Bytes::from_static(&[0, 0, 0, 0, 9]))]);
    let body = axum::body::Body::from_stream(begun.chain(futures_util::stream::pending()));
    let answer = servers.front.edge.clone().handle(Port::Api, CALLER, servers.request(WRITE).body(body).unwrap());
    let expected = (Code::DeadlineExceeded, "DEADLINE_EXCEEDED".to_owned());
    assert_eq!(ended(tokio::spawn(async { end(answer.await).await })).await, expected);
    assert!(servers.front.counted("cloakwork_forwarded_total{outcome=\"failed\"} 0"));
}

#[tokio::test]
async fn an_answer_that_breaks_off_with_its_owner_ends_with_a_reason() {
    let servers = Servers::new().await;
    let answer = post(async || {
        let begun = futures_util::stream::iter([Ok::<_, Status>(Bytes::from_static(&[0, 0, 0, 0, 9]))]);
        let body = axum::body::Body::from_stream(begun.chain(futures_util::stream::pending()));
        Response::builder().header("content-type", "application/grpc").body(body).unwrap()
    });
    let owner = servers.serve(Router::new().route(SUBMIT, answer)).await;
    servers.owned_by(&owner);
    let body = Body::new(Whole(Bytes::from_static(&[0, 0, 0, 0, 0])));
    let request = servers.request(SUBMIT).body(body).unwrap();
    let answer = servers.front.edge.clone().handle(Port::Api, CALLER, request).await;
    assert_eq!(answer.status(), 200);
    owner.port.abort();
    assert_eq!(ended(tokio::spawn(end(answer))).await, not_owner());
    let name = "cloakwork_rejected_total{reason=\"NOT_OWNER\"} 1";
    servers.front.until(|front| front.counted(name)).await;
}

#[tokio::test]
async fn workers_are_sent_to_the_owner_and_calls_take_one_hop() {
    let servers = Servers::new().await;
    let (router, calls) = counting(|| Status::ok(""));
    let owner = servers.serve(router).await;
    assert_eq!(ended(servers.call(ATTACH)).await, not_owner());
    servers.owned_by(&owner);
    let refused = async |shard: Option<&str>| {
        let answer = servers.attach(shard).await;
        let info = Status::from_header_map(answer.headers()).unwrap().get_details_error_info().unwrap();
        assert_eq!(info.reason, "NOT_OWNER");
        (info.metadata["shard"].clone(), info.metadata.get("owner").cloned())
    };
    let at_owner = || ("0".to_owned(), Some(owner.url.to_string()));
    assert_eq!(refused(None).await, at_owner());
    servers.owned([(0, &owner.url), (1, FRONT)]);
    assert_eq!(refused(Some("0")).await, at_owner());
    assert_eq!(refused(Some("1")).await, ("1".to_owned(), None), "this server is about to take the shard over");
    assert_eq!(refused(Some("7")).await, ("7".to_owned(), None));
    // As if two servers took each other for the owner.
    assert_eq!(ended(servers.call_with(SUBMIT, &[(FORWARDED_BY_SERVER, "1")])).await, not_owner());
    assert_eq!(calls.load(SeqCst), 0);
    // Each server answers for itself whether it is healthy.
    assert_eq!(ended(servers.call(HEALTH)).await, success());
    let here = Router::new().route(ATTACH, post(async || ok()));
    servers.homes.send_modify(|homes| *homes = std::mem::take(homes).with(1, here.into()));
    for shard in [None, Some("1"), Some("no number")] {
        assert_eq!(servers.attach(shard).await.headers()[SHARD_OF_WORKER], "1", "{shard:?}");
    }
    assert_eq!(refused(Some("0")).await, at_owner());
}

/// A token names its tenant's shard until it is looked up again, and moves are known earlier.
#[tokio::test]
async fn calls_go_to_the_owner_of_the_tenants_shard() {
    let servers = Servers::new().await;
    let (first, second) = (counting(|| Status::ok("")), counting(|| Status::ok("")));
    let owners = [servers.serve(first.0.clone()).await, servers.serve(second.0).await];
    let calls = || [&first.1, &second.1].map(|calls| calls.load(SeqCst));
    servers.owned([(0, &owners[0].url), (1, &owners[1].url)]);
    assert_eq!(ended(servers.call(SUBMIT)).await, success());
    assert_eq!(calls(), [1, 0]);
    let moved = Moved { shard: 1, at_micros: 2 };
    let acme = Tenant::new("acme").unwrap();
    servers.homes.send_modify(|homes| homes.let_go(&acme, Some(moved)));
    // A look from before the move.
    servers.owned([(0, &owners[0].url), (1, &owners[1].url)]);
    assert_eq!(ended(servers.call(SUBMIT)).await, success());
    assert_eq!(calls(), [1, 1]);
    // The first server owns the other shard, and handles its calls alone.
    servers.owned_here(first.0.clone());
    assert_eq!(ended(servers.call(SUBMIT)).await, success());
    assert_eq!(calls(), [1, 2]);
}

/// This server owns shard 0, and the call waits at the owner of shard 1 for longer than the news of
/// the move is kept.
#[tokio::test]
async fn a_waiting_call_remembers_that_its_tenant_has_moved() {
    let servers = Servers::new().await;
    let (here, calls) = counting(|| Status::ok(""));
    let (first, come) = servers.silent_owner().await;
    servers.owned_here(here.clone());
    servers.owned([(0, FRONT), (1, &first.url)]);
    let acme = Tenant::new("acme").unwrap();
    servers.homes.send_modify(|homes| homes.let_go(&acme, Some(Moved { shard: 1, at_micros: 2 })));
    let call = servers.call(SUBMIT);
    reached(&come).await;
    let forgetful = |owner: &Served| {
        let mut homes = Homes::of_url(FRONT).with(0, here.clone().into());
        homes.update(Shards::owned([(0, FRONT), (1, &owner.url)]));
        homes
    };
    servers.homes.send_replace(forgetful(&first));
    sleep(Duration::from_millis(100)).await;
    assert!(!call.is_finished(), "the owner of shard 1 has the call");
    let (router, at_second) = counting(|| Status::ok(""));
    let second = servers.serve(router).await;
    servers.homes.send_replace(forgetful(&second));
    assert_eq!(ended(call).await, success());
    assert_eq!((calls.load(SeqCst), at_second.load(SeqCst)), (0, 1));
}
