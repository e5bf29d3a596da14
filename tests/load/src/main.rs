//! Cost of the service: a real server process under load, alternating with the bare core in this
//! process, so that the ratios hold on any machine. Prints a table and writes
//! `target/bench/service.json`.

#![forbid(unsafe_code)]

mod attestation;
mod batches;
mod core;
mod integers;
mod load;
mod processes;
mod replicas;
mod report;
mod scheduler;
mod shards;
mod single;
mod telemetry;
mod upload;
mod verify;
mod wake;
mod watchers;

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::{Parser, ValueEnum};
use cloakwork_tests_service::{Server, Setup, Tenant};
use tokio::runtime::Runtime;

use crate::{
    core::Core,
    report::{Bound, Report, Row},
};

/// The set of all measurements except the upload.
const SET: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";

/// Measures the service compared with the core.
#[derive(Parser)]
struct Options {
    /// Number of rounds. Each measures the core and the service in turn.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Run two short rounds, which show that everything works and roughly how fast.
    #[arg(long)]
    quick: bool,
    /// Run only these measurements.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// File for the results as JSON.
    #[arg(long, default_value = "target/bench/service.json")]
    out: PathBuf,
}

/// A measurement that can run on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Attestation,
    Batch,
    Clients,
    Integers,
    Replicas,
    Single,
    Upload,
    Scheduler,
    Shards,
    Telemetry,
    Verify,
    Watchers,
}

/// Duration and number of the measurements.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    /// Duration of the core's batch, and of the run with 64 clients.
    slice: Duration,
    /// Number of jobs in a round of batches.
    jobs: usize,
    /// Number of single bootstraps in a round.
    singles: usize,
    /// Duration of each measurement of the scheduler.
    scheduler: Duration,
}

fn main() {
    let options = Options::parse();
    let effort = match options.quick {
        true => Effort {
            rounds: options.rounds.min(2),
            slice: Duration::from_secs(3),
            jobs: 4,
            singles: 10,
            scheduler: Duration::from_millis(300),
        },
        false => Effort {
            rounds: options.rounds,
            slice: Duration::from_secs(10),
            jobs: 12,
            singles: 50,
            scheduler: Duration::from_secs(1),
        },
    };
    let wanted = |part: Part| options.only.is_empty() || options.only.contains(&part);
    let mut report = Report::begin(SET);
    if wanted(Part::Scheduler) {
        scheduler_rates(effort, &mut report);
    }
    if wanted(Part::Attestation) {
        attestation::measure(effort.rounds, &mut report);
    }
    // One thread, because the client's computation takes time from the service that it measures.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    if [Part::Batch, Part::Clients, Part::Integers, Part::Single].into_iter().any(wanted) {
        jobs(&runtime, effort, wanted, &mut report);
    }
    if wanted(Part::Replicas) {
        wake::measure(effort.rounds, &mut report);
        replicas::singles(&runtime, effort, &mut report);
        replicas::jobs(&runtime, effort, &mut report);
        batches::measure(&runtime, effort, &mut report);
    }
    if wanted(Part::Shards) {
        shards::measure(&runtime, effort, &mut report);
    }
    if wanted(Part::Telemetry) {
        telemetry::measure(&runtime, effort, &mut report);
    }
    if wanted(Part::Upload) {
        upload::measure(&runtime, effort.rounds, &mut report);
    }
    if wanted(Part::Verify) {
        verify::measure(&runtime, effort, &mut report);
    }
    if wanted(Part::Watchers) {
        watchers::measure(&runtime, effort, &mut report);
    }
    report.write(&options.out).unwrap_or_else(|error| panic!("{}: {error}", options.out.display()));
    println!("\n{}", options.out.display());
}

fn scheduler_rates(effort: Effort, report: &mut Report) {
    const QUEUED: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
    let mut rates: [Vec<f64>; QUEUED.len()] = Default::default();
    for _ in 0..effort.rounds {
        for (queued, rates) in QUEUED.iter().zip(&mut rates) {
            rates.push(scheduler::events_per_second(*queued, effort.scheduler));
        }
    }
    for (queued, rates) in QUEUED.iter().zip(&rates) {
        let name = format!("scheduler, {queued} jobs queued, {} tenants", scheduler::TENANTS);
        report.add(Row::of(&name, "events/s", rates).required(Bound::Least(200_000.0)));
    }
    // The number of steps per event is constant. The remaining growth comes from memory, which is
    // slower for larger queues.
    let growth: Vec<f64> = rates[0].iter().zip(&rates[2]).map(|(few, many)| few / many).collect();
    report.add(Row::of("    cost of an event, 100000 over 1000 queued", "", &growth).required(Bound::Most(1.5)));
}

fn jobs(runtime: &Runtime, effort: Effort, wanted: impl Fn(Part) -> bool, report: &mut Report) {
    let server = runtime.block_on(Server::start(Setup::of_benchmark()));
    let tenant = Arc::new(runtime.block_on(async { Tenant::of_set(server.client().await, SET).await }));
    let mut core = Core::new(&tenant.keys);
    println!("core: {} threads, best batch of {}", core.threads(), core.width());
    // The first job loads the key.
    runtime.block_on(tenant.check_squares(&[1, 2, 3]));
    if wanted(Part::Single) {
        single::measure(runtime, &tenant, &mut core, effort, report);
    }
    if wanted(Part::Batch) {
        load::batches(runtime, &tenant, &mut core, effort, report);
    }
    if wanted(Part::Clients) {
        load::clients(runtime, &server, &tenant, &mut core, effort, report);
    }
    if wanted(Part::Integers) {
        integers::measure(runtime, &server, &tenant, &mut core, effort, report);
    }
}
