//! Options of a worker.

use std::{sync::Arc, time::Duration};

use cloakwork_attestation::WorkerKey;
use cloakwork_clock::Clock;
use cloakwork_proto::{is_deceptive, printable};
use cloakwork_trace::Tracer;

use crate::{WorkerError, metrics::Metrics};

/// Options of a worker. [`Options::default`] suits a machine that does nothing else.
#[derive(Clone)]
pub struct Options {
    /// Key that the worker signs its results with; drawn by the worker if absent. The id of the
    /// worker follows from the key, so two processes must not have equal keys.
    pub key: Option<Arc<WorkerKey>>,
    /// Human-readable name.
    pub name: String,
    /// Pool that the worker belongs to.
    pub pool: String,
    /// Token that the worker sends to the server.
    pub token: Option<String>,
    /// URL of the store of blobs, if the worker reads large blobs there. Without it, the server
    /// sends all blobs.
    pub blob_store: Option<String>,
    /// Number of compute threads.
    pub threads: usize,
    /// Whether each compute thread is pinned to a processor of its own.
    pub pin_threads: bool,
    /// Memory for expanded keys, in bytes.
    pub key_memory: u64,
    /// Memory for ciphertexts in computation, in bytes.
    pub arena_memory: u64,
    /// Memory for jobs on vectors, in bytes: their keys, the matrices of bootstraps, and the values
    /// in computation. With 0, the worker takes no such jobs.
    pub vector_memory: u64,
    /// Memory for inputs and outputs of jobs, in bytes. A quarter is kept for jobs that need at
    /// most a 64th of it. The other jobs share the rest, and a job that needs more than the rest is
    /// refused.
    pub job_memory: u64,
    /// Maximum number of jobs that the worker holds.
    pub jobs_max: usize,
    /// Time for which jobs may go on after the worker is asked to stop, before they are handed
    /// back.
    pub grace: Duration,
    /// Source of the time at which the worker signs its results.
    pub clock: Clock,
    /// Where the worker records its metrics, if anyone exports them.
    pub metrics: Option<Arc<Metrics>>,
    /// Where the worker records the spans of traced jobs.
    pub tracer: Tracer,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            key: None,
            name: "worker".to_owned(),
            pool: "cpu".to_owned(),
            token: None,
            blob_store: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            pin_threads: false,
            key_memory: 4 << 30,
            arena_memory: 1 << 30,
            vector_memory: 8 << 30,
            job_memory: 2 << 30,
            jobs_max: 4096,
            grace: Duration::from_secs(30),
            clock: Clock::system(),
            metrics: None,
            tracer: Tracer::off(),
        }
    }
}

impl Options {
    /// Refuses invalid values.
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
        // The token is secret and left out.
        let Self {
            key,
            name,
            pool,
            token: _,
            blob_store,
            threads,
            pin_threads,
            key_memory,
            arena_memory,
            vector_memory,
            job_memory,
            jobs_max,
            grace,
            clock: _,
            metrics: _,
            tracer: _,
        } = self;
        out.debug_struct("Options")
            .field("key", key)
            .field("name", name)
            .field("pool", pool)
            .field("blob_store", blob_store)
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
