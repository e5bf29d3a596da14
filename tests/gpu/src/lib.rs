//! What a device computes, how often it is wrong, and how fast it comes. For GPUs, but any device will do.
//!
//! Every wave and every job that is timed is also decrypted, with keys that every run makes alike: a fast wrong answer is
//! none.

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
