//! The worker: takes leased jobs from a server, computes them in waves on a device, and hands the results in.
//!
//! [`run`] is all of it, on an uplink to the server: the binary's is a connection, an embedded worker's the server itself.
//! Inside, `agent` speaks the protocol, `key_cache` keeps evaluation keys on the device, `engine` gathers waves, and
//! [`CpuDevice`] computes them, or the GPUs that `devices` finds. Jobs on vectors of approximate numbers go another way: `vectors` has their keys and computes
//! them.

#![forbid(unsafe_code)]

mod agent;
mod backoff;
mod blob;
pub mod cli;
mod connection;
mod cpu;
mod devices;
mod engine;
mod error;
mod inputs;
mod key_cache;
mod latency;
mod locked;
pub mod logging;
mod metrics;
mod options;
mod outputs;
mod programs;
mod pulse;
mod secret_file;
#[cfg(test)]
mod test_device;
mod vectors;

use std::{sync::Arc, time::Duration};

use cloakwork_device::{Device, DeviceError, self_test};
pub use tokio_util::sync::CancellationToken;

pub use self::{
    connection::Uplink, cpu::CpuDevice, devices::Devices, error::WorkerError, options::Options,
    secret_file::warn_if_exposed,
};

/// Runs a worker on the CPU until `shutdown`, or until the server refuses it for good.
pub async fn run(options: Options, uplink: Uplink, shutdown: CancellationToken) -> Result<(), WorkerError> {
    options.check()?;
    let device = devices::open_cpu(options.threads, options.pin_threads)?;
    run_on(device, options, uplink, shutdown).await
}

/// As [`run`], on a device of the caller's choice. The device proves itself first. When it is lost, so is the worker.
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
    let agent = Arc::new(agent::Agent::new(options, device.clone(), uplink)?);
    let result = tokio::select! {
        result = agent.run(shutdown) => result,
        problem = lost(device.as_ref()) => {
            // Whoever asked something of the device may wait for ever: nobody waits for him. The process is about to end.
            std::mem::forget(agent);
            return Err(problem.into());
        }
    };
    // The last owner waits for the threads of the engine and the device.
    let _ = tokio::task::spawn_blocking(move || drop(agent)).await;
    result
}

/// How often a device is asked whether it is still there.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Ends when the device is lost.
async fn lost(device: &dyn Device) -> DeviceError {
    loop {
        if let Some(message) = device.lost() {
            return DeviceError::Lost { message };
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
