//! The job service: submits, watches, cancels and lists jobs.

use std::{collections::BTreeSet, pin::Pin, sync::Arc, time::Instant};

use cloakwork_proto::v1::{
    self, CancelJobRequest, CancelJobResponse, GetJobRequest, GetJobResponse, JobState, ListJobsRequest,
    ListJobsResponse, RunJobRequest, RunJobResponse, SubmitJobRequest, SubmitJobResponse, WatchJobRequest,
    WatchJobResponse, job_service_server::JobService,
};
use cloakwork_scheduler::JobId;
use tokio_stream::{Stream, StreamExt as _, wrappers::WatchStream};
use tonic::{Request, Response, Status};

use crate::{
    admit::Admission,
    caller::Caller,
    database,
    dispatch::{Dispatcher, Watched},
    edge::Held,
    error::{ApiError, DRAINING, FIELD_MISSING, INVALID_ARGUMENT, JOB_NOT_FOUND, PAGE_TOKEN_INVALID},
    jobs::{self, id},
    limits::Limits,
    page,
    resource::{self, JobName},
    store::Store,
};

/// The job service.
#[derive(Clone)]
pub struct Jobs {
    /// Checks requests for jobs.
    pub admission: Admission,
    /// The dispatcher, which decides about jobs.
    pub dispatcher: Dispatcher,
    /// The store, for jobs that have ended.
    pub store: Store,
    /// Limits.
    pub limits: Arc<Limits>,
}

#[tonic::async_trait]
impl JobService for Jobs {
    type WatchJobStream = Pin<Box<dyn Stream<Item = Result<WatchJobResponse, Status>> + Send>>;

    async fn submit_job(&self, request: Request<SubmitJobRequest>) -> Result<Response<SubmitJobResponse>, Status> {
        let caller = Caller::of(&request)?;
        let SubmitJobRequest { request_id, spec } = request.into_inner();
        let watched = self.submit(&caller, &request_id, spec, true).await?;
        let job = Some(watched.borrow().to_proto());
        Ok(Response::new(SubmitJobResponse { job }))
    }

    async fn get_job(&self, request: Request<GetJobRequest>) -> Result<Response<GetJobResponse>, Status> {
        let caller = Caller::of(&request)?;
        let watched = self.find(&caller, &request.get_ref().name).await?;
        let job = Some(watched.borrow().to_proto());
        Ok(Response::new(GetJobResponse { job }))
    }

    async fn list_jobs(&self, request: Request<ListJobsRequest>) -> Result<Response<ListJobsResponse>, Status> {
        let caller = Caller::of(&request)?;
        let ListJobsRequest { page_size, page_token, states } = request.into_inner();
        let count = page::size(page_size, self.limits.page_size)?;
        let states = job_states(&states)?;
        let listing = format!("tenants/{}/jobs {states:?}", caller.tenant);
        let before = page::position(&listing, &page_token)?.as_deref().map(position).transpose()?;
        self.dispatcher.settled().await?;
        let page = self.store.jobs(caller.tenant.as_str(), &states, before, count).await.map_err(database::failed)?;
        Ok(Response::new(ListJobsResponse {
            // A page would have more bytes of attestations than of all else.
            jobs: page.jobs.iter().map(|job| v1::Job { attestation: None, ..job.to_proto() }).collect(),
            next_page_token: page.next.map(|job| page::token(&listing, &id::to_bytes(job))).unwrap_or_default(),
        }))
    }

    async fn cancel_job(&self, request: Request<CancelJobRequest>) -> Result<Response<CancelJobResponse>, Status> {
        let caller = Caller::of(&request)?;
        let name = &request.get_ref().name;
        let watched = match self.dispatcher.cancel(caller.tenant.as_str(), job_id(&caller, name)?).await? {
            Some(watched) => watched,
            None => self.find(&caller, name).await?,
        };
        let job = Some(watched.borrow().to_proto());
        Ok(Response::new(CancelJobResponse { job }))
    }

    async fn watch_job(&self, request: Request<WatchJobRequest>) -> Result<Response<Self::WatchJobStream>, Status> {
        let caller = Caller::of(&request)?;
        let watched = self.find(&caller, &request.get_ref().name).await?;
        let mut ended = false;
        let views = WatchStream::new(watched).take_while(move |view| {
            // The first view that has an end is still sent.
            let more = !ended;
            ended = view.end.is_some();
            more
        });
        let messages = views.map(|view| Ok(WatchJobResponse { job: Some(view.to_proto()) }));
        Ok(Response::new(Box::pin(messages)))
    }

    async fn run_job(&self, request: Request<RunJobRequest>) -> Result<Response<RunJobResponse>, Status> {
        let caller = Caller::of(&request)?;
        let held = request.extensions().get::<Arc<Held>>().cloned();
        let RunJobRequest { request_id, spec } = request.into_inner();
        let watched = self.submit(&caller, &request_id, spec, false).await?;
        // The job owns the message's bytes now.
        drop(held);
        let job = Some(self.end_of(watched).await?);
        Ok(Response::new(RunJobResponse { job }))
    }
}

impl Jobs {
    async fn submit(
        &self,
        caller: &Caller,
        request_id: &str,
        spec: Option<v1::JobSpec>,
        promised: bool,
    ) -> Result<Watched, ApiError> {
        let received = Instant::now();
        let request_id = resource::request_id(request_id)?.into_bytes();
        let spec = spec.ok_or_else(|| FIELD_MISSING.error("the request has no spec").field("spec", "missing"))?;
        let request = jobs::Request { id: request_id, digest: jobs::request_digest(&spec) };
        // Counts the inputs until the dispatcher has the job.
        let mut memory = self.admission.memory.of(&caller.tenant);
        let (earlier, admitted) = tokio::join!(
            self.earlier(caller, &request),
            self.admission.admit(caller, request, spec, received, &mut memory),
        );
        // An earlier job takes precedence over a refusal: its inputs may be gone while the request
        // is a repetition.
        if let Some(job) = earlier? {
            let live = match promised {
                true => self.dispatcher.confirm(caller.tenant.as_str(), job).await?,
                false => None,
            };
            return match live {
                Some(live) => Ok(live),
                None => self.find_id(caller, job).await,
            };
        }
        self.dispatcher.submit(admitted?, promised).await
    }

    /// The job that an earlier request with the same id made.
    async fn earlier(&self, caller: &Caller, request: &jobs::Request) -> Result<Option<JobId>, ApiError> {
        let meta = self.store.meta_by_request(caller.tenant.as_str(), &request.id).await.map_err(database::failed)?;
        meta.map(|meta| jobs::same_request(&meta, request).map(|()| meta.id)).transpose()
    }

    /// Waits until the job has ended.
    async fn end_of(&self, mut watched: Watched) -> Result<v1::Job, ApiError> {
        if let Ok(view) = watched.wait_for(|view| view.end.is_some()).await {
            return Ok(view.to_proto());
        }
        // Either the dispatcher is gone, or it dropped the job because the store did not take it.
        match self.dispatcher.settled().await {
            Ok(()) => Err(database::unavailable()),
            Err(_) => Err(DRAINING.error("the server is stopping; the job continues when the server is back")),
        }
    }

    /// A job of the tenant, live or ended.
    async fn find(&self, caller: &Caller, name: &str) -> Result<Watched, ApiError> {
        self.find_id(caller, job_id(caller, name)?).await
    }

    async fn find_id(&self, caller: &Caller, job: JobId) -> Result<Watched, ApiError> {
        let watched = self.dispatcher.find(caller.tenant.as_str(), job).await?;
        watched.ok_or_else(|| JOB_NOT_FOUND.error(format!("there is no job {}", id::to_text(job))))
    }
}

fn job_id(caller: &Caller, name: &str) -> Result<JobId, ApiError> {
    Ok(JobId(JobName::parse_own(name, &caller.principal)?.job.as_u128()))
}

/// The position at which a page begins.
fn position(bytes: &[u8]) -> Result<JobId, ApiError> {
    id::from_bytes(bytes).ok_or_else(|| PAGE_TOKEN_INVALID.error("page_token was not issued for this listing"))
}

/// The states that a request names, each once and in order.
pub(super) fn job_states(numbers: &[i32]) -> Result<Vec<JobState>, ApiError> {
    let states: BTreeSet<JobState> = numbers.iter().map(|number| state(*number)).collect::<Result<_, _>>()?;
    Ok(states.into_iter().collect())
}

fn state(number: i32) -> Result<JobState, ApiError> {
    JobState::try_from(number)
        .map_err(|_| INVALID_ARGUMENT.error(format!("{number} is not a job state")).field("states", "unknown state"))
}
