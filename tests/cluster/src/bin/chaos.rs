//! Runs trials of faults, or a storm of random ones, and appends them to the ledger.

#![forbid(unsafe_code)]

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use cloakwork_client::RetryPolicy;
use cloakwork_tests_cluster::{Fault, Size, ledger, run, storm};

#[derive(Parser)]
struct Cli {
    /// Number of the fault; all faults that this machine can have if absent
    #[arg(long)]
    fault: Option<u8>,
    /// Number of trials of each fault
    #[arg(long, default_value_t = 1)]
    trials: u32,
    /// Number of jobs that wait without a worker when a fault strikes
    #[arg(long, default_value_t = 0)]
    live_jobs: u64,
    /// Minutes of a storm, instead of trials
    #[arg(long, conflicts_with_all = ["fault", "trials"])]
    storm: Option<u64>,
    /// Seed of the storm
    #[arg(long, default_value_t = 1, requires = "storm")]
    seed: u64,
}

/// Patience of callers in a storm. Harms follow each other faster than the default retries end.
const PATIENT: RetryPolicy = RetryPolicy {
    attempts_max: 1000,
    first_pause: Duration::from_millis(100),
    pause_max: Duration::from_secs(2),
    total_max: Duration::from_secs(300),
};

#[tokio::main]
async fn main() -> ExitCode {
    let Cli { fault, trials, live_jobs, storm, seed } = Cli::parse();
    match storm {
        Some(minutes) => rage(seed, Duration::from_secs(60 * minutes)).await,
        None => run_trials(fault, trials, live_jobs).await,
    }
}

async fn rage(seed: u64, length: Duration) -> ExitCode {
    let size = Size { servers: 3, workers: 3, fsync: true, retry: PATIENT, live_jobs: 0 };
    let Some((outcome, errors)) = storm(seed, length, size).await else { return ExitCode::FAILURE };
    ledger::append(&ledger::storms_path(), &outcome).expect("the ledger can be written");
    println!("{outcome:?}");
    errors.iter().for_each(|error| println!("  {error}"));
    if outcome.errors + outcome.lost + outcome.twice == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn run_trials(fault: Option<u8>, trials: u32, live_jobs: u64) -> ExitCode {
    let faults = match fault {
        None => Fault::ALL.into_iter().filter(Fault::is_possible).collect(),
        Some(number) => vec![Fault::numbered(number).expect("a fault of this number")],
    };
    let mut bad = 0;
    for fault in faults {
        for _ in 0..trials {
            let size = Size { servers: 3, workers: 2, fsync: true, retry: RetryPolicy::default(), live_jobs };
            let Some((trial, errors)) = run(fault, size).await else { return ExitCode::FAILURE };
            ledger::append(&ledger::path(), &trial).expect("the ledger can be written");
            let (harm, is_in_time) = (trial.harm(&fault), trial.is_in_time(&fault));
            println!("{}: {:.3} s {}; {trial:?} {harm:?}", fault.name, trial.seconds, fault.counts);
            errors.iter().for_each(|error| println!("  {error}"));
            bad += usize::from(!harm.is_empty() || !is_in_time);
        }
    }
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
