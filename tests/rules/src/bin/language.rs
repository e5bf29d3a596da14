//! Prints where files break the rules of plain language. Takes paths of files.

#![forbid(unsafe_code)]

use std::{env, fs, path::Path, process::ExitCode};

fn main() -> ExitCode {
    let mut count = 0;
    for path in env::args().skip(1) {
        let source = match fs::read_to_string(&path) {
            Ok(source) => source,
            Err(error) => {
                eprintln!("{path}: {error}");
                return ExitCode::FAILURE;
            }
        };
        for finding in cloakwork_tests_rules::language::findings(Path::new(&path), &source) {
            println!("{path}:{finding}");
            count += 1;
        }
    }
    println!("{count} findings");
    ExitCode::SUCCESS
}
