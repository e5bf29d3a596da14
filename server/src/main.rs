//! `cloakwork-server`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    cloakwork_server::cli::Cli::parse().run()
}
