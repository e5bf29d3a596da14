//! Metrics of the server. The table declares each metric once, and values are recorded only through
//! the handles that are created from the table.

mod table;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cloakwork_clock::Clock;
use cloakwork_keystore::StoreWatch;
use cloakwork_storage::{ERROR_KINDS, error_counts};
use cloakwork_telemetry::{Collector, Counter, Export, Format, Names, Protocol, Registry, Service, SpanCounts};
use cloakwork_trace::{Sampling, TraceContext, Tracer};
use cloakwork_worker::logging;
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    config::{Config, OtlpProtocol, POOLS_MAX},
    pulse::{INTERVAL_SECONDS, Pulse},
};

pub use table::{METRICS, Metrics};

/// All metrics of a server, and their export.
#[derive(Debug)]
pub struct Telemetry {
    /// The handles of the metrics.
    pub metrics: Metrics,
    /// Pools that have labels of their own.
    pub pools: Names,
    /// Tenants that have labels of their own.
    pub tenants: Names,
    /// The registry, for metrics of other parts of the process.
    pub registry: Registry,
    /// Events of the last minutes.
    pub pulse: Pulse,
    /// Where spans are recorded.
    pub tracer: Tracer,
    /// Source of the times of spans.
    clock: Clock,
    /// The counts of exported and dropped spans, if spans are exported.
    spans: Option<SpanCounts>,
    /// Numbers of spans that the counters include already: exported, and dropped by reason.
    counted_spans: Mutex<[u64; 3]>,
    /// Number of suppressed log events that the counter includes already, for each source.
    log_suppressed: Mutex<[u64; logging::SOURCES.len()]>,
    /// Number of errors of databases that the counter includes already, for each kind.
    db_errors: Mutex<[u64; ERROR_KINDS.len()]>,
}

/// Maximum number of pools with labels of their own: all that the settings may declare, and some
/// more. Workers name their pools themselves.
const POOL_LABELS_MAX: usize = 64 + 16;
const _: () = assert!(POOL_LABELS_MAX > POOLS_MAX);

impl Telemetry {
    /// Creates an independent set of metrics, with labels for `tenants_max` tenants. Each server in
    /// a process has its own set. Nothing is traced.
    pub fn new(tenants_max: usize) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self::of(Registry::new()?, tenants_max))
    }

    fn of(registry: Registry, tenants_max: usize) -> Self {
        let metrics = Metrics::new(&registry);
        metrics.build_info.set(1, [env!("CARGO_PKG_VERSION")]);
        Self {
            metrics,
            pools: Names::new(POOL_LABELS_MAX),
            tenants: Names::new(tenants_max),
            registry,
            pulse: Pulse::default(),
            tracer: Tracer::off(),
            clock: Clock::system(),
            spans: None,
            counted_spans: Mutex::default(),
            log_suppressed: Mutex::default(),
            db_errors: Mutex::default(),
        }
    }

    /// The metrics of a server with this configuration, and the export of its spans, if it has one.
    /// `instance` tells this process from others.
    pub fn for_config(
        config: &Config,
        clock: Clock,
        instance: String,
    ) -> Result<(Self, Option<Export>), Box<dyn std::error::Error + Send + Sync>> {
        let Config { telemetry: settings, limits, pools, .. } = config;
        let service = Service { name: "cloakwork-server", version: env!("CARGO_PKG_VERSION"), instance };
        let collector = (!settings.otlp_endpoint.is_empty()).then(|| Collector {
            endpoint: settings.otlp_endpoint.clone(),
            protocol: match settings.otlp_protocol {
                OtlpProtocol::Grpc => Protocol::Grpc,
                OtlpProtocol::Http => Protocol::Http,
            },
            ca_file: settings.otlp_ca_file.clone(),
            headers_file: settings.otlp_headers_file.clone(),
        });
        let interval = Duration::from_secs(settings.metrics_seconds);
        let registry = match collector.as_ref().filter(|_| settings.metrics_seconds > 0) {
            Some(collector) => Registry::exporting(collector, &service, interval)?,
            None => Registry::new()?,
        };
        let mut telemetry = Self::of(registry, usize::try_from(limits.metric_tenants).unwrap_or(usize::MAX));
        telemetry.clock = clock;
        // Declared pools have values before their first worker.
        pools.keys().for_each(|pool| _ = telemetry.pools.label(pool));
        telemetry.metrics.limit_value.set(limits.queued_jobs, ["queued_jobs"]);
        let export = collector.map(|collector| collector.spans(&service)).transpose()?;
        if let Some(export) = &export {
            telemetry.tracer = export.tracer(Sampling {
                ratio: settings.trace_percent as f64 / 100.0,
                traces_per_second: u32::try_from(settings.traces_per_second).unwrap_or(u32::MAX),
            });
            telemetry.spans = Some(export.counts());
        }
        Ok((telemetry, export))
    }

    /// Takes samples of the events for the console until the task is dropped.
    pub async fn sample_pulse(self: Arc<Self>) {
        let mut interval = interval(Duration::from_secs(INTERVAL_SECONDS));
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut before = interval.tick().await;
        loop {
            let now = interval.tick().await;
            self.pulse.sample(self.clock.unix_micros(), (now - before).as_secs_f64());
            before = now;
        }
    }

    /// The time of day in nanoseconds of Unix time.
    pub fn now_nanos(&self) -> u64 {
        u64::try_from(self.clock.unix_micros()).unwrap_or_default().saturating_mul(1000)
    }

    /// The span of a call that arrives with this parent, if the call is traced.
    pub fn enter(&self, parent: Option<TraceContext>) -> Option<TraceContext> {
        self.tracer.enter(parent, self.clock.unix_micros())
    }

    /// Returns all recorded values as text.
    pub fn scrape(&self, format: Format) -> String {
        count(&self.metrics.log_suppressed, &self.log_suppressed, logging::SOURCES, logging::suppressed());
        count(&self.metrics.db_errors, &self.db_errors, ERROR_KINDS, error_counts());
        self.count_spans();
        self.registry.scrape(format)
    }

    fn count_spans(&self) {
        let Some(spans) = &self.spans else { return };
        let (dropped, exported) = (spans.dropped(), spans.exported());
        let mut counted = self.counted_spans.lock().unwrap_or_else(PoisonError::into_inner);
        self.metrics.spans_exported.add(exported - counted[0], []);
        counted[0] = exported;
        for ((label, total), counted) in dropped.into_iter().zip(&mut counted[1..]) {
            self.metrics.spans_dropped.add(total - *counted, [label]);
            *counted = total;
        }
    }
}

impl StoreWatch for Telemetry {
    fn ended(&self, operation: &'static str, took: Duration, has_failed: bool) {
        self.metrics.blob_store_time.record(took.as_secs_f64(), [operation]);
        if has_failed {
            self.metrics.blob_store_errors.add(1, [operation]);
        }
    }
}

/// Raises a counter to these totals, by label. `counted` holds the totals that it includes already.
/// The totals belong to the process and exist before any `Telemetry`.
fn count<const N: usize>(counter: &Counter<1>, counted: &Mutex<[u64; N]>, labels: [&'static str; N], totals: [u64; N]) {
    let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
    for ((total, counted), label) in totals.into_iter().zip(counted.iter_mut()).zip(labels) {
        let more = total.saturating_sub(*counted);
        if more > 0 {
            counter.add(more, [label]);
            *counted = total;
        }
    }
}

/// The text of `docs/metrics.md`.
pub fn document() -> String {
    let text = "# Metrics\n\n\
         The endpoint `/metrics` exports these metrics in the text format of Prometheus, and in\n\
         OpenMetrics to callers that accept it. A metric appears once a value was recorded.\n\n\
         Values of labels are fixed text, with two exceptions. Labels name at most 80 pools, and at\n\
         most as many tenants as the limit `metric_tenants` allows. All others are `_other`. No label\n\
         names a job or a digest.\n\n\
         Tests generate this page from the tables in `server/src/metrics/table.rs` and\n\
         `worker/src/metrics`.\n\n\
         ## Server\n\n\
         The admin port of a server exports:\n\n";
    let worker = "\n## Worker\n\n\
         The option `--metrics` of a worker opens a port that exports these metrics and those of\n\
         sensors. The worker inside a server exports them on the server's port:\n\n";
    let sensors = "\n## Sensors\n\n\
         A worker reads the sensors of its machine at each export. A metric has no value if its sensor\n\
         is missing or cannot be read. [gpu.md](gpu.md#metrics) explains the labels of GPUs.\n\n";
    let tables = [METRICS, cloakwork_worker::metrics::METRICS, &cloakwork_worker::metrics::SENSED.concat()];
    let [server_rows, worker_rows, sensor_rows] = tables.map(cloakwork_telemetry::rows);
    [text, &server_rows, worker, &worker_rows, sensors, &sensor_rows].concat()
}

#[cfg(test)]
mod tests;
