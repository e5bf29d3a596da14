//! Comments and documents keep to plain language, and a text that does not is found.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use cloakwork_tests_rules::language::{Finding, Rule, findings};

/// Files and folders whose language is not checked.
const EXEMPT: &[&str] = &[
    // Breaks the rules on purpose.
    "tests/rules/planted/",
    // Lists the phrases.
    "tests/rules/src/language.rs",
    // Generated from tables in the sources, which are checked.
    "docs/limits.md",
    "docs/metrics.md",
    // Licence texts of others.
    "NOTICE.md",
];

const CHECKED: &[&str] = &["rs", "md", "proto", "cu", "cuh", "cpp", "h", "sh"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn comments_and_documents_keep_to_plain_language() {
    let files = Command::new("git").arg("-C").arg(root()).args(["ls-files", "-z"]).output().expect("git runs");
    let files = String::from_utf8(files.stdout).expect("names in UTF-8");
    let is_checked = |name: &&str| {
        let extension = Path::new(name).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        CHECKED.contains(&extension) && !EXEMPT.iter().any(|exempt| name.starts_with(exempt))
    };
    let checked: Vec<&str> = files.split('\0').filter(is_checked).collect();
    assert!(checked.len() > 100, "only {} files", checked.len());
    let mut found = Vec::new();
    for name in checked {
        // A file that is listed and deleted in the working tree has no text.
        let Ok(source) = std::fs::read_to_string(root().join(name)) else { continue };
        found.extend(findings(Path::new(name), &source).iter().map(|finding| format!("{name}:{finding}")));
    }
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
}

#[test]
fn each_planted_fault_is_found() {
    let planted = |name: &str| {
        let path = root().join("tests/rules/planted/language").join(name);
        let source = std::fs::read_to_string(&path).expect("a planted file");
        let rules = |found: Vec<Finding>| found.into_iter().map(|it| (it.line, it.rule)).collect::<Vec<_>>();
        rules(findings(&path, &source))
    };
    assert_eq!(
        planted("faults.md"),
        [(3, Rule::Columns), (5, Rule::Words), (10, Rule::Question), (12, Rule::Opening), (14, Rule::Phrase),]
    );
    assert_eq!(planted("faults.rs"), [(1, Rule::Opening), (3, Rule::Question), (8, Rule::Columns), (8, Rule::Phrase)]);
}

#[test]
fn code_tables_and_links_are_no_prose() {
    let text = "# What\n\n| what | it |\n|---|---|\n| whoever | shall |\n\n```\nWhoever runs this?\n```\n\n\
                See [a page with a long name](https://example.org/a/very/long/address/that/cannot/be/broken/at/all/by/anyone).\n";
    assert_eq!(findings(Path::new("a.md"), text), []);
    assert_eq!(findings(Path::new("a.rs"), "let what = \"Whoever shall?\"; // what\n"), []);
}
