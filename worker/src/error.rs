//! Errors that stop a worker. A failure of a job goes to the server instead.

use std::time::Duration;

use cloakwork_device::DeviceError;

/// Why a worker ended without being asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The device failed its self-test, or could not be opened.
    #[error("the device cannot be used: {0}")]
    Device(#[from] DeviceError),
    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Thread(#[from] std::io::Error),
    /// An option has an invalid value.
    #[error("option {option}: {problem}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// Problem with the value, and a valid alternative.
        problem: String,
    },
    /// The server refuses this worker permanently, so that a retry would not help.
    #[error("the server refuses this worker: {message}")]
    Refused {
        /// Message from the server.
        message: String,
    },
    /// A thread that every job needs has ended.
    #[error("{thread} panicked: {message}")]
    Panicked {
        /// Role of the thread.
        thread: &'static str,
        /// Message of the panic.
        message: String,
    },
    /// Jobs were still running when the grace time of a shutdown had passed, and were handed back.
    #[error("{jobs} jobs were handed back: they did not end within {} s", .grace.as_secs_f32())]
    HandedBack {
        /// Number of jobs.
        jobs: usize,
        /// The grace time.
        grace: Duration,
    },
}
