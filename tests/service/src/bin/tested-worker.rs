//! The worker under test: the program `cloakwork-worker`, built together with the tests that start
//! it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    cloakwork_worker::cli::Cli::parse().run()
}
