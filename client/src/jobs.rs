//! Jobs, which run programs on ciphertexts.

mod request;
mod watch;

use std::time::{Duration, Instant};

use cloakwork_attestation::digest_of_list;
use cloakwork_proto::{
    from_hex,
    v1::{
        CancelJobRequest, GetJobRequest, Job, JobInput, JobOutput, JobSpec, JobState, ListJobsRequest, RunJobRequest,
        SubmitJobRequest, job_input,
    },
};
use futures_util::Stream;

pub use request::{Input, JobRequest};

use crate::{
    Asked, Client, ClientError, Digest, Result, Shape, add_transit, has_ended, names, pages, response::required,
    retry::retry,
};

/// A job that has succeeded.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The job, with the `transit` of its latency record filled in.
    pub job: Job,
    /// The client's wall time, from the request to the response.
    pub wall: Duration,
    /// Shape of each output, by the job's program.
    pub output_shapes: Vec<Shape>,
}

/// An output of a job, which [`Client::output`](crate::Client::output) fetches.
#[derive(Clone, Debug)]
pub struct Output {
    /// The server's description.
    pub message: JobOutput,
    /// Shape of the output, by the job's program.
    pub shape: Shape,
}

impl Finished {
    /// Output number `index`.
    pub fn output(&self, index: usize) -> Result<Output> {
        Output::of(&self.job, &self.output_shapes, index)
    }
}

impl Output {
    /// The output as an input of another job.
    pub fn input(&self) -> Result<Input> {
        Ok(Input::Known { name: self.message.name.clone(), digest: self.digest()? })
    }

    /// The output's digest.
    pub fn digest(&self) -> Result<Digest> {
        Digest::from_message(required(self.message.digest.as_ref(), "digest of an output")?)
    }

    fn of(job: &Job, shapes: &[Shape], index: usize) -> Result<Self> {
        let Some((message, shape)) = job.outputs.get(index).zip(shapes.get(index)) else {
            let problem = format!("{} has {} outputs and no number {index}", job.name, job.outputs.len());
            return Err(ClientError::malformed(problem));
        };
        Ok(Self { message: message.clone(), shape: shape.clone() })
    }
}

impl Client {
    /// Submits a job. Once this call returns, the job ends in exactly one way.
    pub async fn submit(&self, request: &JobRequest) -> Result<Job> {
        // A client that could not verify the result submits nothing.
        self.check_can_verify().await?;
        let spec = self.spec(request).await?;
        request.set_handed_in(true);
        self.submit_spec(&request.request_id, spec).await
    }

    /// Submits a job and waits for its end. A job that has failed or was cancelled is an error.
    ///
    /// If the connection breaks, the job continues, and the client finds it again by its request
    /// id. A result of another origin than [`Trust`](crate::Trust) names is an error.
    pub async fn run(&self, request: &JobRequest) -> Result<Finished> {
        self.check_can_verify().await?;
        // Before the job, because an input may be gone when the job has ended.
        let asked = self.asked_if_verified(request).await?;
        let spec = self.spec(request).await?;
        let started = Instant::now();
        let message = RunJobRequest { request_id: request.request_id.clone(), spec: Some(spec.clone()) };
        // Retry after overload. After a broken connection the job may be running, so submit it
        // again with its request id and watch it instead.
        let outcome = retry(self.policy(), || async {
            request.set_handed_in(true);
            match self.jobs_stub().run_job(message.clone()).await.map_err(ClientError::from) {
                Err(error) if error.is_break() => Ok(None),
                Err(error) => {
                    // The server has refused the job, so it does not have it.
                    request.set_handed_in(false);
                    Err(error)
                }
                answer => names::job(answer?.into_inner().job).map(Some),
            }
        });
        let job = match outcome.await? {
            Some(job) => job,
            None => self.submit_spec(&request.request_id, spec).await?,
        };
        let job = if has_ended(&job) { job } else { self.wait(&job.name).await? };
        self.ended(job, started.elapsed(), request, asked).await
    }

    /// The results of a request's job that has succeeded, for callers that have not waited in
    /// [`Self::run`]. `wall` is the time since the request. A job that has failed or was cancelled
    /// is an error, and so is a result of another origin.
    pub async fn finish(&self, job: Job, wall: Duration, request: &JobRequest) -> Result<Finished> {
        let asked = self.asked_if_verified(request).await?;
        self.ended(job, wall, request, asked).await
    }

    /// The facts of a request, unless the client takes all results. The inner failure counts only
    /// if the job succeeds, because the server explains a wrong input better.
    async fn asked_if_verified(&self, request: &JobRequest) -> Result<Option<Result<Asked>>> {
        match self.verifier().await? {
            Some(_) => Ok(Some(self.asked(request).await)),
            None => Ok(None),
        }
    }

    async fn ended(
        &self,
        mut job: Job,
        wall: Duration,
        request: &JobRequest,
        asked: Option<Result<Asked>>,
    ) -> Result<Finished> {
        if let Some(record) = &mut job.latency {
            add_transit(record, wall);
        }
        if job.state() == JobState::Succeeded {
            if let Some(asked) = asked {
                self.verify(&job, Some(&asked?)).await?;
            }
            return Ok(Finished { job, wall, output_shapes: request.output_shapes() });
        }
        let state = match job.state() {
            JobState::Cancelled => "was cancelled",
            JobState::Failed => "has failed",
            _ => return Err(ClientError::malformed(format!("{} has not ended", job.name))),
        };
        let error = job.error.unwrap_or_default();
        Err(ClientError::JobFailed {
            name: job.name,
            state: state.into(),
            reason: error.reason,
            message: error.message,
        })
    }

    /// The facts of a request, with which [`Self::verify`] compares its job.
    pub async fn asked(&self, request: &JobRequest) -> Result<Asked> {
        let mut inputs = Vec::with_capacity(request.inputs.len());
        for input in &request.inputs {
            inputs.push(match input {
                Input::Encrypted(list) => list.digest().blake3,
                Input::Known { digest, .. } => digest.blake3,
                Input::Name(name) => self.list_digest(name, None).await?.blake3,
            });
        }
        let wrong = |what: &str| ClientError::malformed(format!("the request's {what}"));
        let id = uuid::Uuid::parse_str(&request.request_id).map_err(|_| wrong("id is no UUID"))?;
        let key =
            request.spec.key.rsplit('/').next().and_then(from_hex).ok_or_else(|| wrong("key has no name of a key"))?;
        Ok(Asked {
            request: id.into_bytes(),
            program: request.program,
            key,
            set: request.set.0,
            rows: request.known_rows(),
            inputs: digest_of_list(&inputs),
            since_micros: request.since_micros,
        })
    }

    /// The current state of a job.
    pub async fn job(&self, name: &str) -> Result<Job> {
        let request = GetJobRequest { name: name.into() };
        let send = |client: Self, request| async move { client.jobs_stub().get_job(request).await };
        names::job_of_name(self.call(request, send).await?.job, name)
    }

    /// The tenant's jobs in the given states (all states if empty), newest first. Further pages are
    /// fetched as the stream is read.
    pub fn jobs(&self, states: &[JobState]) -> impl Stream<Item = Result<Job>> + Send + Unpin + use<> {
        let (client, states) = (self.clone(), states.iter().map(|&state| state.into()).collect::<Vec<i32>>());
        pages::stream(move |page_token| {
            let (client, states) = (client.clone(), states.clone());
            async move {
                let request = ListJobsRequest { page_size: 0, page_token, states };
                let send = |client: Self, request| async move { client.jobs_stub().list_jobs(request).await };
                let answer = client.call(request, send).await?;
                let jobs = answer.jobs.into_iter().map(|job| names::job(Some(job)));
                Ok((jobs.collect::<Result<_>>()?, answer.next_page_token))
            }
        })
    }

    /// Cancels a job that has not ended.
    pub async fn cancel(&self, name: &str) -> Result<Job> {
        let request = CancelJobRequest { name: name.into() };
        let send = |client: Self, request| async move { client.jobs_stub().cancel_job(request).await };
        names::job_of_name(self.call(request, send).await?.job, name)
    }

    async fn submit_spec(&self, request_id: &str, spec: JobSpec) -> Result<Job> {
        let request = SubmitJobRequest { request_id: request_id.into(), spec: Some(spec) };
        let send = |client: Self, request| async move { client.jobs_stub().submit_job(request).await };
        names::job(self.call(request, send).await?.job)
    }

    /// The request as a message. Short inputs are inline; long inputs are stored first.
    async fn spec(&self, request: &JobRequest) -> Result<JobSpec> {
        let mut spec = request.spec.clone();
        let inline = request.inline_bytes() <= INLINE_BYTES_MAX;
        for input in &request.inputs {
            let source = match input {
                Input::Name(name) | Input::Known { name, .. } => job_input::Source::Name(name.clone()),
                Input::Encrypted(list) if inline => job_input::Source::Inline(list.envelope.clone()),
                Input::Encrypted(list) => job_input::Source::Name(self.store(list).await?),
            };
            spec.inputs.push(JobInput { source: Some(source) });
        }
        Ok(spec)
    }
}

/// Largest total size of inputs that travel inside a request.
const INLINE_BYTES_MAX: usize = 1 << 20;
