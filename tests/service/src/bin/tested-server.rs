//! The server under test: the program `cloakwork-server`, built together with the tests that start
//! it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser as _;
use cloakwork_tests_service::MUTED;

fn main() -> ExitCode {
    if std::env::var_os(MUTED).is_some() {
        cloakwork_telemetry::mute();
    }
    cloakwork_server::cli::Cli::parse().run()
}
