//! The cost of second computations of rows, with two workers of one class.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_tests_service::{Server, Setup, Tenant, Worker, eventually};
use tokio::runtime::Runtime;

use crate::{
    Effort, SET,
    load::{ROWS, Work, check, run_batches},
    report::{Bound, Report, Row},
};

/// Percentage of rows that are computed a second time.
const PERCENT: u32 = 1;

/// A server has no more checks when it has counted none for this time. A check takes some
/// milliseconds.
const QUIET: Duration = Duration::from_secs(1);

/// A server with two workers of one thread each.
struct Service {
    tenant: Tenant,
    work: Arc<Work>,
    server: Server,
    _workers: [Worker; 2],
}

impl Service {
    async fn start(verify_percent: u32, jobs: usize) -> Self {
        let setup = Setup::of_benchmark().without_worker().with("verify_percent", verify_percent);
        let server = Server::start(setup).await;
        let token = server.token("workers", "worker");
        let workers = ["first", "second"].map(|name| Worker::start(&server, name, &token));
        eventually("two workers are attached", || async { server.metric("cloakwork_workers").await == 2.0 }).await;
        let tenant = Tenant::of_set(server.client().await, SET).await;
        let work = Work::new(&tenant, jobs, ROWS);
        let service = Self { tenant, work, server, _workers: workers };
        // The first jobs load the key on both workers.
        service.round().await;
        service
    }

    /// Runs a job on each list. Returns the bootstraps that clients got each second, until the last
    /// check has ended.
    async fn round(&self) -> f64 {
        let begun = Instant::now();
        let outputs = run_batches(self.tenant.client.clone(), self.work.clone()).await;
        let mut ended = Instant::now();
        let mut checked = self.checked_rows().await;
        while ended.elapsed() < QUIET {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let rows = self.checked_rows().await;
            if rows != checked {
                (checked, ended) = (rows, Instant::now());
            }
        }
        let seconds = (ended - begun).as_secs_f64();
        for (list, output) in &outputs {
            check(&self.tenant, *list, ROWS, output);
        }
        (outputs.len() * ROWS) as f64 / seconds
    }

    /// Number of rows whose check has ended, well or not.
    async fn checked_rows(&self) -> f64 {
        self.server.metric("cloakwork_verified_rows_total").await + self.unverified_rows().await
    }

    async fn unverified_rows(&self) -> f64 {
        self.server.metric("cloakwork_unverified_rows_total").await
    }
}

/// Measures batch jobs of two workers with second computations, alternating with the same jobs
/// without.
pub(crate) fn measure(runtime: &Runtime, effort: Effort, report: &mut Report) {
    let (plain, verified) =
        runtime.block_on(async { (Service::start(0, effort.jobs).await, Service::start(PERCENT, effort.jobs).await) });
    let verified_rows = || runtime.block_on(verified.server.metric("cloakwork_verified_rows_total"));
    let before = verified_rows();
    let (mut without, mut with, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..effort.rounds {
        let run = |service: &Service| runtime.block_on(service.round());
        let (one, other) = match round % 2 {
            0 => (run(&plain), run(&verified)),
            _ => {
                let other = run(&verified);
                (run(&plain), other)
            }
        };
        without.push(one);
        with.push(other);
        ratios.push(other / one);
    }
    let rows = (effort.rounds * effort.jobs * ROWS) as f64;
    let percent = (verified_rows() - before) * 100.0 / rows;
    assert_eq!(runtime.block_on(verified.unverified_rows()), 0.0, "rows whose second computation was given up");
    report.add(Row::of("two workers, batch jobs", "PBS/s", &without));
    report.add(Row::of(&format!("two workers, batch jobs, verify_percent = {PERCENT}"), "PBS/s", &with));
    report.add(Row::of("    rows that were computed twice", "%", &[percent]));
    report.add(Row::of("    throughput over that without checks", "ratio", &ratios).required(Bound::Least(0.985)));
}
