//! `cloakwork-worker`: the worker as a separate process.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    cloakwork_worker::cli::Cli::parse().run()
}
