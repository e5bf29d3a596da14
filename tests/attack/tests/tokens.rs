//! Floods of calls with unknown tokens, beside a tenant at work.

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

/// Calls of the tenant that are timed in each phase.
const CALLS: usize = 1000;

/// A token of the right form that nobody made.
fn unknown_token(number: u64) -> String {
    format!("cw_{:012x}_{:064x}", number, u128::from(number) << 64)
}

/// Sends calls with unknown tokens on one connection after the other, as fast as the server reads them.
async fn flood(number: u8, server: SocketAddr, stop: Arc<AtomicBool>, sent: Arc<AtomicU64>) {
    // The tenant's own address among them: an attacker may sit behind the same NAT.
    let source = if number.is_multiple_of(2) { Ipv4Addr::LOCALHOST } else { Ipv4Addr::new(127, 0, 1, number) };
    while !stop.load(Relaxed) {
        let Ok(mut connection) = Connection::open(source.into(), server).await else { continue };
        for _ in 0..250 {
            let token = unknown_token(sent.fetch_add(1, Relaxed));
            let headers = HeaderBlock::grpc_call("/cloakwork.v1.JobService/GetJob");
            let headers = headers.field("authorization", &format!("Bearer {token}"));
            if stop.load(Relaxed) || connection.open_stream(flags::END_STREAM, headers).await.is_err() {
                break;
            }
        }
        let closed = connection.receive_until(Duration::from_secs(2), |frame| frame.is(FrameKind::GoAway)).await;
        drop(closed);
    }
}

/// The 99th percentile of a tenant's calls, each of which must succeed. It is printed and not asserted: client, flood and
/// server share the processors of the test's machine.
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

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_unknown_tokens_takes_no_call_of_a_tenant() {
    let setup = Setup::default().without_worker().with("auth.anonymous", false);
    let server = Server::start(setup).await;
    // Without retries, which would hide refused calls.
    let client = server.client_with(&server.token("acme", "jobs,keys,read")).await.retry_policy(RetryPolicy::NEVER);
    p99(&client).await;
    let quiet_before = p99(&client).await;
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let flooding: Vec<_> = (0..CONNECTIONS)
        .map(|number| tokio::spawn(flood(number, server.address(), stop.clone(), sent.clone())))
        .collect();
    eventually("the flood has begun", || async { sent.load(Relaxed) > 1000 }).await;
    let begun = Instant::now();
    let sent_before = sent.load(Relaxed);
    let flooded = p99(&client).await;
    let rate = (sent.load(Relaxed) - sent_before) as f64 / begun.elapsed().as_secs_f64();
    stop.store(true, Relaxed);
    for task in flooding {
        task.await.expect("the flood ends");
    }
    let quiet_after = p99(&client).await;
    let quiet = quiet_before.max(quiet_after);
    let ratio = flooded.as_secs_f64() / quiet.as_secs_f64();
    println!("p99 {quiet_before:.2?} and {quiet_after:.2?} quiet, {flooded:.2?} under {rate:.0} calls/s: {ratio:.2}");
    assert!(server.metric("cloakwork_rejected_total").await > 1000.0, "the flood reached the server");
    // A new caller gets in as well, once the flood is over.
    let other = server.client_with(&server.token("other", "read")).await;
    eventually("a new tenant gets in", || async { other.capabilities().await.is_ok() }).await;
}
