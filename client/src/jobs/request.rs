//! What to run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use cloakwork_proto::v1::{JobSpec, job_spec};

use crate::{Encrypted, client::request_id, program::ProgramBytes};

/// One input of a program: a ciphertext for each row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A list that travels with the job, or is stored first where it is long.
    Encrypted(Encrypted),
    /// The resource name of a stored list, or of another job's output.
    Name(String),
}

/// A job to be handed in. Handed in twice, it is the same job: it has a request id from the start.
#[derive(Clone, Debug)]
pub struct JobRequest {
    pub(crate) request_id: String,
    pub(crate) spec: JobSpec,
    pub(crate) inputs: Vec<Input>,
    /// Shared by its copies, which are the same job.
    is_handed_in: Arc<AtomicBool>,
}

impl JobRequest {
    /// A job that carries its program, under the key of that resource name.
    pub fn new(program: impl ProgramBytes, key: &str) -> Self {
        Self::with(job_spec::Program::ProgramInline(program.bytes().clone()), key)
    }

    /// A job that names a registered program.
    pub fn named(program: &str, key: &str) -> Self {
        Self::with(job_spec::Program::ProgramName(program.into()), key)
    }

    fn with(program: job_spec::Program, key: &str) -> Self {
        let spec = JobSpec { program: Some(program), key: key.into(), inline_outputs: true, ..Default::default() };
        Self { request_id: request_id(), spec, inputs: Vec::new(), is_handed_in: Arc::default() }
    }

    /// With one more input.
    pub fn input(mut self, input: Input) -> Self {
        self.inputs.push(input);
        self
    }

    /// With one more input, encrypted.
    pub fn encrypted(self, list: Encrypted) -> Self {
        self.input(Input::Encrypted(list))
    }

    /// Priority among the tenant's own jobs, from -10 (last) to 10 (first).
    pub fn priority(mut self, priority: i32) -> Self {
        self.spec.priority = priority;
        self
    }

    /// Time from the server's acceptance in which the job must end.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.spec.time_limit = limit.try_into().ok();
        self
    }

    /// How long to keep outputs that nobody fetches.
    pub fn keep_outputs(mut self, time: Duration) -> Self {
        self.spec.keep_outputs = time.try_into().ok();
        self
    }

    /// Leaves even small outputs on the server, for the next job to name.
    pub fn outputs_by_name(mut self) -> Self {
        self.spec.inline_outputs = false;
        self
    }

    /// The id that makes it the same job however often it is handed in.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// Was it sent to a server? Then the server may have it, and [`Client::submit`](crate::Client::submit) tells its name,
    /// and makes no second job. While its inputs are on their way, and after a refusal, it is not.
    pub fn is_handed_in(&self) -> bool {
        self.is_handed_in.load(Ordering::Relaxed)
    }

    pub(crate) fn set_handed_in(&self, is_handed_in: bool) {
        self.is_handed_in.store(is_handed_in, Ordering::Relaxed);
    }

    pub(crate) fn inline_bytes(&self) -> usize {
        let bytes = |input: &Input| match input {
            Input::Encrypted(list) => list.envelope.len(),
            Input::Name(_) => 0,
        };
        self.inputs.iter().map(bytes).sum()
    }
}
