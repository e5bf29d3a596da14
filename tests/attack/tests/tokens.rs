//! Floods of calls with unknown tokens while a tenant makes calls.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use cloakwork_client::{Client, RetryPolicy};
use cloakwork_tests_attack::{Connection, FrameKind, HeaderBlock, flags};
use cloakwork_tests_service::{Server, Setup, eventually};

/// Connections of the flood.
const CONNECTIONS: u8 = 50;

/// Number of tenant calls that are timed in each phase.
const CALLS: usize = 500;

/// Largest allowed ratio of the tenant's 99th percentile during a flood to that without.
const RATIO_MAX: f64 = 1.5;

/// A well-formed token that no administrator has issued.
fn unknown_token(number: u64) -> String {
    format!("cw_{:012x}_{:064x}", number, u128::from(number) << 64)
}

fn call_with(token: &str) -> HeaderBlock {
    HeaderBlock::grpc_call("/cloakwork.v1.JobService/GetJob").field("authorization", &format!("Bearer {token}"))
}

/// Sends calls with unknown tokens on one connection after another, as fast as the server reads
/// them.
async fn flood(number: u8, server: SocketAddr, stop: Arc<AtomicBool>, sent: Arc<AtomicU64>) {
    // Even numbers use the tenant's own address: an attacker may sit behind the same NAT.
    let source = if number.is_multiple_of(2) { Ipv4Addr::LOCALHOST } else { Ipv4Addr::new(127, 0, 1, number) };
    while !stop.load(Relaxed) {
        let Ok(mut connection) = Connection::open(source.into(), server).await else { continue };
        for _ in 0..250 {
            let headers = call_with(&unknown_token(sent.fetch_add(1, Relaxed)));
            if stop.load(Relaxed) || connection.open_stream(flags::END_STREAM, headers).await.is_err() {
                break;
            }
        }
        let closed = connection.receive_until(Duration::from_secs(2), |frame| frame.is(FrameKind::GoAway)).await;
        drop(closed);
    }
}

/// Measures the 99th percentile of a tenant's call times. Each call must succeed.
async fn p99(client: &Client) -> Duration {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let begun = Instant::now();
        client.capabilities().await.expect("a tenant's call succeeds");
        times.push(begun.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    times.sort();
    times[CALLS * 99 / 100]
}

/// Floods the server while the tenant makes its calls. Returns the tenant's 99th percentile and the
/// number of flood calls answered per second.
async fn p99_in_flood(server: &Server, client: &Client) -> (Duration, f64) {
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let flooding: Vec<_> = (0..CONNECTIONS)
        .map(|number| tokio::spawn(flood(number, server.address(), stop.clone(), sent.clone())))
        .collect();
    eventually("the flood has begun", || async { sent.load(Relaxed) > 1000 }).await;
    let answered = || server.metric("cloakwork_rejected_total");
    let (begun, answered_before) = (Instant::now(), answered().await);
    let p99 = p99(client).await;
    let rate = (answered().await - answered_before) / begun.elapsed().as_secs_f64();
    stop.store(true, Relaxed);
    for task in flooding {
        task.await.expect("the flood ends");
    }
    (p99, rate)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Ratio of the tenant's 99th percentile during a flood to that without, from the medians of
/// alternating rounds.
async fn slowdown(server: &Server, client: &Client) -> f64 {
    const ROUNDS: usize = 3;
    let (mut quiet, mut flooded) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let time = p99(client).await;
        let (time_in_flood, rate) = p99_in_flood(server, client).await;
        println!("p99 {time:.2?} quiet, {time_in_flood:.2?} while {rate:.0} calls/s are refused");
        quiet.push(time);
        flooded.push(time_in_flood);
    }
    let [quiet, flooded] = [median(&mut quiet), median(&mut flooded)];
    let ratio = flooded.as_secs_f64() / quiet.as_secs_f64();
    println!("medians {quiet:.2?} and {flooded:.2?}: {ratio:.2}");
    ratio
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_unknown_tokens_fails_no_call_of_a_tenant_and_hardly_slows_its_calls() {
    const ATTEMPTS: usize = 6;
    let setup = Setup::default().without_worker().with("auth.anonymous", false);
    let server = Server::start(setup).await;
    // Retries would hide refused calls.
    let client = server.client_with(&server.token("acme", "jobs,keys,read")).await.retry_policy(RetryPolicy::NEVER);
    p99(&client).await;
    // Other programs on the test's machine slow single rounds down. A server that serves the flood
    // first fails every attempt.
    let mut ratio = f64::INFINITY;
    for _ in 0..ATTEMPTS {
        ratio = ratio.min(slowdown(&server, &client).await);
        if ratio <= RATIO_MAX {
            break;
        }
    }
    assert!(server.metric("cloakwork_rejected_total").await > 1000.0, "the flood reaches the server");
    assert!(ratio <= RATIO_MAX, "the flood makes the tenant's 99th percentile {ratio:.2} times as long");
    // A new caller also gets in once the flood is over.
    let other = server.client_with(&server.token("other", "read")).await;
    eventually("a new tenant gets in", || async { other.capabilities().await.is_ok() }).await;
}

/// Sum of a counter over its series with this label.
async fn counted(server: &Server, counter: &str, label: &str) -> f64 {
    let metrics = server.metrics().await;
    let series = metrics.lines().filter(|line| line.starts_with(counter) && line.contains(label));
    series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Makes a call with an unknown token on a new connection, and waits for the answer.
async fn guess(server: &Server, from: Ipv4Addr) {
    let mut connection = Connection::open(from.into(), server.address()).await.expect("a connection");
    connection.open_stream(flags::END_STREAM, call_with(&unknown_token(0))).await.expect("a call");
    connection.receive_until(Duration::from_secs(10), |frame| frame.is(FrameKind::Headers)).await.expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_are_reset_while_their_tokens_are_looked_up_count_as_failures() {
    const CANCEL: u32 = 8;
    // More calls than the budget of an address, `address_failures_per_minute`.
    const CALLS: u32 = 75;
    let server = Server::start(Setup::default().without_worker().with("auth.anonymous", false)).await;
    let [guesser, other] = [1, 2].map(|number| Ipv4Addr::new(127, 0, 2, number));
    let mut connection = Connection::open(guesser.into(), server.address()).await.expect("a connection");
    for number in 0..CALLS {
        let call = call_with(&unknown_token(number.into()));
        let stream = connection.open_stream(flags::END_STREAM, call).await.expect("a call is sent");
        connection.send(FrameKind::ResetStream, 0, stream, &CANCEL.to_be_bytes()).await.expect("a reset is sent");
    }
    eventually("all calls have ended", || async {
        counted(&server, "cloakwork_grpc_calls_total{", "GetJob").await >= f64::from(CALLS)
    })
    .await;
    let limited = || counted(&server, "cloakwork_rejected_total{", "\"ADDRESS_LIMITED\"");
    let limited_calls = limited().await;
    assert!(limited_calls > 0.0, "the guesser's last calls get no lookup:\n{}", server.metrics().await);
    guess(&server, other).await;
    assert_eq!(limited().await, limited_calls, "another address gets its lookup");
}
