//! Jobs, which run programs on ciphertexts.

mod request;
mod watch;

use std::time::{Duration, Instant};

use cloakwork_proto::v1::{
    CancelJobRequest, GetJobRequest, Job, JobInput, JobOutput, JobSpec, JobState, ListJobsRequest, RunJobRequest,
    SubmitJobRequest, job_input,
};
use futures_util::Stream;

pub use request::{Input, JobRequest};

use crate::{Client, ClientError, Result, Shape, add_transit, has_ended, names, pages, retry::retry};

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
        let spec = self.spec(request).await?;
        request.set_handed_in(true);
        self.submit_spec(&request.request_id, spec).await
    }

    /// Submits a job and waits for its end. A job that has failed or was cancelled is an error.
    ///
    /// If the connection breaks, the job continues, and the client finds it again by its request
    /// id.
    pub async fn run(&self, request: &JobRequest) -> Result<Finished> {
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
        finished(job, started.elapsed(), request)
    }

    /// The current state of a job.
    pub async fn job(&self, name: &str) -> Result<Job> {
        let request = GetJobRequest { name: name.into() };
        let send = |client: Self, request| async move { client.jobs_stub().get_job(request).await };
        names::job(self.call(request, send).await?.job)
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
        names::job(self.call(request, send).await?.job)
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
                Input::Name(name) => job_input::Source::Name(name.clone()),
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

fn finished(mut job: Job, wall: Duration, request: &JobRequest) -> Result<Finished> {
    if let Some(record) = &mut job.latency {
        add_transit(record, wall);
    }
    if job.state() == JobState::Succeeded {
        return Ok(Finished { job, wall, output_shapes: request.output_shapes() });
    }
    let state = if job.state() == JobState::Cancelled { "was cancelled" } else { "has failed" };
    let error = job.error.unwrap_or_default();
    Err(ClientError::JobFailed { name: job.name, state: state.into(), reason: error.reason, message: error.message })
}
