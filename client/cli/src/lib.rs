//! `cloakwork`: the command line of a Cloakwork server. The code is a library, so that tests can
//! build the program too.

#![forbid(unsafe_code)]

mod anchors;
mod args;
mod commands;
mod context;
mod eval;
mod expression;
mod failure;
mod function;
mod global;
mod interrupts;
mod latency;
mod metrics;
mod output;
mod progress;
mod results;
mod syntax;
mod visible;

use std::process::ExitCode;

use crate::{args::Args, failure::Failure};

/// Parses the arguments of the process, and runs the command.
pub fn main() -> ExitCode {
    let args = Args::of_process();
    let json = args.global.json;
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print(json);
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(args: Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(args.run())
}
