//! Runs trials of faults and appends them to the ledger.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use cloakwork_client::RetryPolicy;
use cloakwork_tests_cluster::{Fault, Size, ledger, run};

#[derive(Parser)]
struct Cli {
    /// Number of the fault; all faults if absent
    #[arg(long)]
    fault: Option<u8>,
    /// Number of trials of each fault
    #[arg(long, default_value_t = 1)]
    trials: u32,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Cli { fault, trials } = Cli::parse();
    let faults = match fault {
        None => Fault::ALL.to_vec(),
        Some(number) => vec![Fault::numbered(number).expect("a fault of this number")],
    };
    let mut bad = 0;
    for fault in faults {
        for _ in 0..trials {
            let size = Size { servers: 3, workers: 2, fsync: true, retry: RetryPolicy::default() };
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
