//! A job service that follows a script.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use cloakwork_client::proto as v1;
use tonic::{Request, Response, Status};
use v1::{Job, JobState, job_service_server::JobService};

type Answer<T> = Result<Response<T>, Status>;

/// The script, which clones share.
#[derive(Clone, Default)]
pub struct Jobs(pub Arc<Mutex<Script>>);

#[derive(Default)]
pub struct Script {
    /// Responses of RunJob.
    pub runs: VecDeque<Result<Job, Status>>,
    /// Responses of each WatchJob stream. An error breaks the stream, and so does the end of the
    /// responses.
    pub watches: VecDeque<Vec<Result<Job, Status>>>,
    /// Response of GetJob, whatever the name.
    pub answer: Option<Job>,
    /// Jobs to list, in pages of two.
    pub jobs: Vec<Job>,
    /// Request ids of RunJob and SubmitJob, in order.
    pub request_ids: Vec<String>,
    /// Specs of these calls.
    pub specs: Vec<v1::JobSpec>,
    /// States in requests of ListJobs.
    pub states: Vec<i32>,
}

pub fn job(state: JobState) -> Job {
    let latency = Some(v1::LatencyRecord { wall_nanos: 1000, queue_nanos: 1000, ..Default::default() });
    Job { name: "tenants/t/jobs/1".into(), state: state.into(), latency, ..Default::default() }
}

impl Jobs {
    pub fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }
}

#[tonic::async_trait]
impl JobService for Jobs {
    async fn submit_job(&self, request: Request<v1::SubmitJobRequest>) -> Answer<v1::SubmitJobResponse> {
        let request = request.into_inner();
        let mut script = self.script();
        script.request_ids.push(request.request_id);
        script.specs.extend(request.spec);
        Ok(Response::new(v1::SubmitJobResponse { job: Some(job(JobState::Queued)) }))
    }

    async fn get_job(&self, request: Request<v1::GetJobRequest>) -> Answer<v1::GetJobResponse> {
        let name = request.into_inner().name;
        let script = self.script();
        let found = script.answer.as_ref().or_else(|| script.jobs.iter().find(|job| job.name == name)).cloned();
        let job = Some(found.ok_or_else(|| Status::not_found("no such job"))?);
        Ok(Response::new(v1::GetJobResponse { job }))
    }

    async fn list_jobs(&self, request: Request<v1::ListJobsRequest>) -> Answer<v1::ListJobsResponse> {
        let request = request.into_inner();
        let mut script = self.script();
        script.states = request.states;
        let start = request.page_token.parse().unwrap_or(0);
        let page: Vec<Job> = script.jobs.iter().skip(start).take(2).cloned().collect();
        let next = start + page.len();
        let next_page_token = if next < script.jobs.len() { next.to_string() } else { String::new() };
        Ok(Response::new(v1::ListJobsResponse { jobs: page, next_page_token }))
    }

    async fn cancel_job(&self, _: Request<v1::CancelJobRequest>) -> Answer<v1::CancelJobResponse> {
        Ok(Response::new(v1::CancelJobResponse { job: Some(job(JobState::Cancelled)) }))
    }

    type WatchJobStream = tokio_stream::Iter<std::vec::IntoIter<Result<v1::WatchJobResponse, Status>>>;

    async fn watch_job(&self, _: Request<v1::WatchJobRequest>) -> Answer<Self::WatchJobStream> {
        let messages = self.script().watches.pop_front();
        let messages = messages.ok_or_else(|| Status::unavailable("nobody watches any more"))?;
        let wrap = |message: Result<Job, Status>| message.map(|job| v1::WatchJobResponse { job: Some(job) });
        let messages: Vec<_> = messages.into_iter().map(wrap).collect();
        Ok(Response::new(tokio_stream::iter(messages)))
    }

    async fn run_job(&self, request: Request<v1::RunJobRequest>) -> Answer<v1::RunJobResponse> {
        let request = request.into_inner();
        let mut script = self.script();
        script.request_ids.push(request.request_id);
        script.specs.extend(request.spec);
        let job = script.runs.pop_front().expect("a scripted answer")?;
        Ok(Response::new(v1::RunJobResponse { job: Some(job) }))
    }
}
