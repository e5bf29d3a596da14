//! Very many watchers of one job at servers that pass their calls on.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_client::Client;
use cloakwork_tests_service::{TOY, Tenant};
use tokio::{runtime::Runtime, task::JoinSet, time::sleep};

use crate::{
    Effort,
    processes::processes,
    replicas::Replicas,
    report::{Bound, Report, Row, percentile},
    single::millis,
};

/// Number of watchers, divided among two servers that do not own the database.
const WATCHERS: usize = 10_000;

/// Number of connections that the watchers share.
const CONNECTIONS: usize = 100;

/// Measures how long after the end of a job its watchers know of the end.
pub(crate) fn measure(runtime: &Runtime, effort: Effort, report: &mut Report) {
    let replicas = runtime.block_on(Replicas::start(3));
    let token = replicas.owner().token("acme", "jobs,keys,read");
    let tenant = runtime.block_on(async { Tenant::of_set(replicas.owner().client_with(&token).await, TOY).await });
    let clients: Vec<Client> = runtime.block_on(async {
        let mut clients = Vec::with_capacity(CONNECTIONS);
        for number in 0..CONNECTIONS {
            clients.push(replicas.servers[1 + number % 2].client_with(&token).await);
        }
        clients
    });
    let (mut halves, mut lasts, mut kilobytes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let (mut delays, bytes) = runtime.block_on(round(&tenant, &clients));
        halves.push(percentile(&mut delays, 0.5));
        lasts.push(percentile(&mut delays, 1.0));
        kilobytes.push(bytes as f64 / 1e3 / WATCHERS as f64);
    }
    let name = format!("{WATCHERS} watchers of a job at 2 servers that pass calls on, from its end, p50");
    report.add(Row::of(&name, "ms", &halves));
    report.add(Row::of("    the last watcher", "ms", &lasts).required(Bound::Most(1500.0)));
    report.add(Row::of("    memory of the three servers for a watcher", "kB", &kilobytes));
}

/// Lets all watch a job that no worker takes, and cancels it. Returns the milliseconds from the
/// cancellation until each watcher knew, and the bytes that the watchers took at all servers.
async fn round(tenant: &Tenant, clients: &[Client]) -> (Vec<f64>, u64) {
    let job = tenant.client.submit(&tenant.squares(&[3])).await.expect("accepted");
    let name: Arc<str> = job.name.into();
    let before = resident_bytes();
    let mut watchers = JoinSet::new();
    for number in 0..WATCHERS {
        let (client, name) = (clients[number % clients.len()].clone(), name.clone());
        watchers.spawn(async move {
            client.wait(&name).await.expect("it ends");
            Instant::now()
        });
    }
    // All watch once the memory does not grow any more.
    let mut bytes = 0;
    loop {
        sleep(Duration::from_secs(2)).await;
        let now = resident_bytes();
        if now < bytes + (1 << 20) {
            break;
        }
        bytes = now;
    }
    let begun = Instant::now();
    tenant.client.cancel(&name).await.expect("cancelled");
    let known = watchers.join_all().await;
    (known.into_iter().map(|known| millis(known - begun)).collect(), bytes.saturating_sub(before))
}

/// Memory of the children of this process that are servers.
fn resident_bytes() -> u64 {
    let own = std::process::id();
    let children = processes().into_iter().filter(|(_, process)| process.parent == own);
    let kilobytes = children.filter_map(|(pid, _)| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.starts_with("Name:\ttested-server").then_some(())?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    });
    kilobytes.sum::<u64>() << 10
}
