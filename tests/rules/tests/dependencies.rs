//! The dependency rule holds, and planted violations are found.

use std::path::{Path, PathBuf};

use cloakwork_tests_rules::{reachable, violations};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn no_crate_depends_on_a_crate_that_the_rule_forbids() {
    let found = violations(&root().join("Cargo.toml"));
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn the_rule_keeps_secret_keys_from_crates_that_operators_run() {
    for operated in
        ["cloakwork-server", "cloakwork-worker", "cloakwork-keystore", "cloakwork-oidc", "cloakwork-scheduler"]
    {
        let reached = reachable(operated);
        assert!(!reached.contains(&"cloakwork-secret".to_owned()), "{operated} may reach {reached:?}");
    }
    assert!(reachable("cloakwork-client").contains(&"cloakwork-secret".to_owned()), "the client reaches secret keys");
}

#[test]
fn a_planted_violation_is_found() {
    let planted = Path::new(env!("CARGO_MANIFEST_DIR")).join("planted/Cargo.toml");
    let found = violations(&planted);
    assert_eq!(
        found,
        [
            "cloakwork-secret must not turn on insecure-test-randomness by default",
            "cloakwork-server must not depend on cloakwork-secret",
            "cloakwork-server must not turn on insecure-test-randomness of cloakwork-secret",
            "cloakwork-stranger has no row in the dependency rule",
        ],
        "the planted violations: repeatable randomness by default and by a dependency, a server that links secret \
         keys by a build dependency, and a crate without a row"
    );
}
