//! One trial of a fault.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use cloakwork_tests_service::Tenant;
use serde::{Deserialize, Serialize};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{Cluster, Fault, Load, Size, cluster::UNSERVED_SET, races};

/// The outcome of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Number of the fault.
    pub fault: u8,
    /// The time that counts, in seconds.
    pub seconds: f64,
    /// Number of jobs that callers began.
    pub jobs: u64,
    /// Number of calls that failed although the client repeated them.
    pub errors: u64,
    /// Number of jobs that were accepted and have no right result.
    pub lost: u64,
    /// Number of jobs beyond one for each request.
    pub twice: u64,
    /// Number of jobs that lost an attempt. A job whose lease had not reached its worker counts
    /// too, because the next owner cannot know that.
    pub lost_attempts: u64,
    /// The longest time from a request to its result, in seconds.
    pub longest: f64,
    /// Number of jobs that waited without a worker when the fault struck.
    #[serde(default)]
    pub live_jobs: u64,
    /// Whether commits waited for the disk.
    pub fsync: bool,
    /// Whether the programs were built with optimizations.
    pub release: bool,
    /// Commit of the tree.
    pub commit: String,
}

/// Jobs that callers begin each second.
const JOBS_PER_SECOND: u32 = 20;

/// Longest time of a trial. A trial that hangs must not use up the time of a whole run.
const TRIAL_TIME_MAX: Duration = Duration::from_secs(240);

/// Runs a trial. Returns `None` if PostgreSQL is not installed, and the calls that failed with the
/// trial.
pub async fn run(fault: Fault, size: Size) -> Option<(Trial, Vec<String>)> {
    timeout(TRIAL_TIME_MAX, on_a_new_cluster(fault, size)).await.expect("the trial ends")
}

/// A caller whose jobs a fault waits for, beside those of the load.
pub(crate) struct Caller {
    tenant: Arc<Tenant>,
    /// Number of jobs that the caller began.
    jobs: AtomicU64,
}

impl Caller {
    /// Submits jobs until one is accepted.
    pub(crate) async fn has_a_job_accepted(&self) {
        loop {
            self.jobs.fetch_add(1, Relaxed);
            if self.tenant.client.submit(&self.tenant.squares(&[5])).await.is_ok() {
                return;
            }
        }
    }

    /// Has callers of all servers store, use and delete the same lists and keys.
    pub(crate) async fn race(&self, cluster: &Cluster) {
        self.jobs.fetch_add(races::run(cluster, &self.tenant).await, Relaxed);
    }

    /// Makes a key of tens of megabytes, uploads it, and runs a job under it. The task checks the
    /// result.
    pub(crate) fn begin_upload(&self) -> JoinHandle<()> {
        self.jobs.fetch_add(1, Relaxed);
        let client = self.tenant.client.clone();
        tokio::spawn(async move {
            let tenant = Tenant::of_set(client, "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128").await;
            tenant.check_squares(&[3]).await;
        })
    }
}

async fn on_a_new_cluster(fault: Fault, size: Size) -> Option<(Trial, Vec<String>)> {
    let mut cluster = Cluster::start(size).await?;
    let tenant = Arc::new(Tenant::new(cluster.client().await).await);
    tenant.check_squares(&[3]).await;
    let load = Load::start(tenant.clone(), JOBS_PER_SECOND);
    sleep(Duration::from_secs(1)).await;
    // The first job counts too.
    let caller = Caller { tenant, jobs: AtomicU64::new(1) };
    if size.live_jobs > 0 {
        cluster.add_live_jobs(size.live_jobs);
    }
    let seconds = fault.strike(&mut cluster, &caller).await;
    sleep(Duration::from_secs(1)).await;
    let outcome = load.end().await;
    assert!(cluster.workers_run(), "a worker has ended");
    cluster.check_blobs();
    let count = |rows: &str| -> u64 {
        let sql = format!("SELECT count(*) FROM jobs WHERE parameter_set <> {UNSERVED_SET} AND {rows}");
        cluster.sql(&sql).parse().expect("a number")
    };
    assert_eq!(count("state > 3"), 0, "jobs that have failed or were cancelled, whatever their callers know");
    let trial = Trial {
        fault: fault.number,
        seconds,
        jobs: outcome.jobs,
        errors: outcome.errors.len() as u64,
        lost: outcome.wrong,
        twice: count("true").saturating_sub(outcome.jobs + caller.jobs.into_inner()),
        lost_attempts: count("attempts > 0"),
        longest: outcome.longest.as_secs_f64(),
        live_jobs: size.live_jobs,
        fsync: size.fsync,
        release: !cfg!(debug_assertions),
        commit: commit(),
    };
    Some((trial, outcome.errors))
}

impl Trial {
    /// Whether the time that counts is within its bound.
    pub fn is_in_time(&self, fault: &Fault) -> bool {
        self.seconds <= fault.seconds_max
    }

    /// The harm that jobs or callers took, or nothing.
    pub fn harm(&self, fault: &Fault) -> Vec<String> {
        let mut harm = Vec::new();
        let counts = [
            ("jobs without their result", self.lost),
            ("requests with two jobs", self.twice),
            ("failed calls", if fault.may_fail_calls { 0 } else { self.errors }),
        ];
        for (what, count) in counts {
            if count > 0 {
                harm.push(format!("{count} {what}"));
            }
        }
        harm
    }
}

/// The commit of the tree, or an empty text outside of a repository.
pub(crate) fn commit() -> String {
    let output = std::process::Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}
