//! Requests that are not gRPC calls, and requests that break off.

use std::{net::Ipv4Addr, time::Duration};

use cloakwork_tests_attack::{Connection, FrameKind, HeaderBlock, flags};
use cloakwork_tests_service::{Server, Setup, eventually};

const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// Entry of HPACK's static table (RFC 7541, appendix A) for status 200. Entries for statuses start
/// at index 8.
const STATUS_200: u8 = 0x80 | 8;

async fn open(server: &Server) -> Connection {
    Connection::open(Ipv4Addr::LOCALHOST.into(), server.address()).await.expect("the server takes connections")
}

/// Returns the header block of the answer to a request without a body. Each request has its own
/// connection with an empty HPACK table, so the block itself contains the status.
async fn answer(server: &Server, headers: HeaderBlock) -> Vec<u8> {
    let mut connection = open(server).await;
    let stream = connection.open_stream(flags::END_STREAM, headers).await.expect("the request is sent");
    let fits = |frame: &cloakwork_tests_attack::Frame| frame.is(FrameKind::Headers) && frame.stream == stream;
    connection.receive_until(Duration::from_secs(60), fits).await.expect("an answer").payload
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Whether a header block has this status. A status of three digits without a table entry is a
/// literal, Huffman-coded or plain.
fn status_is(headers: &[u8], status: &str) -> bool {
    contains(headers, status.as_bytes()) || contains(headers, &huffman_digits(status))
}

/// Huffman codes of digits (RFC 7541, appendix B): 0, 1 and 2 have five bits, the others six.
fn huffman_digits(digits: &str) -> Vec<u8> {
    let (mut bits, mut length) = (0_u32, 0);
    for digit in digits.bytes().map(|digit| u32::from(digit - b'0')) {
        let (code, code_bits) = if digit <= 2 { (digit, 5) } else { (0x19 + digit - 3, 6) };
        (bits, length) = (bits << code_bits | code, length + code_bits);
    }
    let padding = (8 - length % 8) % 8;
    let padded = bits << padding | ((1 << padding) - 1);
    padded.to_be_bytes()[4 - ((length + padding) / 8) as usize..].to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_not_grpc_calls_get_an_http_status() {
    let server = Server::start(Setup::default().without_worker()).await;
    let get = HeaderBlock::request("GET", HEALTH, "127.0.0.1").field("content-type", "application/grpc");
    let headers = answer(&server, get).await;
    assert!(status_is(&headers, "405"), "{headers:02x?}");
    let json = HeaderBlock::request("POST", HEALTH, "127.0.0.1").field("content-type", "application/json");
    let headers = answer(&server, json).await;
    assert!(status_is(&headers, "415"), "{headers:02x?}");
    let bare = HeaderBlock::request("POST", HEALTH, "127.0.0.1");
    let headers = answer(&server, bare).await;
    assert!(status_is(&headers, "415"), "{headers:02x?}");
    let call = answer(&server, HeaderBlock::grpc_call(HEALTH)).await;
    assert!(call.contains(&STATUS_200), "{call:02x?}");
}

/// The sum of a counter over its series with this label.
fn counted(metrics: &str, counter: &str, label: &str) -> f64 {
    let series = metrics.lines().filter(|line| line.starts_with(counter) && line.contains(label));
    series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_break_during_a_request_count_as_cancelled_not_as_server_errors() {
    const CALLS: u32 = 40;
    let server = Server::start(Setup::default().without_worker()).await;
    for path in [HEALTH, "/cloakwork.v1.JobService/ListJobs", "/cloakwork.v1.BlobService/Write"] {
        for call in 0..CALLS {
            let mut connection = open(&server).await;
            let stream = connection.open_stream(0, HeaderBlock::grpc_call(path)).await.expect("the request is sent");
            // The answer to a ping shows that the request has arrived. The server does not count a
            // stream that is reset before its request arrives.
            connection.send(FrameKind::Ping, 0, 0, &[7; 8]).await.expect("a ping is sent");
            let answered =
                |frame: &cloakwork_tests_attack::Frame| frame.is(FrameKind::Ping) && frame.flags & flags::ACK != 0;
            connection.receive_until(Duration::from_secs(60), answered).await.expect("an answer to the ping");
            // The first three of the five bytes before a message.
            connection.send(FrameKind::Data, 0, stream, &[0, 0, 0]).await.expect("data is sent");
            if call % 2 == 0 {
                connection
                    .send(FrameKind::ResetStream, 0, stream, &8_u32.to_be_bytes())
                    .await
                    .expect("a reset is sent");
            }
        }
    }
    let calls = f64::from(3 * CALLS);
    eventually("all calls have ended", || async {
        counted(&server.metrics().await, "cloakwork_grpc_calls_total{", "") >= calls
    })
    .await;
    let metrics = server.metrics().await;
    for code in ["\"INTERNAL\"", "\"UNKNOWN\""] {
        assert_eq!(counted(&metrics, "cloakwork_grpc_calls_total{", code), 0.0, "{code}:\n{metrics}");
    }
    assert_eq!(counted(&metrics, "cloakwork_grpc_calls_total{", "\"CANCELLED\""), calls, "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn header_lists_have_a_limited_number_of_fields() {
    let server = Server::start(Setup::default().without_worker()).await;
    let many = HeaderBlock::grpc_call(HEALTH).stored_field("x", "").repeat_newest(64);
    let headers = answer(&server, many).await;
    let few = answer(&server, HeaderBlock::grpc_call(HEALTH).stored_field("x", "").repeat_newest(32)).await;
    // Status 8 is RESOURCE_EXHAUSTED. A call without a message gets another status.
    assert_ne!(headers, few);
    let metrics = server.metrics().await;
    assert_eq!(counted(&metrics, "cloakwork_rejected_total{", "\"REQUEST_TOO_LARGE\""), 1.0, "{metrics}");
}

/// The server answers each ping. Without a limit, one connection would take a core from the
/// tenants.
#[tokio::test(flavor = "multi_thread")]
async fn control_frames_without_a_token_are_limited_by_address() {
    const CALLS_PER_SECOND: u64 = 10;
    const FRAMES_OF_A_CALL: u64 = 16;
    const PINGS: u64 = 20_000;
    let setup = Setup::default().without_worker().with("limits.address_calls_per_second", CALLS_PER_SECOND);
    let server = Server::start(setup).await;
    let mut connection = open(&server).await;
    let mut pings = Vec::new();
    for _ in 0..PINGS {
        pings.extend(Connection::frame_header(FrameKind::Ping, 0, 0, 8));
        pings.extend([0; 8]);
    }
    // The pings may fit into the buffers of the kernel, or the write may fail because the server
    // reads slowly.
    let begun = std::time::Instant::now();
    let _ = connection.write(&pings).await;
    let mut answered = 0;
    let read = std::time::Instant::now();
    while read.elapsed() < Duration::from_secs(2) {
        let is_answer = |frame: &cloakwork_tests_attack::Frame| frame.is(FrameKind::Ping) && frame.flags == flags::ACK;
        answered += u64::from(connection.receive_until(Duration::from_millis(100), is_answer).await.is_some());
    }
    assert!(answered > 0, "the connection works");
    // A full budget lasts for a second, and a debt is at most one budget. One read comes after each
    // pause.
    let seconds = begun.elapsed().as_secs() + 1;
    let allowed = CALLS_PER_SECOND * FRAMES_OF_A_CALL * (seconds + 2) + 64 * (seconds + 1);
    assert!(answered <= allowed, "{answered} pings answered in {seconds} s: at most {allowed}");
    assert_eq!(server.probe("/livez").await, Some(200));
}

/// A refused call takes a connection from its tenant. The connection's address must not pay for the
/// control frames that arrived while the tenant owned the connection.
#[tokio::test(flavor = "multi_thread")]
async fn control_frames_of_a_tenant_are_not_charged_afterwards() {
    const PINGS: u64 = 20_000;
    let setup = Setup::default().without_worker().with("limits.address_calls_per_second", 10);
    let server = Server::start(setup).await;
    let token = server.token("acme", "jobs");
    let mut connection = open(&server).await;
    let capabilities = "/cloakwork.v1.CapabilityService/GetCapabilities";
    for (token, expected) in [(&*token, true), ("Bearer-of-nothing", false)] {
        let headers = HeaderBlock::grpc_call(capabilities).field("authorization", &format!("Bearer {token}"));
        let stream = connection.open_stream(0, headers).await.expect("the request is sent");
        let empty_message = [0; 5];
        connection.send(FrameKind::Data, flags::END_STREAM, stream, &empty_message).await.expect("the request is sent");
        let is_end =
            |frame: &cloakwork_tests_attack::Frame| frame.stream == stream && frame.flags & flags::END_STREAM != 0;
        connection.receive_until(Duration::from_secs(60), is_end).await.expect("an answer");
        if expected {
            for _ in 0..PINGS {
                connection.send(FrameKind::Ping, 0, 0, &[0; 8]).await.expect("the tenant's connection is read");
                let is_answer = |frame: &cloakwork_tests_attack::Frame| frame.is(FrameKind::Ping);
                connection.receive_until(Duration::from_secs(60), is_answer).await.expect("an answer to the ping");
            }
        }
    }
    // A charged address would be paused for two seconds.
    let stream = connection.open_stream(flags::END_STREAM, HeaderBlock::grpc_call(HEALTH)).await.expect("a request");
    let is_answer = |frame: &cloakwork_tests_attack::Frame| frame.stream == stream;
    assert!(connection.receive_until(Duration::from_millis(1500), is_answer).await.is_some(), "the reader is paused");
}
