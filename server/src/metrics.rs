//! What the server counts and measures. Every metric is declared once, in the table; the handles made from it are the
//! only way to record anything, and the labels they take are fixed text, so that no input can make a new series.

mod handles;
mod table;

use std::{
    collections::HashSet,
    fmt::Write as _,
    sync::{Mutex, PoisonError},
};

use cloakwork_worker::logging;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Registry, TextEncoder};

pub use handles::{Counter, Gauge, Histogram};
pub use table::{METRICS, Metrics};

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Name in a scrape.
    pub name: &'static str,
    /// Counter, gauge or histogram.
    pub kind: Kind,
    /// What is counted.
    pub unit: &'static str,
    /// What it means.
    pub help: &'static str,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// Upper ends of a histogram's buckets.
    pub buckets: &'static [f64],
}

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values by size.
    Histogram,
}

/// All metrics of a server, and their scrape.
#[derive(Debug)]
pub struct Telemetry {
    /// The handles.
    pub metrics: Metrics,
    /// Events left out of the log that the counter has already.
    log_suppressed: Mutex<[u64; logging::SOURCES.len()]>,
    registry: Registry,
    // Dropping it would end the measurements.
    _provider: SdkMeterProvider,
}

impl Telemetry {
    /// A fresh set; each server of a process has its own.
    pub fn new() -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let registry = Registry::new();
        // Names are complete in the table, and scope labels would only make every line longer.
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .without_units()
            .without_counter_suffixes()
            .without_target_info()
            .scope_info_enabled(false)
            .build()?;
        let provider = SdkMeterProvider::builder().with_reader(exporter).build();
        let metrics = Metrics::new(&provider.meter("cloakwork"));
        metrics.build_info.set(1, [env!("CARGO_PKG_VERSION")]);
        Ok(Self { metrics, log_suppressed: Mutex::default(), registry, _provider: provider })
    }

    /// Everything that was recorded, in the text format of Prometheus.
    pub fn scrape(&self) -> Result<String, prometheus::Error> {
        self.count_log_suppressed(logging::suppressed());
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    /// Brings the counter up to these totals. The log belongs to the process and is older than any telemetry, so the
    /// log counts by itself.
    fn count_log_suppressed(&self, totals: [u64; logging::SOURCES.len()]) {
        let mut counted = self.log_suppressed.lock().unwrap_or_else(PoisonError::into_inner);
        for ((total, counted), source) in totals.into_iter().zip(counted.iter_mut()).zip(logging::SOURCES) {
            let more = total.saturating_sub(*counted);
            if more > 0 {
                self.metrics.log_suppressed.add(more, [source]);
                *counted = total;
            }
        }
    }
}

/// Declared metrics that a scrape shows no value of.
pub fn never_recorded(scrape: &str) -> Vec<&'static str> {
    let samples: HashSet<&str> = scrape
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(['{', ' ']).next().unwrap_or(line))
        .map(|name| name.strip_suffix("_count").unwrap_or(name))
        .collect();
    METRICS.iter().map(|metric| metric.name).filter(|name| !samples.contains(name)).collect()
}

/// The text of `docs/metrics.md`.
pub fn document() -> String {
    let mut text = String::from(
        "# Metrics\n\n\
         What `/metrics` on the admin port shows. A metric appears once something was recorded. Labels hold fixed text\n\
         only: no tenant, job or digest is ever one.\n\n\
         This page is written by a test, from the table in `server/src/metrics/table.rs`.\n\n\
         | metric | kind | unit | labels | meaning |\n\
         |---|---|---|---|---|\n",
    );
    for Metric { name, kind, unit, help, labels, .. } in METRICS {
        let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        let kind = format!("{kind:?}").to_lowercase();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| `{name}` | {kind} | {unit} | {labels} | {help} |");
    }
    text
}

#[cfg(test)]
mod tests;
