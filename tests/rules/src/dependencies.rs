//! The dependency rule: the crates that each crate may depend on, and violations of the rule.

use std::{path::Path, process::Command};

use serde_json::Value;

/// Each crate, and the crates of this repository that its shipped code may depend on directly.
/// Planned crates have a row too, so that the rule binds a new crate from its first commit.
///
/// No crate that an operator runs may reach `cloakwork-secret`, directly or through other crates.
const ALLOWED: &[(&str, &[&str])] = &[
    ("cloakwork-params", &[]),
    ("cloakwork-proto", &[]),
    ("cloakwork-attestation", &[]),
    ("cloakwork-math", &["params"]),
    ("cloakwork-tfhe", &["math", "params"]),
    ("cloakwork-ckks", &["math", "params"]),
    ("cloakwork-circuit", &["params"]),
    ("cloakwork-secret", &["tfhe", "ckks", "math", "params"]),
    ("cloakwork-clock", &[]),
    ("cloakwork-residency", &[]),
    ("cloakwork-retry", &[]),
    ("cloakwork-share", &[]),
    ("cloakwork-storage", &["share"]),
    ("cloakwork-trace", &[]),
    ("cloakwork-telemetry", &["trace"]),
    ("cloakwork-keystore", &["clock", "params", "share", "storage"]),
    ("cloakwork-oidc", &["clock", "retry"]),
    ("cloakwork-scheduler", &["params"]),
    ("cloakwork-device", &["circuit", "params", "tfhe", "ckks"]),
    ("cloakwork-cuda", &["device", "tfhe", "ckks", "math", "params", "residency"]),
    ("cloakwork-hpu", &["device", "tfhe", "ckks", "math", "params"]),
    ("cloakwork-vectors", &["device", "circuit", "ckks", "math", "params"]),
    (
        "cloakwork-worker",
        &[
            "attestation",
            "device",
            "vectors",
            "cuda",
            "hpu",
            "circuit",
            "tfhe",
            "ckks",
            "clock",
            "params",
            "proto",
            "residency",
            "retry",
            "telemetry",
            "trace",
        ],
    ),
    (
        "cloakwork-server",
        &[
            "attestation",
            "scheduler",
            "keystore",
            "oidc",
            "circuit",
            "worker",
            "clock",
            "params",
            "proto",
            "share",
            "storage",
            "telemetry",
            "trace",
        ],
    ),
    ("cloakwork-client", &["attestation", "secret", "circuit", "clock", "params", "proto", "retry", "trace"]),
    ("cloakwork", &["client", "clock"]),
];

/// Returns a sentence for each violation in the workspace at `manifest`. A violation is a
/// dependency that the rule does not allow, or a shipped crate that turns on the randomness of
/// tests.
///
/// Reads the normal and build dependencies from `cargo metadata`. Dependencies of tests are exempt.
/// The crates under `tests/` are exempt as well, because no shipped crate depends on them.
pub fn violations(manifest: &Path) -> Vec<String> {
    packages(manifest).iter().flat_map(violations_of).collect()
}

/// Packages of the workspace, as `cargo metadata` describes them.
pub fn packages(manifest: &Path) -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version=1", "--manifest-path"])
        .arg(manifest)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    metadata["packages"].as_array().expect("a list of packages").clone()
}

/// Every crate that the rule lets `crate_name` reach, over any number of dependencies.
pub fn reachable(crate_name: &str) -> Vec<String> {
    let mut reached = vec![crate_name.to_owned()];
    let mut next = 0;
    while let Some(name) = reached.get(next).cloned() {
        let arrows = ALLOWED.iter().filter(|(row, _)| *row == name).flat_map(|(_, allowed)| allowed.iter());
        for target in arrows.map(|allowed| format!("cloakwork-{allowed}")) {
            if !reached.contains(&target) {
                reached.push(target);
            }
        }
        next += 1;
    }
    reached
}

fn violations_of(package: &Value) -> Vec<String> {
    let name = text(&package["name"]);
    if name.starts_with("cloakwork-tests") {
        return Vec::new();
    }
    let Some((_, allowed)) = ALLOWED.iter().find(|(row, _)| *row == name) else {
        return vec![format!("{name} has no row in the dependency rule")];
    };
    let dependencies = package["dependencies"].as_array().expect("a list of dependencies").iter();
    let shipped: Vec<&Value> = dependencies.filter(|dependency| dependency["kind"] != "dev").collect();
    let arrows = shipped
        .iter()
        .map(|dependency| text(&dependency["name"]))
        .filter(|dependency| dependency.starts_with("cloakwork"))
        .filter(|dependency| !allowed.iter().any(|allowed| *dependency == format!("cloakwork-{allowed}")))
        .map(|dependency| format!("{name} must not depend on {dependency}"));
    let randomness = shipped
        .iter()
        .filter(|dependency| features(dependency).any(|feature| feature == TEST_RANDOMNESS))
        .map(|dependency| format!("{name} must not turn on {TEST_RANDOMNESS} of {}", text(&dependency["name"])));
    let by_default = package["features"]["default"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|feature| text(feature).ends_with(TEST_RANDOMNESS));
    let by_default = by_default.map(|_| format!("{name} must not turn on {TEST_RANDOMNESS} by default"));
    arrows.chain(randomness).chain(by_default).collect()
}

/// The feature with keys and noise that anyone can repeat. Only dependencies of tests may turn on
/// this feature.
const TEST_RANDOMNESS: &str = "insecure-test-randomness";

fn features(dependency: &Value) -> impl Iterator<Item = &str> {
    dependency["features"].as_array().expect("a list of features").iter().map(text)
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}
