//! A storm: random harm to a cluster for some minutes, while callers of two shards run jobs.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_tests_service::{Signal, Tenant};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::{Cluster, Course, Load, Size, trial::commit};

/// The outcome of a storm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Storm {
    /// Number from which all harm follows.
    pub seed: u64,
    /// Its length.
    pub seconds: u64,
    /// Number of harms.
    pub harms: u64,
    /// Number of jobs that callers began.
    pub jobs: u64,
    /// Number of calls that failed although the client repeated them.
    pub errors: u64,
    /// Number of jobs that were accepted and have no right result.
    pub lost: u64,
    /// Number of jobs beyond one for each request.
    pub twice: u64,
    /// The longest time from a request to its result, in seconds.
    pub longest: f64,
    /// Commit of the tree.
    pub commit: String,
}

/// Jobs that each of two tenants begins in a second.
const JOBS_PER_SECOND: u32 = 10;

/// Lets a storm rage over servers with two shards. Returns `None` if PostgreSQL is not installed,
/// and the calls that failed with the storm.
pub async fn storm(seed: u64, length: Duration, size: Size) -> Option<(Storm, Vec<String>)> {
    let mut cluster = Cluster::start(size).await?;
    cluster.command(&["shards", "--count", "2"]);
    let acme = Arc::new(Tenant::new(cluster.client().await).await);
    let beta = Arc::new(Tenant::new(cluster.client_of("beta").await).await);
    let loads = [acme, beta].map(|tenant| Load::start(tenant, JOBS_PER_SECOND));
    let mut random = Random(seed);
    let begun = Instant::now();
    let mut harms = 0;
    while begun.elapsed() < length {
        harms += 1;
        harm(&mut cluster, &mut random).await;
        cluster.revive();
        sleep(Duration::from_millis(random.below(3000))).await;
    }
    let (mut jobs, mut lost, mut longest, mut errors) = (0, 0, Duration::ZERO, Vec::new());
    for load in loads {
        let outcome = load.end().await;
        (jobs, lost, longest) = (jobs + outcome.jobs, lost + outcome.wrong, longest.max(outcome.longest));
        errors.extend(outcome.errors);
    }
    let failed = cluster.sql("SELECT count(*) FROM jobs WHERE state > 3");
    assert_eq!(failed, "0", "jobs that have failed or were cancelled, whatever their callers know");
    let rows: u64 = cluster.sql("SELECT count(*) FROM jobs").parse().expect("a number");
    let storm = Storm {
        seed,
        seconds: length.as_secs(),
        harms,
        jobs,
        errors: errors.len() as u64,
        lost,
        twice: rows.saturating_sub(jobs),
        longest: longest.as_secs_f64(),
        commit: commit(),
    };
    Some((storm, errors))
}

/// Does one random harm, and repairs what no supervisor would.
async fn harm(cluster: &mut Cluster, random: &mut Random) {
    let member = random.below(cluster.members.len() as u64) as usize;
    let pause = Duration::from_millis(500 + random.below(7500));
    let kind = random.below(9);
    println!("harm {kind} to server or worker {member} for {pause:?}");
    match kind {
        0 | 1 => cluster.members[member].server.kill(),
        2 => cluster.members[member].server.process().signal(Signal::Terminate),
        3 => {
            cluster.members[member].server.process().signal(Signal::Stop);
            sleep(pause).await;
            cluster.members[member].server.process().signal(Signal::Continue);
        }
        4 => cluster.end_worker(member, Signal::Kill),
        5 => cluster.end_worker(member, Signal::Terminate),
        6 => {
            let wires = [&cluster.members[member].to_database, &cluster.members[member].inward];
            let wire = wires[random.below(2) as usize];
            wire.set(Course::Stalls);
            sleep(pause).await;
            wire.set(Course::Passes(Duration::ZERO));
        }
        7 => {
            cluster.to_bucket.set(Course::Stalls);
            sleep(pause).await;
            cluster.to_bucket.set(Course::Passes(Duration::ZERO));
        }
        _ => {
            cluster.postgres.stop();
            sleep(pause / 4).await;
            cluster.postgres.start_again();
        }
    }
}

/// A random number generator (splitmix64) that repeats the harm of a seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
