//! Correctness, error rate and speed of a device. Made for GPUs, but any device works.
//!
//! The results of every timed wave and job are also decrypted, because a wrong answer has no speed.
//! Every run generates the same keys.

#![forbid(unsafe_code)]

mod bench;
mod cases;
mod meter;
mod plan;
mod programs;
mod report;

pub use bench::bench;
pub use meter::Meter;
pub use plan::{CHECKED, LIMIT, Plan, WIDTH_SECONDS, WIDTHS};
pub use report::{ProgramReport, Report, SetReport, WidthReport};
