//! The server under test: what `cloakwork-server` is, built in the same run as the tests that start it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    cloakwork_server::cli::Cli::parse().run()
}
