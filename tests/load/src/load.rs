//! Many bootstraps: as batch jobs of one tenant, and as single bootstraps from many clients.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_client::{Client, Encrypted, Finished, JobRequest, Program};
use cloakwork_tests_service::{Server, Tenant, VALUES};
use tokio::{runtime::Runtime, task::JoinSet};

use crate::{
    Effort,
    core::Core,
    report::{Bound, Report, Row, percentile},
};

/// Rows of a batch job.
pub(crate) const ROWS: usize = 256;
/// Number of batch jobs that are submitted and have not ended.
const IN_FLIGHT: usize = 4;
/// Number of clients that send one bootstrap at a time.
pub(crate) const CLIENTS: usize = 64;

/// Requests of the measured tasks.
pub(crate) struct Work {
    program: Program,
    key: String,
    /// Lists that were encrypted before the measurement.
    lists: Vec<Encrypted>,
}

impl Work {
    pub(crate) fn new(tenant: &Tenant, lists: usize, rows: usize) -> Arc<Self> {
        let list =
            |salt: usize| tenant.keys.encrypt(&values(salt, rows), VALUES as u32 - 1).expect("values of a block");
        let program = tenant.lookup(|x| x * x % VALUES);
        Arc::new(Self { program, key: tenant.key.clone(), lists: (0..lists).map(list).collect() })
    }

    /// Runs a job on a list and fetches its output.
    async fn run(&self, client: &Client, list: usize) -> (Finished, Encrypted) {
        let request = JobRequest::new(self.program.clone(), &self.key).encrypted(self.lists[list].clone());
        let finished = client.run(&request).await.expect("the job succeeds");
        let output = client.output(&finished.output(0).expect("an output")).await.expect("its bytes");
        (finished, output)
    }
}

/// Measures batch jobs of one tenant, a few in flight, alternating with the core's batches.
pub(crate) fn batches(runtime: &Runtime, tenant: &Tenant, core: &mut Core, effort: Effort, report: &mut Report) {
    let work = Work::new(tenant, effort.jobs, ROWS);
    let (mut bare, mut served, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let core_rate = core.batch(effort.slice);
        let begun = Instant::now();
        let outputs = runtime.block_on(run_batches(tenant.client.clone(), work.clone()));
        let rate = (outputs.len() * ROWS) as f64 / begun.elapsed().as_secs_f64();
        for (list, output) in outputs {
            check(tenant, list, ROWS, &output);
        }
        bare.push(core_rate);
        served.push(rate);
        ratios.push(rate / core_rate);
    }
    report.add(Row::of("the core's batches", "PBS/s", &bare));
    report.add(Row::of(&format!("batch jobs of {ROWS} rows, {IN_FLIGHT} in flight"), "PBS/s", &served));
    report.add(Row::of("batch jobs over the core", "ratio", &ratios).required(Bound::Least(0.95)));
}

/// Runs a job on each list, a few at once, and returns the outputs with the numbers of their lists.
pub(crate) async fn run_batches(client: Client, work: Arc<Work>) -> Vec<(usize, Encrypted)> {
    let mut tasks = JoinSet::new();
    let mut outputs = Vec::with_capacity(work.lists.len());
    for list in 0..work.lists.len() {
        if tasks.len() == IN_FLIGHT {
            outputs.extend(tasks.join_next().await.map(|done| done.expect("no panic")));
        }
        let (client, work) = (client.clone(), work.clone());
        tasks.spawn(async move { (list, work.run(&client, list).await.1) });
    }
    outputs.extend(tasks.join_all().await);
    outputs
}

/// Measures clients with a connection each, alternating with the core's batches. A client sends a
/// bootstrap when its last one has returned.
pub(crate) fn clients(
    runtime: &Runtime,
    server: &Server,
    tenant: &Tenant,
    core: &mut Core,
    effort: Effort,
    report: &mut Report,
) {
    let work = Work::new(tenant, CLIENTS, 1);
    let connect = async {
        let mut clients = Vec::with_capacity(CLIENTS);
        for _ in 0..CLIENTS {
            clients.push(tenant.share_key(server.client().await).await);
        }
        clients
    };
    let clients = runtime.block_on(connect);
    let (mut bare, mut served, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut latencies, mut widths) = (Vec::new(), BTreeMap::<u32, f64>::new());
    for _ in 0..effort.rounds {
        let core_rate = core.batch(effort.slice);
        let begun = Instant::now();
        let shots = runtime.block_on(run_clients(clients.clone(), work.clone(), effort.slice));
        let rate = shots.len() as f64 / begun.elapsed().as_secs_f64();
        for shot in &shots {
            check(tenant, shot.list, 1, &shot.output);
            latencies.push(shot.wall.as_secs_f64() * 1e3);
            for wave in shot.finished.job.latency.iter().flat_map(|record| &record.waves) {
                // Every job of a wave reports the wave, so each report counts by its share.
                *widths.entry(wave.width).or_default() += f64::from(wave.own_width) / f64::from(wave.width.max(1));
            }
        }
        bare.push(core_rate);
        served.push(rate);
        ratios.push(rate / core_rate);
    }
    report.add(Row::of("the core's batches", "PBS/s", &bare));
    report.add(Row::of(&format!("{CLIENTS} clients, one bootstrap at a time"), "PBS/s", &served));
    report.add(Row::of(&format!("{CLIENTS} clients over the core"), "ratio", &ratios).required(Bound::Least(0.85)));
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let latency = percentile(&mut latencies, share);
        report.add(Row::of(&format!("{CLIENTS} clients, latency {name}"), "ms", &[latency]));
    }
    report.histogram("waves by width", &buckets(&widths));
}

/// A job of one of the clients.
struct Shot {
    list: usize,
    wall: Duration,
    finished: Finished,
    output: Encrypted,
}

/// Number of bootstraps that these clients get in `time`, one at a time each.
pub(crate) async fn count(clients: Vec<Client>, work: Arc<Work>, time: Duration) -> usize {
    run_clients(clients, work, time).await.len()
}

async fn run_clients(clients: Vec<Client>, work: Arc<Work>, time: Duration) -> Vec<Shot> {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for (list, client) in clients.into_iter().enumerate() {
        let work = work.clone();
        tasks.spawn(async move {
            let mut shots = Vec::new();
            while begun.elapsed() < time {
                let sent = Instant::now();
                let (finished, output) = work.run(&client, list).await;
                shots.push(Shot { list, wall: sent.elapsed(), finished, output });
            }
            shots
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

/// Groups waves by width: width one, and up to each power of two.
fn buckets(widths: &BTreeMap<u32, f64>) -> Vec<(String, f64)> {
    let mut buckets = BTreeMap::<u32, f64>::new();
    for (width, waves) in widths {
        *buckets.entry(width.next_power_of_two()).or_default() += waves;
    }
    let name = |most: u32| if most <= 2 { most.to_string() } else { format!("{} - {most}", most / 2 + 1) };
    buckets.into_iter().map(|(most, waves)| (name(most), waves)).collect()
}

fn values(salt: usize, rows: usize) -> Vec<u64> {
    (0..rows).map(|row| (row * 7 + salt) as u64 % VALUES).collect()
}

pub(crate) fn check(tenant: &Tenant, salt: usize, rows: usize, output: &Encrypted) {
    let got = tenant.keys.decrypt(output).expect("a readable output");
    let expected: Vec<u64> = values(salt, rows).iter().map(|x| x * x % VALUES).collect();
    assert_eq!(*got, expected, "a wrong result");
}
