//! Bootstraps of our library and of Lattigo in turn, on one thread.
//!
//! The keys of both do not fit into memory together. So each round of each side is a process of its
//! own. The process makes keys, warms up with one bootstrap and times the next. A side starts when
//! the other's process has ended.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    one_round, quartiles,
    sets::{DEFAULT, set},
};

/// Lattigo's default set, whose secret has only 192 nonzero coefficients, and its default set with
/// a dense secret. Our sets, with 4096 nonzero coefficients, lie in between.
const THEIR_SETS: [&str; 2] = ["N16QP1546H192H32", "N16QP1767H32768H32"];

/// Measures each of Lattigo's sets whose name contains `case`, and our set with keys of two sizes,
/// once a round.
pub(crate) fn measure(program: &Path, rounds: usize, is_quick: bool, case: &str) -> Result<Vec<Value>, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let ours = set(DEFAULT, is_quick).name;
    let their_sets: Vec<&str> = THEIR_SETS.into_iter().filter(|set| set.contains(case)).collect();
    if their_sets.is_empty() {
        return Err(format!("no set of Lattigo that is measured has '{case}' in its name: {}", THEIR_SETS.join(", ")));
    }
    let our_sizes = one_round::SIZES.map(|(name, _)| name);
    let sides = our_sizes.len() + their_sets.len();
    let mut found = vec![Vec::new(); sides];
    for round in 0..rounds {
        // The side that goes first alternates as well.
        for side in (0..sides).map(|side| (side + round) % sides) {
            let (mut command, set) = match side.checked_sub(our_sizes.len()).map(|index| their_sets[index]) {
                None => (started_with(&this, &[one_round::FLAG, ours, our_sizes[side]]), ours),
                Some(set) => (started_with(program, &["bootstrap", "-set", set]), set),
            };
            if is_quick && side >= our_sizes.len() {
                command.args(["-size-log2", "10"]);
            }
            let line = run(&mut command)?;
            eprintln!("round {} of {rounds}: {set} took {} s", round + 1, line["seconds"][0]);
            found[side].push(line);
        }
    }
    println!(
        "| Lattigo's set | its seconds | our keys | our seconds | ratio: median | least | most | its level | ours | its bits: mean | worst | ours: mean | worst | its peak, MiB | ours |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    let theirs = found.split_off(our_sizes.len());
    let pairs = theirs.iter().flat_map(|theirs| found.iter().map(move |ours| (theirs, ours)));
    pairs.map(|(theirs, ours)| compare(theirs, ours)).collect()
}

fn started_with(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// Runs a process and parses the JSON line that it prints.
fn run(command: &mut Command) -> Result<Value, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("{name}: {error}"))?;
    let line = serde_json::from_slice(&output.stdout).ok().filter(|_| output.status.success());
    line.ok_or_else(|| format!("{name} failed: {}", output.status))
}

fn compare(theirs: &[Value], ours: &[Value]) -> Result<Value, String> {
    let all = |side: &[Value], field: &str| -> Result<Vec<f64>, String> {
        let value = |line: &Value| match &line[field] {
            Value::Array(list) => list.first().and_then(Value::as_f64),
            value => value.as_f64(),
        };
        side.iter().map(|line| value(line).ok_or_else(|| format!("no {field} in {line}"))).collect()
    };
    let median = |side: &[Value], field: &str| all(side, field).map(|values| quartiles(values)[1]);
    let (their_seconds, our_seconds) = (all(theirs, "seconds")?, all(ours, "seconds")?);
    let ratios: Vec<f64> = their_seconds.iter().zip(&our_seconds).map(|(theirs, ours)| theirs / ours).collect();
    let ratio = quartiles(ratios.clone())[1];
    let most = ratios.iter().copied().fold(0.0, f64::max);
    let least = |values: &[f64]| values.iter().copied().fold(f64::MAX, f64::min);
    let least_of = |side: &[Value], field: &str| all(side, field).map(|values| least(&values));
    println!(
        "| {} | {:.2} | {} | {:.2} | {ratio:.2} | {:.2} | {most:.2} | {} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} |",
        theirs[0]["set"].as_str().unwrap_or_default(),
        median(theirs, "seconds")?,
        ours[0]["keys"].as_str().unwrap_or_default(),
        median(ours, "seconds")?,
        least(&ratios),
        theirs[0]["level"],
        ours[0]["level"],
        median(theirs, "mean_bits")?,
        least_of(theirs, "worst_bits")?,
        median(ours, "mean_bits")?,
        least_of(ours, "worst_bits")?,
        median(theirs, "peak_bytes")? / f64::from(1 << 20),
        median(ours, "peak_bytes")? / f64::from(1 << 20),
    );
    Ok(json!({ "ratio": ratio, "ratios": ratios, "theirs": theirs, "ours": ours }))
}
