//! Metrics of the server. Each metric is declared once, in the table. Values are recorded only
//! through the handles that are created from the table. Labels are fixed text, so input cannot
//! create new time series.

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
    /// Name in the exported text.
    pub name: &'static str,
    /// Counter, gauge or histogram.
    pub kind: Kind,
    /// Unit of the values.
    pub unit: &'static str,
    /// Description.
    pub help: &'static str,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// Upper bounds of a histogram's buckets.
    pub buckets: &'static [f64],
}

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value that only grows.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// A distribution of values.
    Histogram,
}

/// All metrics of a server, and their export.
#[derive(Debug)]
pub struct Telemetry {
    /// The handles of the metrics.
    pub metrics: Metrics,
    /// Number of suppressed log events that the counter includes already, for each source.
    log_suppressed: Mutex<[u64; logging::SOURCES.len()]>,
    registry: Registry,
    // Dropping the provider would end the collection.
    _provider: SdkMeterProvider,
}

impl Telemetry {
    /// Creates an independent set of metrics. Each server in a process has its own set.
    pub fn new() -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let registry = Registry::new();
        // The names in the table are complete, and scope labels would only make every line longer.
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

    /// Returns all recorded values in the text format of Prometheus.
    pub fn scrape(&self) -> Result<String, prometheus::Error> {
        self.count_log_suppressed(logging::suppressed());
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    /// Raises the counter to these totals. The log belongs to the process and exists before any
    /// `Telemetry`, so it keeps counts of its own.
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

/// Returns the declared metrics of which a scrape contains no value.
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
         The endpoint `/metrics` on the admin port exports these metrics in the text format of\n\
         Prometheus. A metric appears once a value was recorded. Labels contain fixed text only, never a\n\
         tenant, job or digest.\n\n\
         A test generates this page from the table in `server/src/metrics/table.rs`.\n\n\
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
