//! Two shards compared with one, where commits take long.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_client::{Client, JobRequest, RetryPolicy};
use cloakwork_tests_cluster::{Cluster, Size};
use cloakwork_tests_service::{Tenant, VALUES, eventually};
use tokio::runtime::Runtime;

use crate::{
    Effort,
    replicas::run_for,
    report::{Bound, Report, Row},
};

/// Time that is added to each commit. A shard waits for a commit before the next one, and decides
/// about at most 256 commands in between. Two cores cannot make as many in 5 ms, so that the time
/// of a commit would not be the limit.
const ADDED: Duration = Duration::from_millis(200);

/// Number of connections of each tenant, and of callers that share one.
const CONNECTIONS: usize = 16;
const CALLERS: usize = 32;

/// Measures the short jobs of two tenants of one shard, and of two shards, in turn.
pub(crate) fn measure(runtime: &Runtime, effort: Effort, report: &mut Report) {
    let size = Size { servers: 2, workers: 2, fsync: true, retry: RetryPolicy::default(), live_jobs: 0 };
    let cluster = runtime.block_on(Cluster::start(size)).expect("PostgreSQL is installed");
    cluster.command(&["shards", "--count", "2"]);
    let (acme, beta) = runtime.block_on(async {
        let acme = Callers::new(&cluster, "acme").await;
        let beta = Callers::new(&cluster, "beta").await;
        (acme, beta)
    });
    cluster.members.iter().for_each(|member| member.to_database.delay_commits(ADDED));
    let (mut rates, mut ratios): ([Vec<f64>; 2], Vec<f64>) = Default::default();
    for _ in 0..effort.rounds {
        for (shard, rates) in ["0", "1"].into_iter().zip(&mut rates) {
            cluster.command(&["tenant", "move", "beta", "--shard", shard]);
            let has_workers = || async { cluster.servers_with_workers().await == 2 };
            runtime.block_on(eventually("each shard has a worker", has_workers));
            let begun = Instant::now();
            let done = runtime.block_on(async {
                let (one, other) = tokio::join!(acme.run_for(effort.slice), beta.run_for(effort.slice));
                one + other
            });
            rates.push(done as f64 / begun.elapsed().as_secs_f64());
        }
        ratios.extend(rates[1].last().zip(rates[0].last()).map(|(two, one)| two / one));
    }
    let name = |shards| format!("short jobs, commits {} ms later, {shards}", ADDED.as_millis());
    report.add(Row::of(&name("one shard"), "jobs/s", &rates[0]));
    report.add(Row::of(&name("two shards"), "jobs/s", &rates[1]));
    report.add(Row::of("    two shards over one", "", &ratios).required(Bound::Least(1.8)));
}

/// The callers of a tenant.
struct Callers {
    tenant: Arc<Tenant>,
    clients: Vec<Client>,
}

impl Callers {
    async fn new(cluster: &Cluster, name: &str) -> Self {
        let tenant = Tenant::new(cluster.client_of(name).await).await;
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            let client = tenant.share_key(cluster.client_of(name).await).await;
            clients.extend(std::iter::repeat_n(client, CALLERS));
        }
        Self { tenant: Arc::new(tenant), clients }
    }

    async fn run_for(&self, time: Duration) -> u64 {
        let tenant = &self.tenant;
        let list = tenant.keys.encrypt(&[3], VALUES as u32 - 1).expect("a value of a block");
        let (program, key) = (tenant.lookup(|x| x * x % VALUES), tenant.key.clone());
        let request = move || JobRequest::new(program.clone(), &key).encrypted(list.clone());
        run_for(time, self.clients.clone(), request).await
    }
}
