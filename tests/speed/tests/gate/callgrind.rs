//! Executed instructions, counted by callgrind.

use std::{collections::BTreeMap, path::Path, process::Command};

/// Pattern of the function of `speed-case` that is counted, including its callees.
const MEASURED: &str = "*speed_case*measured*";

/// Counts the instructions of every case, forced to `level`.
pub(crate) fn count_all(program: &Path, level: &str) -> BTreeMap<String, u64> {
    let cases = Command::new(program).output().expect("speed-case runs");
    let cases = String::from_utf8(cases.stdout).expect("names of cases");
    cases.lines().map(|case| (case.to_owned(), count(program, level, case))).collect()
}

fn count(program: &Path, level: &str, case: &str) -> u64 {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"]);
    valgrind.arg(format!("--toggle-collect={MEASURED}")).arg(program).arg(case).env("CLOAKWORK_SIMD", level);
    let output = valgrind.output().expect("valgrind was found");
    let (said, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{case} on {level}: {log}");
    let ran = said.split_whitespace().next().unwrap_or_default();
    assert_eq!(ran, level, "{case}: CLOAKWORK_SIMD={level} was to force the instruction set");
    collected(&log).unwrap_or_else(|| panic!("{case} on {level}: callgrind counted nothing: {log}"))
}

/// Parses the count from callgrind's last lines, `==123== Collected : 456`.
fn collected(log: &str) -> Option<u64> {
    let count = log.lines().find_map(|line| line.split_once("Collected :"))?.1.trim().parse().ok()?;
    Some(count).filter(|count| *count > 0)
}

#[test]
fn count_is_read_from_the_log() {
    assert_eq!(collected("==7== Events    : Ir\n==7== Collected : 1234\n==7== \n"), Some(1234));
    assert_eq!(collected("==7== Collected : 0\n"), None);
    assert_eq!(collected("==7== Events    : Ir\n"), None);
}
