//! Sets whose keys are too large for two of them at once. Each side has a process of its own, with
//! its own keys. The processes run one after the other.

use std::process::{Command, Stdio};

use cloakwork_peers_measure::{Slice, Slices, time};
use peer_tfhe::Workers;

use crate::{
    Options,
    cases::{CASES, Case, Kind},
    ours::{self, Amount},
    pin::on_one_core,
    report::{Report, Result},
    run::{set, table, threads},
};

/// Option that starts the process of one side, followed by the side, the case's label, the number
/// of slices and the kinds of rows.
pub const FLAG: &str = "--one-side";

const SIDES: [&str; 2] = ["ours", "tfhe-rs"];

/// Measures the selected rows of `case`.
pub fn run(case: &'static Case, options: &Options, report: &mut Report) -> std::result::Result<(), String> {
    let rows = options.rows(case);
    if rows.is_empty() {
        return Ok(());
    }
    let slices = options.pairs(case.pairs);
    let mut sides = Vec::new();
    // The second process starts when the first has ended, because their keys together do not fit
    // into memory.
    for side in SIDES {
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut child = Command::new(this);
        child.args([FLAG, side, case.label, &slices.to_string()]).args(rows.iter().map(|row| row.kind.label()));
        let output = child.stderr(Stdio::inherit()).output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let slices: Option<Vec<_>> = text.lines().map(parse).collect();
        let slices = slices.filter(|_| output.status.success());
        sides.push(slices.ok_or_else(|| format!("{}: the process of {side} failed and said {text:?}", case.label))?);
    }
    for row in rows {
        let side = |index: usize| {
            let mine = sides[index].iter().filter(|(kind, _)| *kind == row.kind);
            mine.map(|(_, slice)| *slice)
        };
        let operations = if row.kind == Kind::Throughput { batch(case) } else { 1 };
        report.add(Result::new(case, row, Slices { pairs: side(0).zip(side(1)).collect(), operations }));
    }
    Ok(())
}

/// Number of inputs of a batch, enough for every core.
fn batch(case: &Case) -> usize {
    case.batch.max(threads())
}

/// Runs one side and prints a line for each slice.
pub fn one_side(arguments: &[String]) -> Option<()> {
    let [side, label, slices, kinds @ ..] = arguments else { return None };
    let case = CASES.iter().find(|case| case.label == label)?;
    let kinds: Vec<_> = kinds.iter().map(|label| Kind::by_label(label)).collect::<Option<_>>()?;
    let slices = slices.parse().ok()?;
    if side == SIDES[0] { our_side(case, slices, &kinds) } else { peer_side(case, slices, &kinds) }
}

fn our_side(case: &Case, slices: usize, kinds: &[Kind]) -> Option<()> {
    let (set, threads) = (set(case), threads());
    let table = table(set);
    let clear: Vec<_> = (0..batch(case) as u64).map(|index| index * 7 % table.len() as u64).collect();
    let expected: Vec<_> = clear.iter().map(|&value| table[value as usize]).collect();
    let mut ours = ours::own(set, &clear, &table, threads);
    for &kind in kinds {
        let amount = match kind {
            Kind::Latency => Amount::One,
            Kind::OnEachCore => Amount::OnePerCore,
            Kind::Throughput => Amount::All,
            Kind::Generation | Kind::Expansion => return None,
        };
        let mut work = || print_slices(kind, slices, || ours.compute(amount));
        if kind == Kind::Latency {
            on_one_core(work)
        } else {
            work()
        }
        let results = ours.decrypted(amount);
        assert_eq!(results, expected[..results.len()], "{}: our results are wrong", case.label);
    }
    Some(())
}

fn peer_side(case: &Case, slices: usize, kinds: &[Kind]) -> Option<()> {
    let threads = threads();
    let peer = peer_tfhe::peer_without_seeded_key(case.set, &table(set(case)), batch(case))?;
    let on_all_cores = |kind, inputs| {
        // One bootstrap of tfhe-rs runs in one thread, so each core works on a bootstrap of its
        // own.
        let workers = Workers::new(&peer, threads, inputs);
        print_slices(kind, slices, || workers.compute_all());
    };
    for &kind in kinds {
        match kind {
            Kind::Latency => on_one_core(|| print_slices(kind, slices, || peer.compute(0))),
            Kind::OnEachCore => on_all_cores(kind, threads),
            Kind::Throughput => on_all_cores(kind, batch(case)),
            Kind::Generation | Kind::Expansion => return None,
        }
    }
    assert_eq!(peer.decrypt(&peer.results()), peer.expected(), "{}: the results of tfhe-rs are wrong", case.label);
    Some(())
}

/// Prints slices after a warm-up slice.
fn print_slices(kind: Kind, count: usize, mut work: impl FnMut()) {
    work();
    for _ in 0..count {
        let Slice { wall, cpu } = time(&mut work);
        println!("{wall} {cpu} {}", kind.label());
    }
}

fn parse(line: &str) -> Option<(Kind, Slice)> {
    let mut words = line.splitn(3, ' ');
    let (wall, cpu) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((Kind::by_label(words.next()?)?, Slice { wall, cpu }))
}
