//! Handles that record metrics. The number of labels is part of the type.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use cloakwork_trace::TraceId;
use opentelemetry::KeyValue;

use crate::{Metric, Registry, exemplars::Exemplars};

/// Whether nothing is recorded.
static IS_MUTED: AtomicBool = AtomicBool::new(false);

/// Makes all handles of the process record nothing, so that a benchmark measures what recording
/// costs.
#[doc(hidden)]
pub fn mute() {
    IS_MUTED.store(true, Relaxed);
}

fn is_muted() -> bool {
    IS_MUTED.load(Relaxed)
}

/// A counter. Without labels, adding is one atomic addition.
#[derive(Debug)]
pub struct Counter<const N: usize> {
    labels: &'static [&'static str],
    form: CounterForm,
}

#[derive(Debug)]
enum CounterForm {
    Plain(Arc<Plain>),
    Labelled(opentelemetry::metrics::Counter<f64>),
}

#[derive(Debug, Default)]
struct Plain {
    value: AtomicU64,
    // A counter that was never touched is not exported, like all other metrics.
    touched: AtomicBool,
}

impl<const N: usize> Counter<N> {
    /// The handle of a row.
    pub fn new(registry: &Registry, metric: &Metric) -> Self {
        let meter = registry.meter();
        let form = if N == 0 {
            let plain = Arc::new(Plain::default());
            let read = plain.clone();
            meter
                .u64_observable_counter(metric.name)
                .with_description(metric.help)
                .with_callback(move |observer| {
                    if read.touched.load(Relaxed) {
                        observer.observe(read.value.load(Relaxed), &[]);
                    }
                })
                .build();
            CounterForm::Plain(plain)
        } else {
            CounterForm::Labelled(meter.f64_counter(metric.name).with_description(metric.help).build())
        };
        Self { labels: metric.labels, form }
    }

    /// Adds `amount`. The labels are in the order of the table.
    pub fn add(&self, amount: u64, labels: [&'static str; N]) {
        if is_muted() {
            return;
        }
        match &self.form {
            CounterForm::Plain(plain) => {
                plain.value.fetch_add(amount, Relaxed);
                plain.touched.store(true, Relaxed);
            }
            CounterForm::Labelled(counter) => counter.add(amount as f64, &pairs(self.labels, labels)),
        }
    }

    /// Adds an amount that need not be whole, to a counter with labels. A counter without labels
    /// takes its whole part.
    pub fn add_f64(&self, amount: f64, labels: [&'static str; N]) {
        if is_muted() {
            return;
        }
        match &self.form {
            CounterForm::Plain(_) => self.add(amount as u64, labels),
            CounterForm::Labelled(counter) => counter.add(amount, &pairs(self.labels, labels)),
        }
    }
}

/// A gauge: a value that goes up and down.
#[derive(Debug)]
pub struct Gauge<const N: usize> {
    labels: &'static [&'static str],
    gauge: opentelemetry::metrics::Gauge<f64>,
}

impl<const N: usize> Gauge<N> {
    /// The handle of a row.
    pub fn new(registry: &Registry, metric: &Metric) -> Self {
        let gauge = registry.meter().f64_gauge(metric.name).with_description(metric.help).build();
        Self { labels: metric.labels, gauge }
    }

    /// Sets the value to a whole number. The labels are in the order of the table.
    pub fn set(&self, value: u64, labels: [&'static str; N]) {
        self.set_f64(value as f64, labels);
    }

    /// Sets the value. The labels are in the order of the table.
    pub fn set_f64(&self, value: f64, labels: [&'static str; N]) {
        if !is_muted() {
            self.gauge.record(value, &pairs(self.labels, labels));
        }
    }
}

/// A histogram: the distribution of recorded values.
#[derive(Debug)]
pub struct Histogram<const N: usize> {
    name: &'static str,
    labels: &'static [&'static str],
    buckets: &'static [f64],
    histogram: opentelemetry::metrics::Histogram<f64>,
    exemplars: Arc<Exemplars>,
}

impl<const N: usize> Histogram<N> {
    /// The handle of a row.
    pub fn new(registry: &Registry, metric: &Metric) -> Self {
        let Metric { name, help, labels, buckets, .. } = *metric;
        let histogram = registry.meter().f64_histogram(name).with_description(help);
        let histogram = histogram.with_boundaries(buckets.to_vec()).build();
        Self { name, labels, buckets, histogram, exemplars: registry.exemplars() }
    }

    /// Records a value. The labels are in the order of the table.
    pub fn record(&self, value: f64, labels: [&'static str; N]) {
        if !is_muted() {
            self.histogram.record(value, &pairs(self.labels, labels));
        }
    }

    /// Records a value, as an example of its bucket if it has a trace.
    pub fn record_traced(&self, value: f64, labels: [&'static str; N], trace: Option<TraceId>) {
        self.record(value, labels);
        if let Some(trace) = trace {
            let mut pairs: Vec<_> = self.labels.iter().zip(labels).collect();
            // Labels are exported in the order of their names.
            pairs.sort_by_key(|(name, _)| **name);
            let values: Vec<_> = pairs.into_iter().map(|(_, value)| value).collect();
            self.exemplars.keep(self.name, &values, self.buckets, value, trace);
        }
    }
}

fn pairs<const N: usize>(names: &'static [&'static str], values: [&'static str; N]) -> [KeyValue; N] {
    std::array::from_fn(|index| KeyValue::new(names[index], values[index]))
}
