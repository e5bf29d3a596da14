//! The worker: takes leased jobs from a server, computes them in waves on a device, and hands the results in.
//!
//! [`run`] is all of it, on an uplink to the server: the binary's is a connection, an embedded worker's the server itself.
//! Inside, `agent` speaks the protocol, `key_cache` keeps evaluation keys on the device, `engine` gathers waves, and
//! [`CpuDevice`] computes them. Jobs on vectors of approximate numbers go another way: `vectors` has their keys and computes
//! them.

#![forbid(unsafe_code)]

mod agent;
mod backoff;
mod blob;
pub mod cli;
mod connection;
mod cpu;
mod engine;
mod error;
mod inputs;
mod key_cache;
mod latency;
mod locked;
mod options;
mod outputs;
mod programs;
mod pulse;
#[cfg(test)]
mod test_device;
mod vectors;

use std::sync::Arc;

use cloakwork_device::{Device, DeviceError, self_test};
pub use tokio_util::sync::CancellationToken;

pub use self::{connection::Uplink, cpu::CpuDevice, error::WorkerError, options::Options};

/// Runs a worker on the CPU until `shutdown`, or until the server refuses it for good.
pub async fn run(options: Options, uplink: Uplink, shutdown: CancellationToken) -> Result<(), WorkerError> {
    options.check()?;
    let device = if options.pin_threads {
        let problem = |error: std::io::Error| WorkerError::Option { option: "pin_threads", problem: error.to_string() };
        CpuDevice::pinned(options.threads).map_err(problem)?
    } else {
        CpuDevice::new(options.threads)?
    };
    let device = Arc::new(device);
    run_on(device, options, uplink, shutdown).await
}

/// As [`run`], on a device of the caller's choice. The device proves itself first.
pub async fn run_on(
    device: Arc<dyn Device>,
    options: Options,
    uplink: Uplink,
    shutdown: CancellationToken,
) -> Result<(), WorkerError> {
    options.check()?;
    let tested = device.clone();
    let test = tokio::task::spawn_blocking(move || self_test(tested.as_ref())).await;
    test.map_err(|error| DeviceError::Lost { message: error.to_string() })??;
    let agent = Arc::new(agent::Agent::new(options, device, uplink)?);
    let result = agent.run(shutdown).await;
    // The last owner waits for the threads of the engine and the device.
    let _ = tokio::task::spawn_blocking(move || drop(agent)).await;
    result
}
