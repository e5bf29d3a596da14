//! The script behind `make demo` works, and leaves nothing behind.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use cloakwork_tests_service::{Process, Signal, TOY, binary};

/// The script with the programs under test, and with a temporary directory of its own.
fn script(temporary: &Path) -> Command {
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("demo.sh"));
    command.env("DEMO_SERVER", binary("tested-server")).env("DEMO_CLIENT", binary("tested-client"));
    command.env("TMPDIR", temporary).stdin(Stdio::null());
    command
}

fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).expect("a readable directory").count()
}

#[test]
fn the_demo_computes_and_leaves_no_files() {
    let temporary = tempfile::tempdir().expect("a directory");
    let output = script(temporary.path()).args(["--pairs", "16"]).output().expect("the script runs");
    let (printed, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}\n{said}");
    for expected in ["all 16 products right", "blind_rotate", "16 bootstraps in"] {
        assert!(printed.contains(expected), "no '{expected}' in\n{printed}");
    }
    assert_eq!(entries(temporary.path()), 0, "its directory is gone");
}

#[test]
fn a_failed_demo_reports_the_error_and_leaves_no_files() {
    let temporary = tempfile::tempdir().expect("a directory");
    // The server's default configuration refuses sets that protect nothing.
    let output = script(temporary.path()).args(["--set", TOY]).output().expect("the script runs");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("WEAK_SET_REFUSED"), "{output:?}");
    assert_eq!(entries(temporary.path()), 0, "its directory is gone");
}

#[test]
fn a_signal_ends_the_demo_and_leaves_no_files() {
    let temporary = tempfile::tempdir().expect("a directory");
    let logs = tempfile::tempdir().expect("a directory");
    let mut process = Process::start(script(temporary.path()), &logs.path().join("demo.log"));
    let begun = Instant::now();
    while entries(temporary.path()) == 0 {
        assert!(process.is_running() && begun.elapsed() < Duration::from_secs(60), "{}", process.log());
        std::thread::sleep(Duration::from_millis(5));
    }
    process.signal(Signal::Terminate);
    while process.is_running() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{}", process.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(entries(temporary.path()), 0, "its directory is gone");
}
