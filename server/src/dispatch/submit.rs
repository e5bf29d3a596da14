//! Submission of jobs to the dispatcher.

use std::sync::Arc;

use bytes::Bytes;
use cloakwork_keystore::{Digest, Reservation};
use cloakwork_scheduler::{Event, Group, JobId, NewJob as Scheduled, TenantId};
use cloakwork_share::Share;
use tokio::sync::oneshot;

use super::{
    Watched,
    actor::Actor,
    command::Submitted,
    decided::Answer,
    live::{Kept, Live},
    record,
};
use crate::{
    database,
    error::{ApiError, DRAINING},
    jobs::{Content, JobMeta, JobView, Request, Timeline, same_request},
    keys::KeyUse,
    store::{NewJob, Write},
    tenant_limits::OwnLimit,
};

/// A job that passed admission.
#[derive(Debug)]
pub struct Admitted {
    /// The job's metadata.
    pub meta: Arc<JobMeta>,
    /// The program's bytes.
    pub program: Bytes,
    /// Its inputs.
    pub inputs: Arc<[Content]>,
    /// Parts of the key that the job needs.
    pub key_parts: Vec<Digest>,
    /// Key parts of the companion set, if the key has them.
    pub companion_parts: Vec<Digest>,
    /// Keeps the key from being purged until the job is in the store.
    pub key_use: Arc<KeyUse>,
    /// Keeps the input blobs until the store has the job, with its pins.
    pub reserved: Arc<Reservation>,
    /// Times of the steps so far. The store held no job of this request at some moment after
    /// `received`.
    pub timeline: Timeline,
}

/// Keeps the key and the blobs of a job until the store holds the job.
#[derive(Debug)]
pub(super) struct Guard {
    /// The job.
    pub(super) job: JobId,
    /// Keeps the key from being purged.
    _key_use: Arc<KeyUse>,
    /// Keeps the blobs. Once the job is stored, its pins keep them.
    _reserved: Arc<Reservation>,
    /// Counts the job's write among those that wait.
    _share: Share<Arc<str>>,
}

impl Actor {
    pub(super) async fn submit(
        &mut self,
        job: Admitted,
        promised: bool,
        share: Share<Arc<str>>,
        reply: oneshot::Sender<Result<Submitted, ApiError>>,
    ) {
        let submitted = match self.known(&job).await {
            Ok(Some(known)) => {
                // The first submission may not have been promised, or its write may not be on disk
                // yet.
                if promised {
                    let first = known.job();
                    self.promise(first);
                    self.decided.writes.push(Write::Confirmed(first));
                }
                Ok(known)
            }
            Ok(None) => self.accept(&job, promised, share).map(Submitted::Live),
            Err(error) => Err(error),
        };
        match submitted {
            Ok(submitted) if promised => self.decided.answers.push(Answer::Submitted(reply, submitted)),
            // The caller of `RunJob` hears nothing before the job's end. If the job cannot be
            // stored, the watch ends without an end.
            answer => drop(reply.send(answer)),
        }
    }

    /// The job that an earlier request with this idempotency key created.
    async fn known(&mut self, job: &Admitted) -> Result<Option<Submitted>, ApiError> {
        let meta = &*job.meta;
        let request = Request { id: meta.request_id, digest: meta.request_digest };
        if let Some(live) = self.requests.get(&(meta.tenant.clone(), meta.request_id)).and_then(|id| self.jobs.get(id))
        {
            same_request(&live.meta, &request)?;
            return Ok(Some(Submitted::Live(live.view.subscribe())));
        }
        // The store was asked when the request came in. A job created since then is live, unless it
        // has also ended.
        if self.last_end.is_none_or(|ended| ended < job.timeline.received) {
            return Ok(None);
        }
        // The answer reads the rest of the job, outside of the dispatcher's turn.
        let stored =
            self.parts.store.meta_by_request(&meta.tenant, &meta.request_id).await.map_err(database::failed)?;
        let Some(stored) = stored else { return Ok(None) };
        same_request(&stored, &request)?;
        Ok(Some(Submitted::Ended(stored.id)))
    }

    fn accept(&mut self, job: &Admitted, promised: bool, share: Share<Arc<str>>) -> Result<Watched, ApiError> {
        if self.draining {
            return Err(DRAINING.error("the server is stopping and takes no new jobs"));
        }
        let tenant = self.tenant(&job.meta.tenant);
        let limit = self.parts.limits.tenant_queued_jobs;
        let own_max = self.parts.tenant_limits.of(&job.meta.tenant, OwnLimit::QueuedJobs, limit);
        let own_max = usize::try_from(own_max).unwrap_or(usize::MAX);
        self.scheduler
            .admit(tenant, Some(own_max))
            .map_err(|refusal| super::effects::refused(&job.meta.tenant, refusal))?;
        let (mut live, work) = Live::new(job, promised);
        let work_bytes = work.bytes() as u64;
        live.work = Kept::of(&job.meta.tenant, work, &self.work_bytes);
        let watched = live.view.subscribe();
        self.requests.insert((job.meta.tenant.clone(), job.meta.request_id), job.meta.id);
        self.jobs.insert(job.meta.id, live);
        self.decided.writes.push(Write::Submitted(NewJob {
            meta: job.meta.clone(),
            program: job.program.clone(),
            inputs: job.inputs.clone(),
            key_parts: job.key_parts.clone(),
            promised,
        }));
        let (key_use, reserved) = (job.key_use.clone(), job.reserved.clone());
        self.decided.guards.push(Guard { job: job.meta.id, _key_use: key_use, _reserved: reserved, _share: share });
        record::submitted(&self.parts.telemetry.metrics, &job.meta);
        let event = Event::Submitted(self.scheduled(&job.meta, work_bytes));
        self.step(event);
        Ok(watched)
    }

    /// The job in the scheduler's terms.
    pub(super) fn scheduled(&mut self, meta: &JobMeta, work_bytes: u64) -> Scheduled {
        Scheduled {
            id: meta.id,
            group: Group { tenant: self.tenant(&meta.tenant), key: meta.key_id, set: meta.set.id() },
            cost: meta.cost,
            rows: meta.rows,
            bytes: work_bytes,
            priority: meta.priority,
            deadline: self.monotonic(meta.deadline_micros),
        }
    }

    /// The scheduler's number of a tenant.
    pub(super) fn tenant(&mut self, tenant: &Arc<str>) -> TenantId {
        let next = TenantId(self.tenants.len() as u64);
        *self.tenants.entry(tenant.clone()).or_insert(next)
    }
}

/// A watch on a job that will not change any more, for callers that treat it like a live job.
pub(super) fn ended(view: JobView) -> Watched {
    tokio::sync::watch::Sender::new(view).subscribe()
}
