//! Sets whose keys are too large for two of them at once: each side in a process of its own, with keys of
//! its own, one after the other.

use std::process::{Command, Stdio};

use peer_tfhe::Workers;

use crate::{
    Options,
    cases::{CASES, Case, Kind},
    measure::{Measurement, Slice, time},
    ours,
    pin::on_one_core,
    report::{Report, Result},
    run::{set, table, threads},
};

/// What the process of one side is started with, followed by the side, the case's label and the number of
/// slices.
pub const FLAG: &str = "--one-side";

const SIDES: [&str; 2] = ["ours", "tfhe-rs"];

/// Measures the rows of `case` that are wanted.
pub fn run(case: &'static Case, options: &Options, report: &mut Report) {
    let rows = options.rows(case);
    if rows.is_empty() {
        return;
    }
    let pairs = options.pairs(case.pairs);
    let [ours, peer] = SIDES.map(|side| {
        let this = std::env::current_exe().expect("this program has a name");
        let mut child = Command::new(this);
        child.args([FLAG, side, case.label, &pairs.to_string()]).stderr(Stdio::inherit());
        let output = child.output().expect("this program can start itself");
        assert!(output.status.success(), "{}: the process of {side} failed", case.label);
        String::from_utf8_lossy(&output.stdout).lines().map(parse).collect::<Vec<_>>()
    });
    for row in rows {
        let side = |slices: &[(Kind, Slice)]| {
            let mine = slices.iter().filter(|(kind, _)| *kind == row.kind);
            mine.map(|(_, slice)| *slice).collect::<Vec<_>>()
        };
        let slices = side(&ours).into_iter().zip(side(&peer)).collect();
        let operations = if row.kind == Kind::Throughput { case.batch } else { 1 };
        let measurement = Measurement::of(slices, operations);
        report.add(Result { name: case.name(row.kind), set: case.set, row: *row, measurement });
    }
}

/// Runs one side and prints a line for each slice.
pub fn one_side(arguments: &[String]) -> Option<()> {
    let [side, label, pairs] = arguments else { return None };
    let case = CASES.iter().find(|case| case.label == label)?;
    let pairs = pairs.parse().ok()?;
    let (set, threads) = (set(case), threads());
    let table = table(set);
    let (results, expected) = if side == SIDES[0] {
        let clear: Vec<_> = (0..case.batch as u64).map(|index| index * 7 % table.len() as u64).collect();
        let mut ours = ours::own(set, &clear, &table, threads);
        on_one_core(|| print_slices("one", pairs, || ours.compute_one()));
        print_slices("all", pairs, || ours.compute_all());
        (ours.decrypted(), clear.iter().map(|&value| table[value as usize]).collect())
    } else {
        let peer = peer_tfhe::peer_without_seeded_key(case.set, &table, case.batch)?;
        on_one_core(|| print_slices("one", pairs, || peer.compute(0)));
        let workers = Workers::new(&peer, threads);
        print_slices("all", pairs, || workers.compute_all());
        (peer.decrypt(&peer.results()), peer.expected())
    };
    assert_eq!(results, expected, "{label}: {side} computes something else");
    Some(())
}

/// Slices after one that warms up.
fn print_slices(kind: &str, count: usize, mut work: impl FnMut()) {
    work();
    for _ in 0..count {
        let Slice { wall, cpu } = time(&mut work);
        println!("{kind} {wall} {cpu}");
    }
}

fn parse(line: &str) -> (Kind, Slice) {
    let words: Vec<_> = line.split_whitespace().collect();
    let seconds = |word: &str| word.parse().expect("a side prints seconds");
    let kind = if words[0] == "one" { Kind::Latency } else { Kind::Throughput };
    (kind, Slice { wall: seconds(words[1]), cpu: seconds(words[2]) })
}
