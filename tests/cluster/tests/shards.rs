//! Two shards with an owner each: their tenants, their workers, and the loss of an owner.

use std::{sync::Arc, time::Duration};

use cloakwork_tests_cluster::{Cluster, Load, Size};
use cloakwork_tests_service::{Tenant, eventually};
use tokio::time::{sleep, timeout};

use crate::PATIENT;

/// Jobs that each tenant begins in a second.
const JOBS_PER_SECOND: u32 = 10;

/// Longest time of the test.
const TIME_MAX: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread")]
async fn tenants_of_two_shards_compute_side_by_side_move_and_survive_an_owner() {
    timeout(TIME_MAX, run()).await.expect("the test ends");
}

async fn run() {
    let size = Size { servers: 3, workers: 2, fsync: false, retry: PATIENT, live_jobs: 0 };
    let Some(mut cluster) = Cluster::start(size).await else { return };
    assert!(cluster.command(&["shards", "--count", "2"]).ends_with("1      0        0        -\n"));
    let acme = Arc::new(Tenant::new(cluster.client().await).await);
    let beta = Arc::new(Tenant::new(cluster.client_of("beta").await).await);
    let shard_of = |cluster: &Cluster, tenant: &str| -> String {
        let list = cluster.command(&["tenant", "list"]);
        let line = list.lines().find(|line| line.starts_with(tenant)).expect("the tenant").to_owned();
        line.split_whitespace().last().expect("its shard").to_owned()
    };
    assert_eq!((shard_of(&cluster, "acme"), shard_of(&cluster, "beta")), ("0".to_owned(), "1".to_owned()));
    // Both workers began at the only shard there was.
    let each_has_a_worker = async |cluster: &Cluster| cluster.servers_with_workers().await == 2;
    eventually("each shard has a worker", || each_has_a_worker(&cluster)).await;
    acme.check_squares(&[3]).await;
    beta.check_squares(&[3]).await;
    let loads = [&acme, &beta].map(|tenant| Load::start(tenant.clone(), JOBS_PER_SECOND));
    for shard in ["0", "1"] {
        sleep(Duration::from_secs(1)).await;
        cluster.command(&["tenant", "move", "beta", "--shard", shard]);
        assert_eq!(shard_of(&cluster, "beta"), shard);
    }
    sleep(Duration::from_secs(1)).await;
    let owners = cluster.owners();
    let others = cluster.others(owners[1]);
    cluster.balance_over(&others);
    cluster.members[owners[1]].server.kill();
    eventually("the third server owns the shard", || async { cluster.owners().len() == 2 }).await;
    assert_eq!(cluster.owners()[0], owners[0], "the other owner goes on");
    cluster.start_again(owners[1]).await;
    eventually("each shard has a worker again", || each_has_a_worker(&cluster)).await;
    sleep(Duration::from_secs(1)).await;
    let mut jobs = 2;
    for (load, name) in loads.into_iter().zip(["acme", "beta"]) {
        let outcome = load.end().await;
        assert_eq!((outcome.wrong, &outcome.errors[..]), (0, &[][..]), "{name}");
        eprintln!("{name}: {} jobs, the longest took {:?}", outcome.jobs, outcome.longest);
        jobs += outcome.jobs;
    }
    cluster.command(&["shards", "--count", "4"]);
    eventually("three servers leave one of four shards without an owner", || async {
        let server = &cluster.members[owners[0]].server;
        cluster.owners().len() == 3 && server.metric("cloakwork_shards_without_owner").await == 1.0
    })
    .await;
    assert!(cluster.workers_run(), "a worker has ended");
    assert_eq!(cluster.sql("SELECT count(*) FROM jobs"), jobs.to_string(), "one job for each request");
    // A lease that had not reached its worker when the owner died costs its job an attempt.
    eprintln!("lost attempts: {}", cluster.sql("SELECT count(*) FROM jobs WHERE attempts > 0"));
}
