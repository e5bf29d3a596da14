//! The definition of a job.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use cloakwork_clock::Clock;
use cloakwork_params::SetId;
use cloakwork_proto::v1::{JobSpec, job_spec};

use crate::{Digest, Encrypted, client::request_id, program::AnyProgram, shape::Shape};

/// An input of a program: a ciphertext for each row.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A list that travels with the job, or is stored first if it is long.
    Encrypted(Encrypted),
    /// The resource name of a stored list, or of another job's output. Where the client does not
    /// know the digest of an output, it asks the server for the job that made it.
    Name(String),
    /// A stored list or another job's output whose digest the client knows.
    Known {
        /// The resource name.
        name: String,
        /// The digest of the list.
        digest: Digest,
    },
}

/// A job to submit. Its request id is fixed from the start, so submitting it twice creates one job.
#[derive(Clone, Debug)]
pub struct JobRequest {
    pub(crate) request_id: String,
    pub(crate) spec: JobSpec,
    pub(crate) inputs: Vec<Input>,
    /// BLAKE3 of the program.
    pub(crate) program: [u8; 32],
    pub(crate) set: SetId,
    /// When the request was made, in microseconds of Unix time.
    pub(crate) since_micros: i64,
    /// For each input of the program, the number of ciphertexts of a row.
    input_lengths: Vec<usize>,
    /// For each output of the program, its shape without the number of rows.
    output_shapes: Vec<Shape>,
    /// Number of rows, once an input or the caller has stated it.
    rows: Option<usize>,
    /// Shared by all clones, which are one job.
    is_handed_in: Arc<AtomicBool>,
}

impl JobRequest {
    /// A job that carries its program, under the key with this resource name.
    pub fn new(program: impl AnyProgram, key: &str) -> Self {
        Self::with(job_spec::Program::ProgramInline(program.bytes().clone()), &program, key)
    }

    /// A job that names its program, which is registered under this name.
    pub fn named(name: &str, program: &impl AnyProgram, key: &str) -> Self {
        Self::with(job_spec::Program::ProgramName(name.into()), program, key)
    }

    fn with(named: job_spec::Program, program: &impl AnyProgram, key: &str) -> Self {
        let spec = JobSpec { program: Some(named), key: key.into(), inline_outputs: true, ..Default::default() };
        Self {
            request_id: request_id(),
            spec,
            inputs: Vec::new(),
            program: Digest::of(program.bytes()).blake3,
            set: program.set_id(),
            since_micros: Clock::system().unix_micros(),
            input_lengths: program.input_lengths(),
            output_shapes: program.output_shapes(),
            rows: None,
            is_handed_in: Arc::default(),
        }
    }

    /// Adds an input.
    pub fn input(mut self, input: Input) -> Self {
        let of_row = self.input_lengths.get(self.inputs.len()).copied().unwrap_or(0);
        if let Input::Encrypted(Encrypted { shape: Shape::Blocks(blocks), .. }) = &input {
            let ciphertexts = blocks.rows.map(|rows| rows.saturating_mul(blocks.degrees.len()));
            self.rows = self.rows.or(ciphertexts.and_then(|ciphertexts| ciphertexts.checked_div(of_row)));
        }
        self.inputs.push(input);
        self
    }

    /// States the number of rows, which is otherwise found from the encrypted inputs. The number
    /// of rows of each result is compared with it.
    pub fn rows(mut self, rows: usize) -> Self {
        self.rows = Some(rows);
        self
    }

    /// Adds an encrypted input.
    pub fn encrypted(self, list: Encrypted) -> Self {
        self.input(Input::Encrypted(list))
    }

    /// Priority among the tenant's own jobs, from -10 (last) to 10 (first).
    pub fn priority(mut self, priority: i32) -> Self {
        self.spec.priority = priority;
        self
    }

    /// Time between the server's acceptance and the job's deadline.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.spec.time_limit = limit.try_into().ok();
        self
    }

    /// How long the server keeps outputs that are not fetched.
    pub fn keep_outputs(mut self, time: Duration) -> Self {
        self.spec.keep_outputs = time.try_into().ok();
        self
    }

    /// Leaves even small outputs on the server, so that the next job can name them.
    pub fn outputs_by_name(mut self) -> Self {
        self.spec.inline_outputs = false;
        self
    }

    /// The idempotency key: repeated submissions with this id return one job.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// Whether the request was sent to a server, which may then have the job. In this case
    /// [`Client::submit`](crate::Client::submit) returns the job's name and creates no second job.
    /// This is false while inputs are being stored, and after a refusal.
    pub fn is_handed_in(&self) -> bool {
        self.is_handed_in.load(Ordering::Relaxed)
    }

    /// The shape that each output of the job must have.
    pub fn output_shapes(&self) -> Vec<Shape> {
        self.output_shapes.iter().map(|shape| shape.clone().of_rows(self.rows)).collect()
    }

    /// Number of rows, if an input or the caller has stated it.
    pub(crate) fn known_rows(&self) -> Option<u64> {
        self.rows.map(|rows| rows as u64)
    }

    pub(crate) fn set_handed_in(&self, is_handed_in: bool) {
        self.is_handed_in.store(is_handed_in, Ordering::Relaxed);
    }

    pub(crate) fn inline_bytes(&self) -> usize {
        let bytes = |input: &Input| match input {
            Input::Encrypted(list) => list.envelope.len(),
            Input::Name(_) | Input::Known { .. } => 0,
        };
        self.inputs.iter().map(bytes).sum()
    }
}
