//! Only `base/clock` reads the time of day from the system. Everything else is given a `Clock`, so
//! that tests can set the time.

use std::{
    fs,
    path::{Path, PathBuf},
};

use cloakwork_tests_rules::packages;

/// Calls that read the time of day.
const READS: &[&str] =
    &["SystemTime::now", "UNIX_EPOCH.elapsed", "Utc::now", "Local::now", "OffsetDateTime::now", "Uuid::now_v"];

#[test]
fn only_the_clock_reads_the_time_of_day() {
    let mut readers = Vec::new();
    for package in packages(&root().join("Cargo.toml")) {
        if package["name"].as_str().expect("a name").starts_with("cloakwork-tests") {
            continue;
        }
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        readers.extend(readers_below(&manifest.with_file_name("src")));
    }
    let clock = root().join("base/clock/src");
    let (clocks, wrong): (Vec<_>, Vec<_>) = readers.into_iter().partition(|path| path.starts_with(&clock));
    assert!(clocks.contains(&clock.join("lib.rs")), "base/clock does not read the time of day: {clocks:?}");
    assert!(wrong.is_empty(), "take a cloakwork_clock::Clock instead: {wrong:#?}");
}

#[test]
fn a_planted_reader_is_found() {
    let planted = root().join("tests/rules/planted/clock");
    assert_eq!(readers_below(&planted), [planted.join("reads.rs")]);
    assert!(!reads("/// Unlike SystemTime::now.\nlet now = clock.unix_micros();"), "a comment reads nothing");
}

fn readers_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(readers_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && reads(&fs::read_to_string(&path).expect("a source"))
        {
            found.push(path);
        }
    }
    found
}

/// Whether a line that is no comment reads the time of day.
fn reads(source: &str) -> bool {
    let mut code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.any(|line| READS.iter().any(|call| line.contains(call)))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}
