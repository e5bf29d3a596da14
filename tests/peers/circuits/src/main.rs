//! Computations on encrypted integers by two alternating sides, under the same secret key and on
//! the same cores. Our side runs a job of the service, from the request to the decoded answer. The
//! other side runs tfhe-rs in this process.
//!
//! `make bench-circuits` compiles tfhe-rs for this machine, and our code as it ships.

#![forbid(unsafe_code)]

mod cases;
mod document;
mod ours;
mod report;

use std::process::ExitCode;

use cases::{Case, cases};
use cloakwork_peers_measure::{Measurement, Slices, alternate, time};
use ours::Ours;
use peer_tfhe::integer::Integers;
use report::{Report, Row};

/// Longest operands that `--quick` measures.
const QUICK_BITS_MAX: u32 = 32;

const USAGE: &str = "\
usage: cloakwork-circuits [--quick] [--case TEXT] [--json FILE] [--document FILE]
  --quick          one pair of each computation of at most 32 bits, and of 32 jobs at once
  --case TEXT      only rows whose name contains TEXT; may be given several times
  --json FILE      where to write the report (target/bench/circuits.json)
  --document FILE  a document whose table of operations is written anew";

/// The parameter set of all rows.
const SET: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";

/// Fewest and most pairs of runs.
const PAIRS_MIN_MAX: (usize, usize) = (3, 7);
/// Seconds that all of tfhe-rs's runs of a row should take.
const ROW_SECONDS: f64 = 15.0;
/// Seconds of one run above which a single pair must suffice.
const LONG_RUN_SECONDS: f64 = 30.0;

struct Options {
    quick: bool,
    only: Vec<String>,
    json: String,
    document: Option<String>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        let mut options =
            Self { quick: false, only: Vec::new(), json: "target/bench/circuits.json".into(), document: None };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--case" => options.only.push(arguments.next()?),
                "--json" => options.json = arguments.next()?,
                "--document" => options.document = Some(arguments.next()?),
                _ => return None,
            }
        }
        Some(options)
    }

    /// Whether a row is measured. Wide operands and AES take nearly all of the time.
    fn wants(&self, case: &Case) -> bool {
        let is_short = case.computation.bits <= QUICK_BITS_MAX || case.jobs > 1;
        match &self.only[..] {
            [] => !self.quick || is_short,
            only => only.iter().any(|text| case.name.contains(text)),
        }
    }
}

fn main() -> ExitCode {
    let Some(options) = Options::parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    match compare(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn compare(options: &Options) -> Result<(), String> {
    let ours = Ours::start(SET);
    let peer = Integers::new(SET, &ours.secret_key()).expect("tfhe-rs has the set");
    let mut report = Report::begin(SET);
    for case in cases().into_iter().filter(|case| options.wants(case)) {
        report.add(measure(&case, options.quick, &ours, &peer));
    }
    report.write(&options.json).map_err(|error| format!("{}: {error}", options.json))?;
    match &options.document {
        Some(path) => document::update(path, &report),
        None => Ok(()),
    }
}

/// Runs both sides once and checks their results, then measures them in turn.
fn measure(case: &Case, quick: bool, ours: &Ours, peer: &Integers) -> Row {
    let expected = case.expected();
    let own = ours.prepare(&case.computation, case.jobs);
    let theirs = peer.prepare(&case.computation);
    own.check(&expected);
    let mut counted = None;
    let once = time(|| counted = Some(theirs.compute_and_count()));
    let (results, peer_pbs_count) = counted.expect("it has computed");
    assert_eq!(theirs.decrypt(&results), expected, "{}: the results of tfhe-rs are wrong", case.name);
    let seconds = once.wall * case.jobs as f64;
    let pairs = if quick || seconds > LONG_RUN_SECONDS {
        1
    } else {
        ((ROW_SECONDS / seconds) as usize).clamp(PAIRS_MIN_MAX.0, PAIRS_MIN_MAX.1)
    };
    let slices = alternate(pairs, || own.run(), || theirs.compute_at_once(case.jobs));
    let measurement = Measurement::of(Slices { pairs: slices, operations: 1 });
    Row { case: case.clone(), cost: own.cost(), peer_pbs_count, measurement }
}
