//! Output to a closed pipe and to a full disk.

use std::{
    fs::File,
    process::{Command, Output, Stdio},
};

use cloakwork_tests_service::binary;

/// Commands with long output and commands with short output.
const COMMANDS: [(&str, &[&str]); 4] = [
    ("tested-client", &["completions", "bash"]),
    ("tested-server", &["config", "print"]),
    ("tested-server", &["config", "check", "empty.toml"]),
    ("tested-server", &["dev-certs", "--out", "certs"]),
];

fn run(program: &str, args: &[&str], out: impl Into<Stdio>) -> Output {
    let home = tempfile::tempdir().expect("a directory");
    File::create(home.path().join("empty.toml")).expect("a file");
    let mut command = Command::new(binary(program));
    command.current_dir(home.path()).env_clear().args(args).stdout(out);
    command.output().expect("it runs")
}

#[test]
fn a_closed_pipe_ends_a_command_without_an_error() {
    for (program, args) in COMMANDS {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = run(program, args, writer);
        assert!(output.status.success() && output.stderr.is_empty(), "{args:?}: {output:?}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    for (program, args) in COMMANDS {
        let output = run(program, args, File::options().write(true).open("/dev/full").expect("a full disk"));
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {message}");
        assert!(message.contains("nothing can be printed"), "{args:?}: {message}");
    }
}
