//! Memory that a server spends on callers without a token.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    path::Path,
    time::{Duration, Instant},
};

use cloakwork_tests_attack::{Connection, FrameKind, HeaderBlock, flags};
use cloakwork_tests_service::{Server, Setup, dev_certificates, eventually};

const MIB: u64 = 1 << 20;

/// Limit for the memory of all connections without a token, as these tests set it.
const UNAUTHENTICATED_BYTES: u64 = 64 * MIB;

/// Growth allowed beyond the limit: the allocator's own memory, and pages that it has not yet
/// returned.
const SLACK_BYTES: u64 = 64 * MIB;

/// Growth allowed after a flood, once its connections are closed.
const LEFT_BYTES_MAX: u64 = 100 * MIB;

/// Time for which a flood stays open after its last byte, so that the server processes all of it.
const SETTLING_TIME: Duration = Duration::from_secs(3);

/// Time within which memory must fall to [`LEFT_BYTES_MAX`].
const MEMORY_RETURN_LIMIT: Duration = Duration::from_secs(20);

/// Time within which a tenant connects and makes a call during a flood.
const CONNECTING_TIME_MAX: Duration = Duration::from_secs(5);

/// Connections of a flood, and streams on each connection.
const CONNECTIONS: u8 = 200;
const STREAMS: u32 = 256;

/// Number of fields that fill a header list of 16 KiB. Each field counts its name, its value and 32
/// bytes.
const INFLATED_FIELDS: usize = 480;

async fn start(certificates: Option<&Path>) -> Server {
    let mut setup = Setup::default()
        .without_worker()
        .with("auth.anonymous", false)
        .with("limits.unauthenticated_bytes", UNAUTHENTICATED_BYTES);
    if let Some(directory) = certificates {
        let path = |name: &str| directory.join(name).display().to_string();
        setup = setup.with("listen.tls_certificate", path("server.pem")).with("listen.tls_key", path("server.key"));
    }
    Server::start(setup).await
}

/// Source address of a connection. Each connection of a flood has its own, like those of a botnet.
fn source(number: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 1, number).into()
}

/// Runs a flood: `flood` sends the traffic of each connection. With `CLOAKWORK_TEST_ALL`, runs it
/// over TLS as well.
async fn check_flood<F: AsyncFn(Connection) -> io::Result<Connection>>(what: &str, flood: F) {
    check_flood_over(what, None, &flood).await;
    if std::env::var_os("CLOAKWORK_TEST_ALL").is_some() {
        check_flood_over(&format!("{what}, over TLS"), Some(dev_certificates().path()), &flood).await;
    }
}

/// Runs a flood, and checks that the server's memory stays within its bound during the flood and
/// after it.
async fn check_flood_over<F>(what: &str, certificates: Option<&Path>, flood: &F)
where
    F: AsyncFn(Connection) -> io::Result<Connection>,
{
    let mut server = start(certificates).await;
    let address = server.address();
    let authority = certificates.map(|directory| std::fs::read(directory.join("ca.pem")).expect("a certificate"));
    let open = async |number| match &authority {
        Some(authority) => Connection::open_tls(source(number), address, authority).await,
        None => Connection::open(source(number), address).await,
    };
    let before = server.process().resident_bytes();
    let (mut peak, mut sent, begun) = (before, 0, Instant::now());
    let mut connections = Vec::new();
    for number in 0..CONNECTIONS {
        // A server may close a connection at any time, which is a valid defence.
        if let Ok(connection) = open(number).await
            && let Ok(connection) = flood(connection).await
        {
            sent += connection.bytes_sent();
            connections.push(connection);
        }
        peak = peak.max(server.process().resident_bytes());
        assert!(peak < 2048 * MIB, "{what}: {} MiB after {number} connections", peak / MIB);
    }
    let settled = Instant::now();
    while settled.elapsed() < SETTLING_TIME {
        peak = peak.max(server.process().resident_bytes());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let flooded = begun.elapsed();
    assert!(server.probe("/livez").await == Some(200), "{what}: the server is dead");
    drop(connections);
    let (closed, mut left) = (Instant::now(), server.process().resident_bytes());
    while left > before + LEFT_BYTES_MAX && closed.elapsed() < MEMORY_RETURN_LIMIT {
        peak = peak.max(left);
        tokio::time::sleep(Duration::from_millis(50)).await;
        left = server.process().resident_bytes();
    }
    println!(
        "{what}: {} MiB sent in {flooded:.1?}; resident {} MiB before, {} MiB at most, {} MiB {:.1?} after",
        sent / MIB,
        before / MIB,
        peak / MIB,
        left / MIB,
        closed.elapsed(),
    );
    assert!(left <= before + LEFT_BYTES_MAX, "{what}: {} MiB are left of the flood", (left - before) / MIB);
    let bound = UNAUTHENTICATED_BYTES + SLACK_BYTES;
    assert!(peak <= before + bound, "{what}: {} MiB taken, {} allowed", (peak - before) / MIB, bound / MIB);
}

/// Opens as many streams as the server allows. HPACK inflates the headers of each stream a
/// hundredfold.
async fn half_open_streams(path: &str, mut connection: Connection) -> io::Result<Connection> {
    for stream in 0..STREAMS {
        let headers = HeaderBlock::grpc_call(path);
        let headers = if stream == 0 { headers.stored_field("x", "") } else { headers };
        connection.open_stream(0, headers.repeat_newest(INFLATED_FIELDS)).await?;
    }
    Ok(connection)
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_health_checks_with_inflated_headers_take_bounded_memory() {
    check_flood("half-open Health/Check", async |connection| {
        half_open_streams("/grpc.health.v1.Health/Check", connection).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_reflection_with_inflated_headers_takes_bounded_memory() {
    check_flood("half-open ServerReflectionInfo", async |connection| {
        half_open_streams("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", connection).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_calls_without_a_token_take_bounded_memory() {
    check_flood("half-open SubmitJob", async |connection| {
        half_open_streams("/cloakwork.v1.JobService/SubmitJob", connection).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_frames_take_bounded_memory() {
    check_flood("unfinished DATA frames", async |mut connection| {
        let stream = connection.open_stream(0, HeaderBlock::grpc_call("/grpc.health.v1.Health/Check")).await?;
        let payload_bytes = 1 << 20;
        connection.write(&Connection::frame_header(FrameKind::Data, 0, stream, payload_bytes)).await?;
        connection.write(&vec![7; payload_bytes - 1]).await?;
        Ok(connection)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_header_blocks_take_bounded_memory() {
    check_flood("unfinished header blocks", async |mut connection| {
        let stream = connection.new_stream();
        let headers = HeaderBlock::grpc_call("/grpc.health.v1.Health/Check").stored_field("x", "");
        let headers = headers.repeat_newest(INFLATED_FIELDS).into_bytes();
        connection.send(FrameKind::Headers, 0, stream, &headers).await?;
        Ok(connection)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_the_client_does_not_read_take_bounded_memory() {
    check_flood("unread answers", async |mut connection| {
        for _ in 0..20 {
            for _ in 0..STREAMS {
                let headers = HeaderBlock::grpc_call("/cloakwork.v1.JobService/SubmitJob");
                connection.open_stream(flags::END_STREAM, headers).await?;
            }
        }
        Ok(connection)
    })
    .await;
}

/// A request of reflection for the file that declares a symbol, as a gRPC message.
fn file_containing(symbol: &str) -> Vec<u8> {
    let length = u8::try_from(symbol.len()).expect("a short name");
    let mut message = vec![0, 0, 0, 0, length + 2, 0x22, length];
    message.extend_from_slice(symbol.as_bytes());
    message
}

/// Each answer has some 16 KB. Each stream has room for one byte of its answers.
#[tokio::test(flavor = "multi_thread")]
async fn unread_answers_of_reflection_take_bounded_memory() {
    check_flood("unread answers of reflection", unread_reflection).await;
}

async fn unread_reflection(mut connection: Connection) -> io::Result<Connection> {
    const INITIAL_WINDOW_OF_ONE_BYTE: [u8; 6] = [0, 4, 0, 0, 0, 1];
    connection.send(FrameKind::Settings, 0, 0, &INITIAL_WINDOW_OF_ONE_BYTE).await?;
    let requests = file_containing("cloakwork.v1.Program").repeat(6);
    for _ in 0..STREAMS {
        let headers = HeaderBlock::grpc_call("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo");
        let stream = connection.open_stream(0, headers).await?;
        connection.send(FrameKind::Data, 0, stream, &requests).await?;
    }
    Ok(connection)
}

/// A connection of a tenant is unauthenticated until its first call, so it waits with those of the
/// flood for memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_connects_while_a_flood_takes_all_memory_before_authentication() {
    /// More flooding connections than can hold their streams at once.
    const FLOODING: u8 = 16;
    const ATTEMPTS_MIN: usize = 20;
    /// The tenant connects again until the flood has made so many calls beside it. A fixed number
    /// of attempts can end between two rounds of the flood.
    const FLOODED_CALLS: f64 = 1000.0;
    const FLOOD_TIME_MAX: Duration = Duration::from_secs(60);
    let server = start(None).await;
    let (address, token) = (server.address(), server.token("tenant", "jobs"));
    let flooding: Vec<_> = (0..FLOODING)
        .map(|number| {
            tokio::spawn(async move {
                loop {
                    // The server closes these connections again and again.
                    if let Ok(connection) = Connection::open(source(number), address).await
                        && let Ok(connection) = unread_reflection(connection).await
                    {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        drop(connection);
                    }
                }
            })
        })
        .collect();
    let called = || server.metric("cloakwork_grpc_calls_total");
    eventually("the flood has begun", || async { called().await > 1000.0 }).await;
    let before = called().await;
    let flood_begun = Instant::now();
    let mut times = Vec::new();
    let mut calls = 0.0;
    while times.len() < ATTEMPTS_MIN || calls - times.len() as f64 <= FLOODED_CALLS {
        assert!(flood_begun.elapsed() < FLOOD_TIME_MAX, "the flood went on: {calls} calls");
        let begun = Instant::now();
        let client = server.client_with(&token).await;
        client.capabilities().await.expect("a tenant's call succeeds");
        times.push(begun.elapsed());
        calls = called().await - before;
    }
    flooding.iter().for_each(tokio::task::JoinHandle::abort);
    times.sort();
    let longest = times[times.len() - 1];
    println!(
        "{calls} calls; {} connections and calls of a tenant, {:?} in the median, {longest:?} at most",
        times.len(),
        times[times.len() / 2],
    );
    assert!(longest < CONNECTING_TIME_MAX, "{times:?}");
}

/// A string that is longer than a header list, in the largest frames. The HTTP library waits for
/// its last byte.
#[tokio::test(flavor = "multi_thread")]
async fn unfinished_strings_of_header_blocks_take_bounded_memory() {
    check_flood("unfinished strings", async |mut connection| {
        const FRAME_BYTES: usize = 1 << 20;
        let stream = connection.new_stream();
        // A literal field whose name has an announced length of 100 MB.
        let mut block = vec![0x00, 0x7f, 0x81, 0xe1, 0xd7, 0x2f];
        block.resize(FRAME_BYTES, b'x');
        connection.send(FrameKind::Headers, 0, stream, &block).await?;
        for _ in 0..4 {
            connection.send(FrameKind::Continuation, 0, stream, &vec![b'x'; FRAME_BYTES]).await?;
        }
        Ok(connection)
    })
    .await;
}
