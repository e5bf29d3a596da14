//! Runs the simulator: `simulate [--seeds COUNT] [--start FIRST] [--seed ONE [--trace]]`.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Instant;

use cloakwork_scheduler::sim;

const USAGE: &str = "usage: simulate [--seeds COUNT] [--start FIRST] [--seed ONE [--trace]]";

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Some(options) => {
            simulate(&options);
            ExitCode::SUCCESS
        }
        None => {
            eprintln!("{USAGE}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    start: u64,
    seeds: u64,
    trace: bool,
}

fn parse(mut args: impl Iterator<Item = String>) -> Option<Options> {
    let mut options = Options { start: 0, seeds: 1000, trace: false };
    while let Some(arg) = args.next() {
        let mut number = || args.next()?.parse().ok();
        match arg.as_str() {
            "--seeds" => options.seeds = number()?,
            "--start" => options.start = number()?,
            "--seed" => (options.start, options.seeds) = (number()?, 1),
            "--trace" => options.trace = true,
            _ => return None,
        }
    }
    Some(options)
}

fn simulate(options: &Options) {
    let begun = Instant::now();
    let (mut steps, mut micros) = (0, 0);
    for seed in (0..options.seeds).map(|index| options.start.wrapping_add(index)) {
        let summary = sim::run(seed, options.trace);
        steps += summary.steps;
        micros += summary.micros;
        if options.seeds == 1 {
            println!("{summary:?}");
        }
    }
    println!(
        "{} seeds, {steps} events, {:.1} simulated hours, no invariant broken, in {:.1} s",
        options.seeds,
        micros as f64 / 3.6e9,
        begun.elapsed().as_secs_f64()
    );
}
