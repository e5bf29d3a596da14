//! The command line under test: what `cloakwork` is, built in the same run as the tests that call it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cloakwork::main()
}
