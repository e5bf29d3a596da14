//! Why a worker cannot work at all. What goes wrong with a job goes to the server instead.

use std::time::Duration;

use cloakwork_device::DeviceError;

/// Why a worker ended other than by being asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The device failed its self-test, or could not be opened.
    #[error("the device cannot be used: {0}")]
    Device(#[from] DeviceError),
    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Thread(#[from] std::io::Error),
    /// An option that makes no sense.
    #[error("option {option}: {problem}")]
    Option {
        /// Which one.
        option: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// The server refuses this worker; trying again would not help.
    #[error("the server refuses this worker: {message}")]
    Refused {
        /// What the server said.
        message: String,
    },
    /// One of the threads that every job needs has ended.
    #[error("{thread} panicked: {message}")]
    Panicked {
        /// What the thread did.
        thread: &'static str,
        /// The message of the panic.
        message: String,
    },
    /// Jobs were still running when the grace time for a shutdown had passed. They were handed back.
    #[error("{jobs} jobs were handed back: they did not end within {} s", .grace.as_secs_f32())]
    HandedBack {
        /// Number of jobs.
        jobs: usize,
        /// The grace time.
        grace: Duration,
    },
}
