//! What every device must do, as functions of a device; and a server in memory for the worker around one.

#![forbid(unsafe_code)]

pub mod conformance;
pub mod flaky;
pub mod host;
pub mod jobs;
pub mod server;
