//! Calls without a token that come through a proxy: the tenant `local` is only for direct callers.

use std::{net::Ipv4Addr, time::Duration};

use cloakwork_tests_attack::{Connection, FrameKind, HeaderBlock, flags};
use cloakwork_tests_service::{Server, Setup};

const LIST_JOBS: &str = "/cloakwork.v1.JobService/ListJobs";

/// An empty gRPC message: the five bytes of its prefix.
const EMPTY_MESSAGE: [u8; 5] = [0; 5];

/// Whether the server answers a call without a token with data, which only a tenant gets.
async fn is_let_in(server: &Server, headers: HeaderBlock) -> bool {
    let mut connection = Connection::open(Ipv4Addr::LOCALHOST.into(), server.address()).await.expect("a connection");
    let stream = connection.open_stream(0, headers).await.expect("the request is sent");
    connection.send(FrameKind::Data, flags::END_STREAM, stream, &EMPTY_MESSAGE).await.expect("the message is sent");
    let answer = connection
        .receive_until(Duration::from_secs(60), |frame| {
            frame.stream == stream && (frame.is(FrameKind::Data) || frame.flags & flags::END_STREAM != 0)
        })
        .await;
    answer.expect("an answer").is(FrameKind::Data)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_a_token_with_signs_of_a_proxy_is_refused() {
    let server = Server::start(Setup::default().without_worker()).await;
    let call = |authority: &str| {
        HeaderBlock::request("POST", LIST_JOBS, authority)
            .field("content-type", "application/grpc")
            .field("te", "trailers")
    };
    for authority in ["127.0.0.1:7270", "localhost", "[::1]:7270"] {
        assert!(is_let_in(&server, call(authority)).await, "{authority}");
    }
    for authority in ["fhe.example.org", "10.0.0.7:7270", "localhost.example.org"] {
        assert!(!is_let_in(&server, call(authority)).await, "{authority}");
    }
    for (name, value) in [
        ("x-forwarded-for", "203.0.113.9"),
        ("x-forwarded-for", "127.0.0.1"),
        ("forwarded", "for=203.0.113.9"),
        ("via", "2 proxy.example.org"),
        ("x-real-ip", "203.0.113.9"),
        ("x-forwarded-host", "fhe.example.org"),
    ] {
        assert!(!is_let_in(&server, call("127.0.0.1").field(name, value)).await, "{name}: {value}");
    }
    let metrics = server.metrics().await;
    let refused = metrics.lines().find(|line| line.starts_with("cloakwork_rejected_total{reason=\"UNAUTHENTICATED\"}"));
    assert_eq!(refused.and_then(|line| line.rsplit(' ').next()), Some("9"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_without_a_token_are_refused_behind_a_trusted_proxy_too() {
    let setup = Setup::default().without_worker().with("listen.trusted_proxies", "127.0.0.1");
    let server = Server::start(setup).await;
    assert!(!is_let_in(&server, HeaderBlock::grpc_call(LIST_JOBS)).await);
    let forwarded = HeaderBlock::grpc_call(LIST_JOBS).field("x-forwarded-for", "127.0.0.1");
    assert!(!is_let_in(&server, forwarded).await, "a caller writes x-forwarded-for as well");
}
