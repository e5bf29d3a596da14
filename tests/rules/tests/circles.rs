//! The top-level modules of a crate have no cyclic dependencies, and a planted circle is found.

use std::path::{Path, PathBuf};

use cloakwork_tests_rules::{circles::circles, packages};

/// Allowed circles, each with the reason.
const ALLOWED: &[(&str, &[&str])] = &[
    // The trait of torus words names the jobs of its kernels, so that kernels are compiled once, in
    // this crate.
    ("cloakwork-math", &["decomposition", "external_product", "torus"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn no_rooms_use_each_other_in_a_circle() {
    let mut found = Vec::new();
    for package in packages(&root().join("Cargo.toml")) {
        let name = package["name"].as_str().expect("a name").to_owned();
        if name.starts_with("cloakwork-tests") {
            continue;
        }
        let directory = Path::new(package["manifest_path"].as_str().expect("a path")).with_file_name("src");
        let allowed: Vec<&[&str]> = ALLOWED.iter().filter(|(of, _)| *of == name).map(|(_, circle)| *circle).collect();
        let circles = circles(&directory);
        for circle in &allowed {
            assert!(circles.iter().any(|found| found == circle), "{name}: {circle:?} is not a circle any more");
        }
        found.extend(
            circles
                .into_iter()
                .filter(|circle| !allowed.iter().any(|allowed| circle == allowed))
                .map(|it| (name.clone(), it)),
        );
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_planted_circle_is_found() {
    let found = circles(&root().join("tests/rules/planted/circles"));
    assert_eq!(found, [["first", "second", "third"]], "the room `apart` is used, and uses none of them");
}
