//! The server under test: the program `cloakwork-server`, built together with the tests that start
//! it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    cloakwork_server::cli::Cli::parse().run()
}
