//! The worker: takes leased jobs from a server, computes them in waves on a device, and commits the
//! results.
//!
//! [`run`] is the whole worker on an uplink to the server. The binary's uplink is a connection; an
//! embedded worker's uplink is the server itself. Inside, `agent` speaks the protocol, `key_cache`
//! keeps evaluation keys on the device, and `engine` gathers waves. The waves run on a
//! [`CpuDevice`], or on the GPUs that `devices` finds. Jobs on vectors of approximate numbers have
//! an engine of their own: `vectors` loads their keys and hands them to the device, or to the
//! machine's processors.

#![forbid(unsafe_code)]

mod agent;
mod attestor;
mod blob;
pub mod cli;
mod connection;
mod cpu;
mod devices;
mod direct;
mod engine;
mod error;
mod executable;
mod failure;
mod group;
mod inputs;
mod job_trace;
mod key_cache;
mod latency;
mod locked;
pub mod logging;
pub mod metrics;
mod observer;
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

/// Runs a worker on the CPU until `shutdown`, or until the server refuses the worker permanently.
pub async fn run(options: Options, uplink: Uplink, shutdown: CancellationToken) -> Result<(), WorkerError> {
    options.check()?;
    let device = devices::open_cpu(options.threads, options.pin_threads)?;
    run_on(device, options, uplink, shutdown).await
}

/// Runs a worker like [`run`], on a device of the caller's choice. The device must pass its
/// self-test first.
///
/// The worker ends when the device is lost, or when a thread panics that all jobs need. The worker
/// then commits no failures. The server notices that the worker is gone and gives its jobs to other
/// workers, marked as suspects. In this way a job that kills workers is found.
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
            // Dropping the agent joins threads that may block forever on a lost device. The process
            // is about to end, so the agent is leaked.
            std::mem::forget(agent);
            return Err(problem);
        }
    };
    // Dropping the last reference joins the threads of the engine and the device.
    let _ = tokio::task::spawn_blocking(move || drop(agent)).await;
    result
}

/// Interval between checks that the device and the worker's threads are alive.
const BROKEN_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Returns the reason when the worker can compute no more.
async fn broken(agent: &Agent) -> WorkerError {
    loop {
        if let Some(problem) = agent.broken() {
            return problem;
        }
        tokio::time::sleep(BROKEN_CHECK_INTERVAL).await;
    }
}
