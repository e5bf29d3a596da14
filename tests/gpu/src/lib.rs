//! What a device computes, how often it is wrong, and how fast it comes. For GPUs, but any device will do.
//!
//! Every wave that is timed is also decrypted, with keys that every run makes alike: a fast wrong answer is none.

#![forbid(unsafe_code)]

mod bench;
mod report;

pub use bench::{Plan, bench};
pub use report::{Report, SetReport, WidthReport};
