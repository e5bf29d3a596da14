//! Times of CKKS: transforms compared with another library's, keys, and bootstraps, also in turn
//! with Lattigo's. Also the precision of bootstraps.

#![forbid(unsafe_code)]

mod bootstraps;
mod exactness;
mod examples;
mod keys;
mod one_round;
mod peer;
mod precision;
mod sets;
mod transforms;

use std::{path::PathBuf, time::Instant};

use cloakwork_params::ckks::CkksSet;

/// Names of the measurements. The last needs a program to compare with, so it runs only if `--only`
/// names it.
const PARTS: [&str; 6] = ["transforms", "keys", "bootstraps", "examples", "exactness", "peer"];

fn main() {
    let mut only: Vec<String> = PARTS[..5].iter().map(|part| part.to_string()).collect();
    let (mut is_quick, mut case) = (false, String::new());
    let (mut peer, mut rounds) = (None, 3);
    let (mut secrets, mut messages) = (10, 1);
    let mut out = PathBuf::from("target/bench/ckks.json");
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), arguments.size_hint().0) {
            ("--quick", _) => is_quick = true,
            ("--only", 1..) => only = arguments.next().into_iter().flat_map(|list| parts(&list)).collect(),
            ("--case", 1..) => case = arguments.next().unwrap_or_default(),
            ("--peer", 1..) => peer = arguments.next().map(PathBuf::from),
            ("--rounds", 1..) => rounds = count("--rounds", arguments.next()),
            ("--secrets", 1..) => secrets = count("--secrets", arguments.next()),
            ("--messages", 1..) => messages = count("--messages", arguments.next()),
            (one_round::FLAG, 1..) => {
                let [set, size] = [(); 2].map(|()| arguments.next().unwrap_or_default());
                return one_round::print(&set, &size).unwrap_or_else(|message| fail(&message));
            }
            ("--out", 1..) => out = arguments.next().unwrap_or_default().into(),
            _ => fail(&format!(
                "'{argument}': there are --quick, --only LIST ({}), --case TEXT, --peer PROGRAM, --rounds, --secrets or --messages NUMBER, and --out FILE",
                PARTS.join(", ")
            )),
        }
    }
    let wants = |part: &str| only.iter().any(|wanted| wanted == part);
    println!(
        "{}, {} cores, load {:.2}, {}\n",
        cloakwork_tests_machine::cpu(),
        cloakwork_tests_machine::cores(),
        cloakwork_tests_machine::load().unwrap_or(f64::NAN),
        cloakwork_tests_machine::date(),
    );
    let transforms = if wants("transforms") { transforms::measure() } else { Vec::new() };
    let keys = if wants("keys") { keys::measure(is_quick) } else { Vec::new() };
    let bootstraps = if wants("bootstraps") { bootstraps::measure(is_quick, &case) } else { Vec::new() };
    if wants("examples") {
        run_examples(sets::set(sets::DEFAULT, is_quick));
    }
    let exactness = if wants("exactness") {
        let extent = exactness::Extent { is_quick, secrets, messages };
        exactness::measure(&extent, &case).unwrap_or_else(|message| fail(&message))
    } else {
        Vec::new()
    };
    let compared = match (wants("peer"), peer) {
        (false, _) => Vec::new(),
        (true, None) => {
            fail("the program to compare with is missing: --peer PROGRAM, which tests/peers/lattigo/run.sh builds")
        }
        (true, Some(program)) => {
            peer::measure(&program, rounds, is_quick, &case).unwrap_or_else(|message| fail(&message))
        }
    };
    let document = serde_json::json!({
        "cpu": cloakwork_tests_machine::cpu(),
        "cores": cloakwork_tests_machine::cores(),
        "date": cloakwork_tests_machine::date(),
        "transforms": transforms,
        "keys": keys,
        "bootstraps": bootstraps,
        "exactness": exactness,
        "peer": compared,
    });
    let written = out.parent().map_or(Ok(()), std::fs::create_dir_all);
    if let Err(error) = written.and_then(|()| std::fs::write(&out, format!("{document:#}\n"))) {
        fail(&format!("{}: {error}", out.display()));
    }
}

/// Runs the examples of docs/ckks.md, including the making of keys.
fn run_examples(set: &'static CkksSet) {
    println!("| example | seconds, including keys | bits: mean | worst |\n|---|---|---|---|");
    for (name, example) in examples::EXAMPLES {
        let mut outcomes = Vec::new();
        let seconds = seconds(|| match example(set, cloakwork_tests_machine::cores()) {
            Ok(found) => outcomes = found,
            Err(error) => fail(&format!("{name}: {error}")),
        });
        for examples::Outcome { got, expected } in outcomes {
            let [mean, worst] = precision::bits(&got, &expected);
            println!("| {name} | {seconds:.0} | {mean:.1} | {worst:.1} |");
        }
    }
}

fn count(option: &str, given: Option<String>) -> usize {
    let count = given.and_then(|number| number.parse().ok()).filter(|count| *count > 0);
    count.unwrap_or_else(|| fail(&format!("{option} takes a whole number from 1 on")))
}

fn parts(list: &str) -> Vec<String> {
    let parts: Vec<String> = list.split(',').map(str::to_owned).collect();
    if let Some(unknown) = parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
        fail(&format!("no measurement is called '{unknown}': there are {}", PARTS.join(", ")));
    }
    parts
}

fn fail(message: &str) -> ! {
    eprintln!("{message}");
    std::process::exit(2);
}

/// Seconds that `run` takes.
fn seconds(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

/// The lower quartile, the median and the upper quartile.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}
