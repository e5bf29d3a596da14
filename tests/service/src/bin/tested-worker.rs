//! The worker under test: what `cloakwork-worker` is, built in the same run as the tests that start it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    cloakwork_worker::cli::Cli::parse().run()
}
