//! Handles that record metrics. The number of labels is part of the type.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use opentelemetry::{KeyValue, metrics::Meter};

use super::Metric;

/// A counter. Without labels, adding is one atomic addition.
#[derive(Debug)]
pub struct Counter<const N: usize> {
    labels: &'static [&'static str],
    form: CounterForm,
}

#[derive(Debug)]
enum CounterForm {
    Plain(Arc<Plain>),
    Labelled(opentelemetry::metrics::Counter<u64>),
}

#[derive(Debug, Default)]
struct Plain {
    value: AtomicU64,
    // A counter that was never touched is not exported, like all other metrics.
    touched: AtomicBool,
}

impl<const N: usize> Counter<N> {
    pub(super) fn new(meter: &Meter, metric: &Metric) -> Self {
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
            CounterForm::Labelled(meter.u64_counter(metric.name).with_description(metric.help).build())
        };
        Self { labels: metric.labels, form }
    }

    /// Adds `amount`. The labels are in the order of the table.
    pub fn add(&self, amount: u64, labels: [&'static str; N]) {
        match &self.form {
            CounterForm::Plain(plain) => {
                plain.value.fetch_add(amount, Relaxed);
                plain.touched.store(true, Relaxed);
            }
            CounterForm::Labelled(counter) => counter.add(amount, &pairs(self.labels, labels)),
        }
    }
}

/// A gauge: a value that goes up and down.
#[derive(Debug)]
pub struct Gauge<const N: usize> {
    labels: &'static [&'static str],
    gauge: opentelemetry::metrics::Gauge<u64>,
}

impl<const N: usize> Gauge<N> {
    pub(super) fn new(meter: &Meter, metric: &Metric) -> Self {
        Self { labels: metric.labels, gauge: meter.u64_gauge(metric.name).with_description(metric.help).build() }
    }

    /// Sets the value. The labels are in the order of the table.
    pub fn set(&self, value: u64, labels: [&'static str; N]) {
        self.gauge.record(value, &pairs(self.labels, labels));
    }
}

/// A histogram: the distribution of recorded values.
#[derive(Debug)]
pub struct Histogram<const N: usize> {
    labels: &'static [&'static str],
    histogram: opentelemetry::metrics::Histogram<f64>,
}

impl<const N: usize> Histogram<N> {
    pub(super) fn new(meter: &Meter, metric: &Metric) -> Self {
        let histogram = meter.f64_histogram(metric.name).with_description(metric.help);
        Self { labels: metric.labels, histogram: histogram.with_boundaries(metric.buckets.to_vec()).build() }
    }

    /// Records a value. The labels are in the order of the table.
    pub fn record(&self, value: f64, labels: [&'static str; N]) {
        self.histogram.record(value, &pairs(self.labels, labels));
    }
}

fn pairs<const N: usize>(names: &'static [&'static str], values: [&'static str; N]) -> [KeyValue; N] {
    std::array::from_fn(|index| KeyValue::new(names[index], values[index]))
}
