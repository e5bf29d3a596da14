use std::collections::HashSet;

use cloakwork_telemetry::{Kind, Metric, never_recorded};

use super::*;

#[test]
fn the_page_is_up_to_date_with_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
    if std::env::var_os("CLOAKWORK_UPDATE_DOCS").is_some() {
        std::fs::write(path, document()).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap_or_default() == document(),
        "docs/metrics.md is stale: run this test with CLOAKWORK_UPDATE_DOCS=1"
    );
}

#[test]
fn rows_follow_the_naming_conventions() {
    // A server may export all tables in one scrape.
    let all = [METRICS, cloakwork_worker::metrics::METRICS, &cloakwork_worker::metrics::SENSED.concat()].concat();
    let names: HashSet<_> = all.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), all.len());
    for Metric { name, kind, unit, buckets, .. } in all {
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
        assert_eq!(buckets.is_empty(), kind != Kind::Histogram, "{name}");
        assert!(buckets.is_sorted(), "{name}");
        if unit == "seconds" {
            assert!(name.trim_end_matches("_total").ends_with("_seconds"), "{name}");
        }
        if unit == "bytes" {
            assert!(name.contains("_bytes"), "{name}");
        }
        // `never_recorded` would take a name with this suffix for a histogram.
        assert!(!name.ends_with("_count"), "{name}");
    }
}

/// The metrics in a scrape, without the ones that count events of the whole process.
fn recorded(scrape: &str) -> Vec<&'static str> {
    let missing = never_recorded(METRICS, scrape);
    let of_process = ["cloakwork_db_errors_total", "cloakwork_log_suppressed_total"];
    let names = METRICS.iter().map(|metric| metric.name);
    names.filter(|name| !missing.contains(name) && !of_process.contains(name)).collect()
}

#[test]
fn a_new_telemetry_exports_only_the_build_info() {
    let telemetry = Telemetry::new(10).unwrap();
    assert_eq!(recorded(&telemetry.scrape(Format::Prometheus)), ["cloakwork_build_info"]);
}

#[test]
fn suppressed_log_events_are_counted_once_by_their_source() {
    let telemetry = Telemetry::new(10).unwrap();
    let totals = |h2: u64| logging::SOURCES.map(|source| if source == "h2" { h2 } else { 0 });
    for total in [0, 5, 5, 12] {
        count(&telemetry.metrics.log_suppressed, &telemetry.log_suppressed, logging::SOURCES, totals(total));
    }
    let scrape = telemetry.scrape(Format::Prometheus);
    assert!(scrape.contains("cloakwork_log_suppressed_total{target=\"h2\"} 12"), "{scrape}");
    assert_eq!(scrape.matches("cloakwork_log_suppressed_total{").count(), 1, "{scrape}");
}

#[test]
fn recorded_values_are_exported_under_their_declared_names() {
    let telemetry = Telemetry::new(10).unwrap();
    let metrics = &telemetry.metrics;
    metrics.stale_results.add(0, []);
    metrics.upload_bytes.add(40, []);
    metrics.upload_bytes.add(2, []);
    metrics.pbs.add(7, ["2_2", "cpu"]);
    metrics.jobs_ended.add(1, ["failed", "JOB_POISON"]);
    metrics.workers.set(3, ["cpu", "ready"]);
    metrics.jobs_queued.set(5, []);
    metrics.jobs_queued.set(4, []);
    metrics.job_queue.record(0.003, ["2_2", "cpu"]);
    metrics.job_stage.record(0.02, ["key_load"]);
    let scrape = telemetry.scrape(Format::Prometheus);
    for line in [
        "cloakwork_stale_results_total 0",
        "cloakwork_upload_bytes_total 42",
        "cloakwork_pbs_total{parameter_set=\"2_2\",pool=\"cpu\"} 7",
        "cloakwork_jobs_ended_total{reason=\"JOB_POISON\",state=\"failed\"} 1",
        "cloakwork_workers{pool=\"cpu\",state=\"ready\"} 3",
        "cloakwork_jobs_queued 4",
        "cloakwork_job_queue_seconds_bucket{parameter_set=\"2_2\",pool=\"cpu\",le=\"0.0025\"} 0",
        "cloakwork_job_queue_seconds_bucket{parameter_set=\"2_2\",pool=\"cpu\",le=\"0.005\"} 1",
        "cloakwork_job_stage_seconds_count{stage=\"key_load\"} 1",
    ] {
        assert!(scrape.lines().any(|found| found == line), "no '{line}' in\n{scrape}");
    }
    let recorded = recorded(&scrape);
    assert!(recorded.contains(&"cloakwork_job_queue_seconds") && recorded.contains(&"cloakwork_upload_bytes_total"));
    assert!(!recorded.contains(&"cloakwork_grpc_calls_total"));
    assert_eq!(recorded.len(), 9);
}

#[test]
fn the_help_of_the_table_is_exported_for_every_kind() {
    let telemetry = Telemetry::new(10).unwrap();
    telemetry.metrics.uploads_resumed.add(1, []);
    telemetry.metrics.keys_resident.set(1, ["cpu"]);
    telemetry.metrics.wave_width.record(1.0, []);
    let scrape = telemetry.scrape(Format::Prometheus);
    for name in ["cloakwork_uploads_resumed_total", "cloakwork_keys_resident", "cloakwork_wave_width"] {
        let metric = METRICS.iter().find(|metric| metric.name == name).unwrap();
        assert!(scrape.contains(&format!("# HELP {name} {}", metric.help)), "{name}\n{scrape}");
        assert!(scrape.contains(&format!("# TYPE {name} {}", format!("{:?}", metric.kind).to_lowercase())), "{name}");
    }
}
