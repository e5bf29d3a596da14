//! `cloakwork-worker`: the worker as a process of its own.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    cloakwork_worker::cli::Cli::parse().run()
}
