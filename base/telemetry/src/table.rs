//! Rows of tables of metrics, and the macro that makes handles from them.

use std::{collections::HashSet, fmt::Write as _};

/// A row of a table.
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

/// Bucket bounds from a single bootstrap to a long job.
pub const JOB_SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0];

/// Bucket bounds from a lookup in memory to a slow call.
pub const CALL_SECONDS: &[f64] = &[
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0,
];

/// Bucket bounds of numbers of bootstraps in a wave.
pub const WIDTHS: &[f64] =
    &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 16_384.0, 65_536.0];

/// Bucket bounds of shares of a whole.
pub const RATIOS: &[f64] = &[0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0];

/// Bucket bounds of small counts.
pub const COUNTS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0];

/// Declares a table of metrics as the constant `METRICS`, and the type `Metrics` with a handle for
/// each row.
///
/// A row is `field: Kind [labels] "name" "unit" "help", buckets;`. Names get the prefix
/// `cloakwork_`. Only histograms have buckets.
#[macro_export]
macro_rules! metrics {
    ($($field:ident: $kind:ident [$($label:literal),*] $name:literal $unit:literal $help:literal $(, $buckets:expr)?;)*) => {
        /// A handle for each row of the table.
        #[derive(Debug)]
        pub struct Metrics {
            $(#[doc = $help] pub $field: $crate::$kind<{ $crate::count(&[$($label),*]) }>,)*
        }

        impl Metrics {
            /// Creates the handles. Their values are exported through `registry`.
            pub fn new(registry: &$crate::Registry) -> Self {
                let mut rows = METRICS.iter();
                // Fields and rows are expanded from the same list, so they are in the same order.
                $(let $field = $crate::$kind::new(registry, rows.next().expect("a row for each field"));)*
                Self { $($field),* }
            }
        }

        /// Every metric, in the order of the documentation.
        pub const METRICS: &[$crate::Metric] = &[$(
            $crate::Metric {
                name: concat!("cloakwork_", $name),
                kind: $crate::Kind::$kind,
                unit: $unit,
                help: $help,
                labels: &[$($label),*],
                buckets: $crate::metrics!(@buckets $($buckets)?),
            },
        )*];
    };
    (@buckets) => { &[] };
    (@buckets $buckets:expr) => { $buckets };
}

/// The number of labels of a row. [`metrics!`] needs it in a type.
#[doc(hidden)]
pub const fn count(labels: &[&str]) -> usize {
    labels.len()
}

/// The rows of a table in Markdown, under the columns metric, kind, unit, labels and meaning.
pub fn rows(metrics: &[Metric]) -> String {
    let mut text = String::from("| metric | kind | unit | labels | meaning |\n|---|---|---|---|---|\n");
    for Metric { name, kind, unit, help, labels, .. } in metrics {
        let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        let kind = format!("{kind:?}").to_lowercase();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| `{name}` | {kind} | {unit} | {labels} | {help} |");
    }
    text
}

/// Returns the declared metrics that have no value in a scrape.
pub fn never_recorded(metrics: &[Metric], scrape: &str) -> Vec<&'static str> {
    let samples: HashSet<&str> = scrape
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(['{', ' ']).next().unwrap_or(line))
        .map(|name| name.strip_suffix("_count").unwrap_or(name))
        .collect();
    metrics.iter().map(|metric| metric.name).filter(|name| !samples.contains(name)).collect()
}
