//! Each alert for Prometheus has a runbook, and rules and runbooks name only metrics that the
//! documents of metrics have.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

#[test]
fn each_alert_has_a_runbook_that_the_index_lists() {
    let rules = read("deploy/prometheus/alerts.yaml");
    let alerts = alerts(&rules);
    assert!(alerts.len() >= 18, "only {} alerts: are they still recognised?", alerts.len());
    let index = read("docs/runbooks/README.md");
    for alert in &alerts {
        let runbook = format!("docs/runbooks/{alert}.md");
        assert!(rules.contains(&format!("runbook: {runbook}\n")), "no annotation names {runbook}");
        assert!(read(&runbook).starts_with(&format!("# {alert}\n")), "{runbook} has another title");
        assert!(index.contains(&format!("[{alert}]({alert}.md)")), "the index does not list {alert}");
    }
    let entries = fs::read_dir(root().join("docs/runbooks")).expect("a readable directory");
    let pages = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let pages: BTreeSet<String> = pages.filter_map(|name| name.strip_suffix(".md").map(str::to_owned)).collect();
    let without_alert: Vec<&String> =
        pages.iter().filter(|page| *page != "README" && !alerts.contains(*page)).collect();
    assert!(without_alert.is_empty(), "runbooks without an alert: {without_alert:?}");
}

#[test]
fn rules_and_runbooks_name_documented_metrics() {
    let documented = metrics(&read("docs/metrics.md"));
    let rules = ["recording", "alerts"].map(|name| format!("deploy/prometheus/{name}.yaml"));
    let alerts = alerts(&read(&rules[1]));
    let runbooks = alerts.iter().map(|alert| format!("docs/runbooks/{alert}.md"));
    let mut wrong = Vec::new();
    for file in rules.iter().cloned().chain(runbooks) {
        wrong.extend(undocumented(&read(&file), &documented).into_iter().map(|name| format!("{file}: {name}")));
    }
    assert!(wrong.is_empty(), "docs/metrics.md does not have these metrics: {wrong:#?}");
}

#[test]
fn an_undocumented_metric_is_found() {
    let documented = metrics("| `cloakwork_jobs_total` | counter |\n| `cloakwork_wait_seconds` | histogram |");
    let right = "rate(cloakwork_jobs_total[5m]) / cloakwork:jobs:rate5m > cloakwork_wait_seconds_bucket{le=\"1\"}";
    assert!(undocumented(right, &documented).is_empty(), "names with colons are recording rules");
    let wrong = "cloakwork_job_total + cloakwork_wait_seconds_max";
    assert_eq!(undocumented(wrong, &documented), ["cloakwork_job_total", "cloakwork_wait_seconds_max"]);
    assert_eq!(alerts("  - alert: CloakworkDown\n    expr: up\n").into_iter().collect::<Vec<_>>(), ["CloakworkDown"]);
}

/// The names of the alerts that rules define.
fn alerts(rules: &str) -> BTreeSet<String> {
    rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).map(str::to_owned).collect()
}

/// The names of metrics in a text, without the names of recording rules.
fn metrics(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    let names = text.split(|letter: char| !is_part(letter)).map(|name| name.trim_end_matches(':'));
    names.filter(|name| name.starts_with("cloakwork_") && !name.contains(':')).map(str::to_owned).collect()
}

/// The metrics in a text that are not documented. A histogram has series with suffixes.
fn undocumented(text: &str, documented: &BTreeSet<String>) -> Vec<String> {
    let is_documented = |name: &str| {
        let histogram = ["_bucket", "_count", "_sum"].into_iter().find_map(|suffix| name.strip_suffix(suffix));
        documented.contains(name) || histogram.is_some_and(|histogram| documented.contains(histogram))
    };
    metrics(text).into_iter().filter(|name| !is_documented(name)).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
