//! Metrics of servers and workers, and the export of metrics and traces.
//!
//! A table declares each metric once. Values are recorded only through the handles that
//! [`metrics!`] creates from the table, or read at each export ([`Registry::observe`]).
//!
//! The values of labels are fixed text, names of this machine's devices, or names from [`Names`],
//! which is limited. Input therefore cannot create any number of time series.

#![forbid(unsafe_code)]

mod exemplars;
mod handles;
mod names;
mod observe;
mod otlp;
mod registry;
mod table;
mod text;

#[doc(hidden)]
pub use handles::mute;
pub use handles::{Counter, Gauge, Histogram};
pub use names::{Names, OTHER};
pub use otlp::{Collector, Export, OtlpError, Protocol, Service, SpanCounts};
pub use registry::Registry;
#[doc(hidden)]
pub use table::count;
pub use table::{CALL_SECONDS, COUNTS, JOB_SECONDS, Kind, Metric, RATIOS, WIDTHS, never_recorded, rows};
pub use text::Format;
