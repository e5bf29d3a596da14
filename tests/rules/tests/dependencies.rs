//! The dependency rule holds, and would be seen to be broken.

use std::path::{Path, PathBuf};

use cloakwork_tests_rules::{reachable, violations};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn no_arrow_runs_the_wrong_way() {
    let found = violations(&root().join("Cargo.toml"));
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn the_rule_itself_keeps_secret_keys_from_the_operator() {
    for operated in ["cloakwork-server", "cloakwork-worker", "cloakwork-keystore", "cloakwork-scheduler"] {
        let reached = reachable(operated);
        assert!(!reached.contains(&"cloakwork-secret".to_owned()), "{operated} may reach {reached:?}");
    }
    assert!(reachable("cloakwork-client").contains(&"cloakwork-secret".to_owned()), "the client does");
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
        "randomness that anyone can repeat, a server that links secret keys, by a build dependency, and a crate that \
         the rule does not know"
    );
}
