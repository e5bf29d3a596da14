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
mod failure;
mod group;
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

use self::agent::Agent;
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

/// As [`run`], on a device of the caller's choice. The device proves itself first.
///
/// The worker ends when the device is lost, or when a thread panics that all jobs need. It hands in no failures then: the
/// server sees the worker go, and gives its jobs to others under suspicion, so that a job that kills workers is found.
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
    let agent = Arc::new(Agent::new(options, device, uplink)?);
    let result = tokio::select! {
        result = agent.run(shutdown) => result,
        problem = broken(&agent) => {
            // Dropping the agent would wait for threads that may wait for a lost device for ever. The process is about to end.
            std::mem::forget(agent);
            return Err(problem);
        }
    };
    // The last owner waits for the threads of the engine and the device.
    let _ = tokio::task::spawn_blocking(move || drop(agent)).await;
    result
}

/// How often a worker looks whether its device and its threads are still there.
const BROKEN_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Returns when the worker can compute no more, and says why.
async fn broken(agent: &Agent) -> WorkerError {
    loop {
        if let Some(problem) = agent.broken() {
            return problem;
        }
        tokio::time::sleep(BROKEN_CHECK_INTERVAL).await;
    }
}
