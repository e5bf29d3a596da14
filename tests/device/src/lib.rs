//! The conformance suite for devices, as functions of a device, and an in-memory server for worker
//! tests.

#![forbid(unsafe_code)]

pub mod conformance;
pub mod flaky;
pub mod host;
pub mod jobs;
pub mod server;
