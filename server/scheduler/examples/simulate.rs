//! Runs the simulators. Without a mode, one server is simulated. `cluster` simulates several
//! servers that share a database, and `fleet` many workers that several schedulers share.

#![forbid(unsafe_code)]

use std::io::Write as _;
use std::process::{Command, ExitCode};
use std::time::Instant;

use cloakwork_scheduler::sim::{self, cluster, cluster::Bug, fleet};

const USAGE: &str = "usage: simulate [cluster] [--seeds COUNT] [--start FIRST] [--ledger PATH]
       simulate [cluster] --seed ONE [--trace]
       simulate cluster --bug NAME|all [--seeds MOST] [--start FIRST]
       simulate cluster --bug NAME --seed ONE [--trace]
       simulate fleet [--seconds COUNT]";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    let mode = args.next_if(|arg| !arg.starts_with("--")).unwrap_or_default();
    let done = match (mode.as_str(), Options::parse(args)) {
        ("", Some(options)) if options.bugs.is_empty() => options.simulate("server", |seed| {
            let summary = sim::run(seed, options.trace);
            (summary.steps, summary.micros, format!("{summary:?}"))
        }),
        ("cluster", Some(options)) if options.bugs.is_empty() || options.is_one => {
            options.simulate("cluster", |seed| {
                let summary = cluster::run(seed, options.trace, options.bugs.first().copied());
                (summary.steps, summary.micros, format!("{summary:?}"))
            })
        }
        ("cluster", Some(options)) => options.find_bugs(),
        ("fleet", Some(options)) => compare(options.seconds),
        _ => {
            eprintln!("{USAGE}");
            false
        }
    };
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Options {
    start: u64,
    seeds: u64,
    /// Whether one seed is given.
    is_one: bool,
    trace: bool,
    bugs: Vec<Bug>,
    seconds: u64,
    ledger: Option<String>,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Option<Self> {
        let mut options =
            Self { start: 0, seeds: 1000, is_one: false, trace: false, bugs: Vec::new(), seconds: 5, ledger: None };
        while let Some(arg) = args.next() {
            let mut number = || args.next()?.parse().ok();
            match arg.as_str() {
                "--seeds" => options.seeds = number()?,
                "--start" => options.start = number()?,
                "--seed" => (options.start, options.seeds, options.is_one) = (number()?, 1, true),
                "--seconds" => options.seconds = number()?,
                "--trace" => options.trace = true,
                "--ledger" => options.ledger = Some(args.next()?),
                "--bug" => match args.next()?.as_str() {
                    "all" => options.bugs = Bug::ALL.iter().map(|(_, bug)| *bug).collect(),
                    name => options.bugs = vec![Bug::named(name)?],
                },
                _ => return None,
            }
        }
        Some(options)
    }

    /// Runs all seeds. The result of each is its number of events, its simulated time and its
    /// summary.
    fn simulate(&self, mode: &str, run: impl Fn(u64) -> (u64, u64, String)) -> bool {
        let begun = Instant::now();
        let (mut all_steps, mut all_micros) = (0, 0);
        for seed in (0..self.seeds).map(|index| self.start.wrapping_add(index)) {
            let (steps, micros, summary) = run(seed);
            all_steps += steps;
            all_micros += micros;
            if self.seeds == 1 {
                println!("{summary}");
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{} seeds, {all_steps} events, {:.1} simulated hours, no invariant broken, in {seconds:.1} s",
            self.seeds,
            all_micros as f64 / 3.6e9,
        );
        self.ledger.as_ref().is_none_or(|path| self.enter(path, mode, seconds))
    }

    /// Appends a line to the ledger of the seeds that were run. A run that breaks an invariant ends
    /// before this.
    fn enter(&self, path: &str, mode: &str, seconds: f64) -> bool {
        let commit = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
        let commit = commit.ok().and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
        let line = format!(
            "{{\"mode\":\"{mode}\",\"first\":{},\"count\":{},\"commit\":\"{}\",\"violations\":0,\"seconds\":{seconds:.0}}}",
            self.start,
            self.seeds,
            commit.trim(),
        );
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let entered = file.and_then(|mut file| writeln!(file, "{line}"));
        if let Err(error) = &entered {
            eprintln!("{path}: {error}");
        }
        entered.is_ok()
    }

    /// Counts the seeds that it takes to notice each planted bug.
    fn find_bugs(&self) -> bool {
        // A broken invariant is what these runs look for.
        std::panic::set_hook(Box::new(|_| {}));
        let mut all_found = true;
        for bug in &self.bugs {
            let begun = Instant::now();
            let found = cluster::seeds_to_find(*bug, self.start, self.seeds);
            let seconds = begun.elapsed().as_secs_f64();
            all_found &= found.is_some();
            match found {
                Some(seeds) => println!("{}: found after {seeds} seeds, in {seconds:.1} s", bug.name()),
                None => println!("{}: not found in {} seeds, in {seconds:.1} s", bug.name(), self.seeds),
            }
        }
        all_found
    }
}

/// Compares twelve shards with one scheduler that sees all workers and jobs.
fn compare(seconds: u64) -> bool {
    let size = fleet::Size::GOAL;
    let shards = fleet::steady(size, 5, seconds);
    println!("{} shards: {shards:#?}", size.shards);
    println!("a burst: {:#?}", fleet::burst(size, 5, 30));
    let one = fleet::steady(fleet::Size { shards: 1, ..size }, 5, seconds);
    println!("one scheduler: {one:#?}");
    println!("key hits, as a part of those of one scheduler: {:.3}", shards.hits / one.hits);
    true
}
