//! How a worker shall run.

use std::time::Duration;

use cloakwork_proto::{is_deceptive, printable};

use crate::WorkerError;

/// How a worker shall run. [`Options::default`] suits a machine that does nothing else.
#[derive(Clone)]
pub struct Options {
    /// Number of the worker process; a random one where absent. No two processes may have the same.
    pub id: Option<u128>,
    /// Name for people.
    pub name: String,
    /// Pool that the worker belongs to.
    pub pool: String,
    /// Token to show to the server.
    pub token: Option<String>,
    /// Compute threads.
    pub threads: usize,
    /// Keep each of them on a processor of its own.
    pub pin_threads: bool,
    /// Memory for expanded keys, in bytes.
    pub key_memory: u64,
    /// Memory for ciphertexts under way, in bytes.
    pub arena_memory: u64,
    /// Memory for jobs on vectors, in bytes: their keys, the matrices of bootstraps, and what is computed on. None, and the
    /// worker takes no such jobs.
    pub vector_memory: u64,
    /// Memory for inputs and outputs of jobs, in bytes. A quarter is kept for jobs that need at most a 64th of it; one
    /// that needs more than the rest has the rest to itself.
    pub job_memory: u64,
    /// Jobs that the worker holds at most.
    pub jobs_max: usize,
    /// How long jobs may go on when the worker is asked to stop, before they are handed back.
    pub grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            id: None,
            name: "worker".to_owned(),
            pool: "cpu".to_owned(),
            token: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            pin_threads: false,
            key_memory: 4 << 30,
            arena_memory: 1 << 30,
            vector_memory: 8 << 30,
            job_memory: 2 << 30,
            jobs_max: 4096,
            grace: Duration::from_secs(30),
        }
    }
}

impl Options {
    /// Refuses what could not work.
    pub(crate) fn check(&self) -> Result<(), WorkerError> {
        let zero = |option, value: u64| match value {
            0 => Err(WorkerError::Option { option, problem: "it must be at least 1".to_owned() }),
            _ => Ok(()),
        };
        // The server refuses such names as well.
        for (option, name) in [("name", &self.name), ("pool", &self.pool)] {
            if name.contains(is_deceptive) {
                let problem = format!("'{}' has control or invisible characters", printable(name));
                return Err(WorkerError::Option { option, problem });
            }
        }
        zero("threads", self.threads as u64)?;
        zero("key_memory", self.key_memory)?;
        zero("arena_memory", self.arena_memory)?;
        zero("job_memory", self.job_memory)?;
        zero("jobs_max", self.jobs_max as u64)
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the token.
        let Self {
            id,
            name,
            pool,
            token: _,
            threads,
            pin_threads,
            key_memory,
            arena_memory,
            vector_memory,
            job_memory,
            jobs_max,
            grace,
        } = self;
        out.debug_struct("Options")
            .field("id", id)
            .field("name", name)
            .field("pool", pool)
            .field("threads", threads)
            .field("pin_threads", pin_threads)
            .field("key_memory", key_memory)
            .field("arena_memory", arena_memory)
            .field("vector_memory", vector_memory)
            .field("job_memory", job_memory)
            .field("jobs_max", jobs_max)
            .field("grace", grace)
            .finish_non_exhaustive()
    }
}
