//! The ledger of trials: a file with one trial in JSON on each line.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{Fault, Trial};

/// Path of the ledger in the repository.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("ledger.jsonl")
}

/// Path of the ledger of storms in the repository.
pub fn storms_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("storms.jsonl")
}

/// Appends a trial or a storm.
pub fn append(path: &Path, outcome: &impl Serialize) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    writeln!(file, "{}", serde_json::to_string(outcome)?)
}

/// Reads all trials. A missing file has none.
pub fn read(path: &Path) -> io::Result<Vec<Trial>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        text => text?,
    };
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// Number of trials of a fault in the table. Earlier ones are of earlier versions.
const TRIALS_MAX: usize = 50;

/// The table of docs/reliability.md: the last trials of release builds, by fault.
pub fn table(trials: &[Trial]) -> String {
    if !trials.iter().any(|trial| trial.release) {
        return "The ledger has no trial of a release build yet.\n".to_owned();
    }
    let mut text =
        "| # | fault | waiting jobs | trials | time | p50, s | maximum, s | required, s | jobs | failed calls \
                    | lost | twice | lost attempts |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
            .to_owned();
    for fault in Fault::ALL {
        let of_fault = || trials.iter().filter(|trial| trial.fault == fault.number && trial.release);
        let loads: BTreeSet<u64> = of_fault().map(|trial| trial.live_jobs).collect();
        for live_jobs in loads {
            let trials: Vec<&Trial> = of_fault().filter(|trial| trial.live_jobs == live_jobs).collect();
            text += &row(&fault, live_jobs, &trials[trials.len().saturating_sub(TRIALS_MAX)..]);
        }
    }
    text
}

fn row(fault: &Fault, live_jobs: u64, trials: &[&Trial]) -> String {
    let mut seconds: Vec<f64> = trials.iter().map(|trial| trial.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    let median = seconds.get(seconds.len().saturating_sub(1) / 2).copied().unwrap_or_default();
    let maximum = seconds.last().copied().unwrap_or_default();
    let sum = |value: fn(&Trial) -> u64| trials.iter().map(|trial| value(trial)).sum::<u64>();
    let errors = sum(|trial| trial.errors);
    let (jobs, lost, twice) = (sum(|trial| trial.jobs), sum(|trial| trial.lost), sum(|trial| trial.twice));
    let lost_attempts = sum(|trial| trial.lost_attempts);
    let Fault { number, name, counts, seconds_max, .. } = fault;
    let count = trials.len();
    format!(
        "| {number} | {name} | {live_jobs} | {count} | {counts} | {median:.3} | {maximum:.3} | {seconds_max} | {jobs} \
         | {errors} | {lost} | {twice} | {lost_attempts} |\n"
    )
}
