//! Our library and tfhe-rs in turn, on the same keys and ciphertexts, in one process.
//!
//! `make bench-peers` compiles tfhe-rs for this machine, and our code as it ships.

#![forbid(unsafe_code)]

mod apart;
mod cases;
mod ours;
mod pin;
mod report;
mod resident;
mod run;
mod without_avx512;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use cases::{CASES, Case, Place, Row};

const USAGE: &str = "\
usage: cloakwork-peers [--quick] [--huge] [--case TEXT] [--json FILE] [--narrow FILE]
  --quick        a fifth of the measurements
  --huge         also 4_4, whose keys take up to 16 GiB of memory
  --case TEXT    only rows whose name contains TEXT; may be given several times
  --json FILE    where to write the report (target/bench/peers.json)
  --narrow FILE  this program, built with a peer that has no AVX-512 (run.sh says where it is)";

/// Options of the command line.
pub struct Options {
    quick: bool,
    huge: bool,
    only: Vec<String>,
    json: String,
    narrow: Option<PathBuf>,
}

impl Options {
    /// Number of pairs of slices, where a full run makes `pairs`.
    pub fn pairs(&self, pairs: usize) -> usize {
        if self.quick { (pairs / 5).max(3) } else { pairs }
    }

    /// The selected rows of a case.
    pub fn rows(&self, case: &'static Case) -> Vec<&'static Row> {
        case.rows.iter().filter(|row| self.wants(&case.name(row.kind))).collect()
    }

    /// Whether the row with this name is selected.
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| name.contains(text))
    }

    fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        let json = "target/bench/peers.json".into();
        let mut options = Self { quick: false, huge: false, only: Vec::new(), json, narrow: None };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--huge" => options.huge = true,
                "--case" => options.only.push(arguments.next()?),
                "--json" => options.json = arguments.next()?,
                "--narrow" => options.narrow = Some(arguments.next()?.into()),
                _ => return None,
            }
        }
        Some(options)
    }
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        Some(resident::FLAG) => resident::load_and_report(&arguments[1..]),
        Some(apart::FLAG) => apart::one_side(&arguments[1..]).ok_or_else(|| "no such side".into()),
        Some(without_avx512::FLAG) => without_avx512::measure_here(&arguments[1..]),
        _ => Options::parse(arguments.into_iter()).ok_or_else(|| USAGE.into()).and_then(|options| compare(&options)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn compare(options: &Options) -> Result<(), String> {
    if cfg!(not(feature = "avx512")) {
        return Err("this program's peer lacks its avx512 feature, which tfhe-rs has by default: start run.sh".into());
    }
    let mut report = report::Report::new();
    report.print_header();
    for case in CASES {
        match (case.place, &options.narrow) {
            (Place::Together, _) => run::run(case, options, &mut report),
            (Place::Apart, _) if options.huge => apart::run(case, options, &mut report)?,
            (Place::Apart, _) => not_measured(case, options, "ask for it with --huge"),
            (Place::WithoutAvx512, Some(program)) => without_avx512::run(case, program, options, &mut report)?,
            (Place::WithoutAvx512, None) => not_measured(case, options, "it needs --narrow"),
        }
    }
    if options.wants(resident::NAME) {
        let folder = Path::new(&options.json).parent().unwrap_or(Path::new("."));
        report.add_memory(resident::NAME, resident::measure(run::set(&CASES[0]), folder)?);
    }
    report.write(&options.json).map_err(|error| format!("{}: {error}", options.json))
}

/// Prints the reason why the selected rows of a case are not measured.
fn not_measured(case: &'static Case, options: &Options, reason: &str) {
    for row in options.rows(case) {
        println!("{:<40} not measured: {reason}", case.name(row.kind));
    }
}
