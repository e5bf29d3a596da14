//! Servers behind real proxies, with the configurations of `deploy/proxy`.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use cloakwork_client::ClientError;
use cloakwork_tests_attack::{Connection, FrameKind, HeaderBlock, Proxy, ProxyKind, flags};
use cloakwork_tests_service::{Server, Setup, Tenant, eventually};
use futures_util::future::join_all;

const LIST_JOBS: &str = "/cloakwork.v1.JobService/ListJobs";

/// An empty gRPC message: the five bytes of its prefix.
const EMPTY_MESSAGE: [u8; 5] = [0; 5];

/// HTTP/2 error code CANCEL: the caller no longer wants the answer.
const CANCEL: [u8; 4] = 8_u32.to_be_bytes();

/// Starts a server and a proxy in the configuration for operators.
async fn start(kind: ProxyKind) -> Option<(Server, Proxy)> {
    let setup = Setup::default().with("listen.trusted_proxies", "127.0.0.1").with("auth.anonymous", false);
    let server = Server::start(setup).await;
    let proxy = Proxy::start(kind, &server).await?;
    Some((server, proxy))
}

fn call_with(token: &str) -> HeaderBlock {
    let call = HeaderBlock::request("POST", LIST_JOBS, "localhost").field("content-type", "application/grpc");
    call.field("te", "trailers").field("authorization", &format!("Bearer {token}"))
}

async fn connect(proxy: &Proxy, from: IpAddr) -> std::io::Result<Connection> {
    Connection::open_tls(from, proxy.address(), &proxy.authority_pem()).await
}

fn is_unauthenticated(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(refusal) if refusal.reason == "UNAUTHENTICATED")
}

/// Number of calls that the server has refused for this reason.
async fn refused(server: &Server, reason: &str) -> u64 {
    let series = format!("cloakwork_rejected_total{{reason=\"{reason}\"}} ");
    let metrics = server.metrics().await;
    metrics.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok()).unwrap_or(0)
}

async fn check_tenants_and_strangers(kind: ProxyKind) {
    let Some((server, proxy)) = start(kind).await else { return };
    for name in ["acme", "bravo"] {
        let client = proxy.client(Some(&server.token(name, "jobs,keys,read"))).await.expect("the proxy answers");
        assert_eq!(client.tenant().await.expect("a tenant"), name);
        // Keys are uploaded in a stream, and the call that submits a job waits for the result.
        Tenant::new(client).await.check_squares(&[1, 2, 3]).await;
    }
    let stranger = proxy.client(None).await.expect_err("nobody without a token gets in");
    assert!(is_unauthenticated(&stranger), "{stranger:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_run_jobs_behind_nginx_and_callers_without_a_token_are_refused() {
    check_tenants_and_strangers(ProxyKind::Nginx).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_run_jobs_behind_envoy_and_callers_without_a_token_are_refused() {
    check_tenants_and_strangers(ProxyKind::Envoy).await;
}

/// Checks that callers behind a proxy are not the tenant `local`. That tenant is for callers on
/// this machine, and a proxy on this machine brings remote callers.
async fn check_that_callers_are_not_local(kind: ProxyKind) {
    let server = Server::start(Setup::default().without_worker()).await;
    let Some(proxy) = Proxy::start(kind, &server).await else { return };
    server.client().await.tenant().await.expect("a direct caller is the tenant local");
    let stranger = proxy.client(None).await.expect_err("nobody without a token gets in");
    assert!(is_unauthenticated(&stranger), "{stranger:?}");
    eventually("a warning", || async { server.log().contains("came through a proxy") }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_behind_nginx_is_not_the_tenant_local() {
    check_that_callers_are_not_local(ProxyKind::Nginx).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_behind_envoy_is_not_the_tenant_local() {
    check_that_callers_are_not_local(ProxyKind::Envoy).await;
}

/// Checks that an address that guesses tokens gets no further lookups, whatever it writes into
/// `x-forwarded-for`.
async fn check_that_guesses_count_for_the_callers_address(kind: ProxyKind) {
    // More guesses than `address_failures_per_minute`.
    const GUESSES: u32 = 75;
    let Some((server, proxy)) = start(kind).await else { return };
    let client = proxy.client(Some(&server.token("acme", "jobs,keys,read"))).await.expect("the proxy answers");
    let mut guesser = connect(&proxy, Ipv4Addr::new(127, 0, 1, 7).into()).await.expect("a connection");
    for guess in 0..GUESSES {
        let token = format!("cw_{guess:012x}_{guess:064x}");
        let headers = call_with(&token).field("x-forwarded-for", &format!("198.51.100.{guess}"));
        let stream = guesser.open_stream(0, headers).await.expect("a call is sent");
        guesser.send(FrameKind::Data, flags::END_STREAM, stream, &EMPTY_MESSAGE).await.expect("a message is sent");
        let fits = |frame: &cloakwork_tests_attack::Frame| frame.is(FrameKind::Headers) && frame.stream == stream;
        guesser.receive_until(Duration::from_secs(30), fits).await.expect("an answer");
    }
    assert!(refused(&server, "ADDRESS_LIMITED").await > 0, "{}", server.metrics().await);
    client.capabilities().await.expect("a call from another address, with a token that is known");
    let newcomer = proxy.client(Some(&server.token("bravo", "read"))).await;
    newcomer.expect("a call from another address, with a token that is not known yet");
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_behind_nginx_count_for_the_callers_address() {
    check_that_guesses_count_for_the_callers_address(ProxyKind::Nginx).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_behind_envoy_count_for_the_callers_address() {
    check_that_guesses_count_for_the_callers_address(ProxyKind::Envoy).await;
}

/// Opens calls and resets each at once, all in one write, so that the server receives many resets
/// together. Envoy itself closes a caller's connection after some hundreds of resets.
async fn reset_calls(proxy: &Proxy, token: &str, calls: u32) -> std::io::Result<()> {
    let mut connection = connect(proxy, Ipv4Addr::new(127, 0, 1, 8).into()).await?;
    let mut burst = Vec::new();
    for _ in 0..calls {
        let (stream, headers) = (connection.new_stream(), call_with(token).into_bytes());
        burst.extend(Connection::frame_header(FrameKind::Headers, flags::END_HEADERS, stream, headers.len()));
        burst.extend(headers);
        burst.extend(Connection::frame_header(FrameKind::ResetStream, 0, stream, CANCEL.len()));
        burst.extend(CANCEL);
    }
    connection.write(&burst).await?;
    // Envoy's answer to the ping after the resets shows that Envoy has passed them on.
    connection.send(FrameKind::Ping, 0, 0, &[0; 8]).await?;
    connection.receive_until(Duration::from_secs(5), |frame| frame.is(FrameKind::Ping)).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_resets_its_calls_does_not_break_those_of_another_behind_envoy() {
    const CALLS: u32 = 60;
    const RESETS: u32 = 300;
    const ATTACKERS: usize = 2;
    let Some((server, proxy)) = start(ProxyKind::Envoy).await else { return };
    let [acme, mallory] = ["acme", "mallory"].map(|name| server.token(name, "jobs,keys,read"));
    let client = proxy.client(Some(&acme)).await.expect("the proxy answers");
    let (done, resets) = (AtomicBool::new(false), AtomicU32::new(0));
    let attack = async || {
        while !done.load(Relaxed) {
            if reset_calls(&proxy, &mallory, RESETS).await.is_ok() {
                resets.fetch_add(RESETS, Relaxed);
            }
        }
    };
    let work = async {
        eventually("the attack has begun", || async { resets.load(Relaxed) > RESETS }).await;
        let mut failed = Vec::new();
        for _ in 0..CALLS {
            failed.extend(client.capabilities().await.err());
        }
        done.store(true, Relaxed);
        failed
    };
    let (_, failed) = tokio::join!(join_all((0..ATTACKERS).map(|_| attack())), work);
    println!("{} of {CALLS} calls failed beside {} resets", failed.len(), resets.load(Relaxed));
    assert!(failed.is_empty(), "{} of {CALLS} calls failed: {:?}\n{}", failed.len(), failed[0], server.log());
}
