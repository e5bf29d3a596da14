//! The command line under test: the program `cloakwork`, built together with the tests that call
//! it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cloakwork::main()
}
