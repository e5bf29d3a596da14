//! Ours and tfhe-rs, alternately, on the same keys and ciphertexts, in one process.
//!
//! `make bench-peers` builds this so that tfhe-rs is compiled for the machine at hand and ours as it ships.

#![forbid(unsafe_code)]

mod cases;
mod measure;
mod ours;
mod pin;
mod report;
mod run;

use std::process::ExitCode;

use cases::CASES;

const USAGE: &str = "\
usage: cloakwork-peers [--quick] [--case TEXT] [--json FILE]
  --quick      a fifth of the measurements
  --case TEXT  only rows whose name contains TEXT; may be given several times
  --json FILE  where to write the report (target/bench/peers.json)";

/// What the command line asks for.
pub struct Options {
    quick: bool,
    only: Vec<String>,
    json: String,
}

impl Options {
    /// Number of pairs of slices where a full run makes `pairs`.
    pub fn pairs(&self, pairs: usize) -> usize {
        if self.quick { (pairs / 5).max(3) } else { pairs }
    }

    /// Is the row with this name wanted?
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| name.contains(text))
    }

    fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        let mut options = Self { quick: false, only: Vec::new(), json: "target/bench/peers.json".into() };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--case" => options.only.push(arguments.next()?),
                "--json" => options.json = arguments.next()?,
                _ => return None,
            }
        }
        Some(options)
    }
}

fn main() -> ExitCode {
    let Some(options) = Options::parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    let mut report = report::Report::new();
    report.print_header();
    for case in CASES {
        run::run(case, &options, &mut report);
    }
    match report.write(&options.json) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", options.json);
            ExitCode::FAILURE
        }
    }
}
