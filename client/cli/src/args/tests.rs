use clap::{CommandFactory as _, error::ErrorKind};

use super::*;

#[test]
fn the_arguments_are_consistent() {
    Args::command().debug_assert();
}

/// List of commands in the manual. A new summary of a command must be entered here too.
const COMMANDS: &str = "\
keygen: Make a client key and its evaluation key
keys: Upload, list, show and delete evaluation keys
ckks: Work with CKKS, arithmetic on encrypted approximate numbers: keys, ciphertexts and results
eval: Encrypt integers, evaluate an expression on them, decrypt
pbs: Encrypt values, run a function on each by programmable bootstraps, decrypt
gate: Encrypt bits, run a boolean gate on each pair, decrypt
jobs: List, show, follow and cancel jobs
anchor: Pin, list and remove anchors: the installations whose results you take
uploads: List unfinished uploads, and abort them
sets: List the parameter sets that the server serves, with their security and failure figures
bench: Measure throughput and latency
top: Watch pools, queues and rates
demo: Run everything once on fresh keys: upload, compute, decrypt, check
admin: Operate a server: pools, workers, tenants, tokens, jobs, usage and the audit log
completions: Print a completion script for a shell
";

#[test]
fn help_lists_every_command_and_every_exit_code() {
    let mut command = Args::command();
    let line = |command: &clap::Command| {
        format!("{}: {}\n", command.get_name(), command.get_about().map(ToString::to_string).unwrap_or_default())
    };
    let commands: String = command.get_subcommands().map(line).collect();
    assert_eq!(commands, COMMANDS);
    let help = command.render_long_help().to_string();
    for code in (0..=8).chain([130]) {
        assert!(help.contains(&format!("\n{code:>3}  ")), "no exit code {code} in\n{help}");
    }
}

#[test]
fn every_command_with_arguments_shows_examples() {
    for name in ["keygen", "pbs", "gate", "bench", "top", "demo", "completions"] {
        let mut command = Args::command();
        let help = command.find_subcommand_mut(name).expect("a command").render_long_help().to_string();
        assert!(
            help.contains("Example") && help.contains(&format!("  cloakwork {name}"))
                || help.contains(&format!(" {name} ")),
            "{help}"
        );
    }
}

#[test]
fn operators_have_an_address_of_their_own() {
    let server = |line: &str, variable: Option<&str>| {
        let matches = Args::command().try_get_matches_from(line.split(' ')).expect("arguments");
        Args::of(&matches, variable.map(str::to_owned)).expect("arguments").global.server
    };
    assert_eq!(server("cloakwork admin pools", None), "http://127.0.0.1:7272");
    assert_eq!(server("cloakwork admin pools", Some("https://a:1")), "https://a:1");
    for line in [
        "--server https://b:2 admin tenants ls",
        "admin --server https://b:2 tenants ls",
        "admin tenants ls --server https://b:2",
    ] {
        assert_eq!(server(&format!("cloakwork {line}"), Some("https://a:1")), "https://b:2", "{line}");
    }
    assert_eq!(server("cloakwork --server https://b:2 jobs ls", Some("https://a:1")), "https://b:2");
    assert_ne!(server("cloakwork jobs ls", Some("https://a:1")), "https://a:1");
    let mut command = Args::command();
    command.build();
    let help = command.find_subcommand_mut("admin").expect("a command").render_long_help().to_string();
    assert!(help.contains("CLOAKWORK_OPERATOR_SERVER") && help.contains("http://127.0.0.1:7272"), "{help}");
    assert!(!help.contains("[env: CLOAKWORK_SERVER"), "{help}");
}

#[test]
fn arguments_of_operators_are_checked_before_a_call() {
    let refused = |line: &str| Args::try_parse_from(line.split(' ')).expect_err(line).kind();
    for line in [
        "admin tenants create Acme",
        "admin tenants delete acme/keys/0",
        "admin tenants limits acme --set tenant_bytes",
        "admin tenants limits acme --set tenant_bytes=1k",
        "admin tokens create --tenant acme --scopes root",
        "admin tokens create --tenant acme --days -1",
        "admin usage --from 2026-02-30",
        "admin usage --format xml",
        "admin jobs --limit all",
    ] {
        let kind = refused(&format!("cloakwork {line}"));
        assert!(
            matches!(kind, ErrorKind::ValueValidation | ErrorKind::InvalidValue | ErrorKind::UnknownArgument),
            "{line}"
        );
    }
    assert_eq!(refused("cloakwork admin tokens create"), ErrorKind::MissingRequiredArgument);
    assert_eq!(refused("cloakwork admin drain "), ErrorKind::InvalidValue);
    assert!(
        Args::try_parse_from("cloakwork admin tokens create --tenant a --scopes jobs,admin --days 0".split(' '))
            .is_ok()
    );
}

#[test]
fn arguments_that_contradict_each_other_are_refused() {
    let refused = |line: &str| Args::try_parse_from(line.split(' ')).expect_err("a refusal").kind();
    assert_eq!(refused("cloakwork pbs --values 1"), ErrorKind::MissingRequiredArgument);
    assert_eq!(refused("cloakwork pbs --fn square --expr x --values 1"), ErrorKind::ArgumentConflict);
    assert_eq!(refused("cloakwork pbs --expr x+ --values 1"), ErrorKind::ValueValidation);
    assert_eq!(refused("cloakwork bench --rate 1 --clients 2"), ErrorKind::ArgumentConflict);
    assert_eq!(refused("cloakwork gate NOT --left 1 --right 1"), ErrorKind::ValueValidation);
    assert_eq!(refused("cloakwork uploads abort"), ErrorKind::MissingRequiredArgument);
    assert_eq!(refused("cloakwork uploads abort 0123 --all"), ErrorKind::ArgumentConflict);
    assert_eq!(refused("cloakwork bench --rate nan"), ErrorKind::ValueValidation);
    for stages in ["0", "6", "-1", "256", "2.5"] {
        let line = format!("cloakwork ckks bootstrap x --stages={stages}");
        assert_eq!(refused(&line), ErrorKind::ValueValidation, "{stages}");
    }
    for stages in 1..=5 {
        let line = format!("cloakwork ckks bootstrap x --stages {stages}");
        assert!(Args::try_parse_from(line.split(' ')).is_ok(), "{stages}");
    }
}
