//! `cloakwork`: the command line of a Cloakwork server.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cloakwork::main()
}
