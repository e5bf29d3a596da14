//! Translates the scheduler's effects into changes of the store and messages to callers and
//! workers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_proto::v1::{JobError, JobState, LatencyRecord};
use cloakwork_scheduler::{self as scheduler, Effect, JobId, Refusal, WorkerId};
use cloakwork_share::Share;

use super::{
    actor::Actor,
    checks::FirstResult,
    command::Outcome,
    live::{Kept, Leased},
    record, spans,
};
use crate::{
    error::{
        ApiError, DEADLINE_EXCEEDED, JOB_ATTEMPTS_EXHAUSTED, JOB_CANCELLED, JOB_POISON, QUEUE_FULL, TENANT_QUEUE_FULL,
    },
    jobs::{End, id},
    store::{Attempt, Ended, Requeued, Write},
};

/// An outcome that a worker handed in, with its shares of the limits on results that wait.
pub(super) struct HandedIn {
    pub(super) outcome: Box<Outcome>,
    pub(super) share: Share<Arc<str>>,
}

/// The shares of a result in the limits on results that wait, until the result is in the store. The
/// call that handed the result in may end earlier, and the bytes of the result stay.
pub(super) struct Shares {
    _memory: Option<Share<WorkerId>>,
    _write: Share<Arc<str>>,
}

/// A job's end that is about to be committed.
pub(super) struct Ending {
    pub(super) job: JobId,
    end: Arc<End>,
    worker: Option<LatencyRecord>,
    /// Whether the caller that waits for the job receives the whole result.
    handed_over: bool,
    pub(super) shares: Option<Shares>,
}

/// A job whose end was published to its caller and is not committed yet.
pub(super) struct HandedOver {
    pub(super) job: JobId,
    /// The change that commits the end.
    pub(super) end: Write,
    /// The change that stores the latency record, with the end or later.
    pub(super) record: Write,
    /// Dropped with the rest after the commit.
    pub(super) _shares: Option<Shares>,
}

impl Ending {
    pub(super) fn write(&self) -> Ended {
        Ended { job: self.job, end: self.end.clone() }
    }
}

impl Actor {
    pub(super) fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Record(attempt) => self.record(attempt),
            Effect::Assign { worker, leases } => drop(self.assignments.insert(worker, leases)),
            Effect::Requeued { job, attempts, epoch, suspect, solo_crashes, why } => {
                tracing::info!(job = %id::to_text(job), attempts, ?why, "a job went back to the queue");
                record::requeued(&self.parts.telemetry.metrics, why);
                self.loads.forget(job, epoch);
                if let Some(live) = self.jobs.get_mut(&job) {
                    spans::requeued(&self.parts.telemetry, live, why);
                    live.timeline.leased = None;
                }
                let suspect = suspect.map(|group| group.0);
                self.decided.writes.push(Write::Requeued(Requeued { job, epoch, attempts, suspect, solo_crashes }));
                self.decided.requeued.push(job);
            }
            Effect::Accept { .. } => self.verdict = Some(true),
            Effect::Refuse { .. } => self.verdict = Some(false),
            Effect::CheckEnded { check, end } => self.check_ended(check, end),
            Effect::Finished { job, end } => self.finished(job, end),
        }
    }

    fn record(&mut self, attempt: scheduler::Attempt) {
        let scheduler::Attempt { job, epoch, worker, attempts, suspect, solo_crashes, .. } = attempt;
        self.decided.recorded.push((job, epoch));
        let in_memory = self.jobs.get_mut(&job).is_some_and(|live| {
            live.epoch = epoch;
            live.work.is_some()
        });
        let fresh =
            matches!(self.decided.writes.last(), Some(Write::Submitted(new)) if new.meta.id == job && !new.promised);
        if fresh && in_memory {
            self.decided.early.push((worker, job, epoch));
        }
        let (worker, suspect) = (worker.0, suspect.map(|group| group.0));
        self.decided.writes.push(Write::Attempt(Attempt { job, epoch, attempts, worker, suspect, solo_crashes }));
    }

    fn finished(&mut self, job: JobId, end: scheduler::End) {
        let Some(live) = self.jobs.get_mut(&job) else { return };
        self.loads.forget(job, live.epoch);
        let handed_in = self.outcome.take_if(|handed_in| handed_in.outcome.job == job);
        let (mut outputs, mut attestation, mut sampled) = (Vec::new(), None, None);
        let (mut error, mut worker, mut shares) = (None, None, None);
        if let Some(HandedIn { outcome, share }) = handed_in {
            let Outcome { epoch, worker: by, lowering, .. } = *outcome;
            sampled = outcome.sample.map(|sample| (FirstResult { job, epoch, worker: by, lowering }, sample));
            shares = Some(Shares { _memory: outcome.memory, _write: share });
            (live.timeline.returned, live.timeline.stored) = (Some(outcome.returned), Some(outcome.stored));
            worker = Some(outcome.latency);
            match outcome.result {
                Ok(contents) => (outputs, attestation) = (contents, outcome.attestation),
                Err(failure) => error = Some(failure.error),
            }
        }
        let state = match &end {
            scheduler::End::Succeeded => JobState::Succeeded,
            scheduler::End::Cancelled => JobState::Cancelled,
            scheduler::End::Failed(_) | scheduler::End::DeadlineExceeded => JobState::Failed,
        };
        let ended_micros = self.parts.clock.unix_micros();
        let attempts = u32::try_from(live.epoch).unwrap_or(u32::MAX);
        let end = Arc::new(End {
            state,
            ended_micros,
            outputs_expire_micros: (state == JobState::Succeeded)
                .then(|| ended_micros.saturating_add(live.meta.keep_outputs_micros)),
            error: (state != JobState::Succeeded).then(|| error.unwrap_or_else(|| reason_of(&end))),
            outputs,
            latency: live.timeline.record(Instant::now(), worker.clone(), attempts, live.meta.pbs_count),
            attestation,
        });
        let handed_over = state == JobState::Succeeded
            && live.meta.inline_outputs
            && end.outputs.iter().all(|output| output.bytes.is_some());
        let ending = Ending { job, end, worker, handed_over, shares };
        self.decided.writes.push(Write::Ended(ending.write()));
        self.decided.endings.push(ending);
        if let Some((first, sample)) = sampled.filter(|_| state == JobState::Succeeded) {
            self.begin_check(first, sample);
        }
    }

    /// Whether anyone relies on the server for this end. A caller that waits for the result and
    /// receives all of it does not.
    pub(super) fn is_relied_on(&self, ending: &Ending) -> bool {
        !ending.handed_over || self.jobs.get(&ending.job).is_none_or(|live| live.promised)
    }

    /// Publishes an end to watchers, with a latency record that includes the cost of the end
    /// itself. Returns the change that stores this record.
    pub(super) fn tell(&mut self, ending: &Ending) -> Write {
        let mut end = End::clone(&ending.end);
        if let Some(live) = self.jobs.get_mut(&ending.job) {
            end.latency =
                live.timeline.record(Instant::now(), ending.worker.clone(), end.latency.attempts, live.meta.pbs_count);
            live.work = None;
            record::ended(&self.parts.telemetry, &live.meta, &end, live.pool);
            spans::ended(&self.parts.telemetry, live, &end);
            let shared = Arc::new(end.clone());
            live.publish(|view| (view.state, view.end) = (end.state, Some(shared)));
        }
        Write::Closed(ending.job, end.latency)
    }

    /// Drops a job whose end is published and committed: the store can answer for it now.
    pub(super) fn close(&mut self, job: JobId) {
        if let Some(live) = self.jobs.remove(&job) {
            self.last_end = Some(Instant::now());
            self.requests.remove(&(live.meta.tenant.clone(), live.meta.request_id));
        }
    }

    /// Has a latency record written with a later transaction.
    pub(super) fn write_late(&mut self, record: Write) {
        self.late.push(record);
        self.late_since.get_or_insert_with(Instant::now);
    }

    /// Returns the lease of a job that was just assigned to a worker. If the job's work is not in
    /// memory, this begins to read the work, and returns `None`.
    pub(super) fn lease(&mut self, worker: WorkerId, job: JobId, epoch: u64) -> Option<Arc<Leased>> {
        if let Some(leased) = self.checks.lease(job, epoch) {
            return Some(leased);
        }
        let live = self.jobs.get_mut(&job)?;
        let work = match &live.work {
            Some(kept) => kept.work.clone(),
            None => {
                let Some(work) = self.loads.take(job, epoch) else {
                    self.loads.begin(worker, epoch, &live.meta);
                    return None;
                };
                live.work = Kept::of(&live.meta.tenant, work.clone(), &self.work_bytes);
                work
            }
        };
        let since = Instant::now();
        live.timeline.leased = Some(since);
        live.pool = self.workers.pool(worker).map(|pool| self.parts.telemetry.pools.label(pool));
        let attempts = u32::try_from(epoch).unwrap_or(u32::MAX);
        live.publish(|view| (view.state, view.stage, view.attempts) = (JobState::Running, None, attempts));
        let left = live.meta.deadline_micros.saturating_sub(self.parts.clock.unix_micros()).max(0).unsigned_abs();
        let deadline = since + Duration::from_micros(left);
        Some(Arc::new(Leased {
            meta: live.meta.clone(),
            epoch,
            work,
            since,
            deadline,
            calls: Arc::default(),
            check: None,
            class: self.workers.class(worker),
        }))
    }
}

/// The outcome in the scheduler's terms.
pub(super) fn verdict_on(outcome: &Outcome) -> scheduler::Outcome {
    match &outcome.result {
        Ok(_) => scheduler::Outcome::Succeeded,
        Err(failure) => {
            scheduler::Outcome::Failed { retry: failure.retry, reason: failure.error.reason.clone().into() }
        }
    }
}

/// The error for a job that the scheduler refused.
pub(super) fn refused(tenant: &str, refusal: Refusal) -> ApiError {
    let wait = Duration::from_micros(refusal.retry_after);
    let (reason, subject) = match refusal.limit {
        scheduler::Limit::JobsPerTenant => (TENANT_QUEUE_FULL, format!("tenants/{tenant}")),
        scheduler::Limit::Jobs => (QUEUE_FULL, "server".to_owned()),
    };
    let message = format!("{} jobs have not ended: that is the limit", refusal.max);
    reason.error(message.clone()).quota(subject, message).retry_after(wait)
}

fn reason_of(end: &scheduler::End) -> JobError {
    let (reason, message) = match end {
        scheduler::End::Succeeded => return JobError::default(),
        scheduler::End::Cancelled => (JOB_CANCELLED.code, "the job was cancelled"),
        scheduler::End::DeadlineExceeded => (DEADLINE_EXCEEDED.code, "the job did not end within its time limit"),
        scheduler::End::Failed(reason) => match reason.as_ref() {
            scheduler::reasons::POISON => (JOB_POISON.code, "the job crashed every worker that it ran on alone"),
            scheduler::reasons::ATTEMPTS_EXHAUSTED => (
                JOB_ATTEMPTS_EXHAUSTED.code,
                "no attempt was completed: workers were lost, or made no progress, too often",
            ),
            other => {
                let message = crate::error::Reason::named(other).map_or("the job failed", |reason| reason.advice);
                return JobError { reason: other.to_owned(), message: message.to_owned() };
            }
        },
    };
    JobError { reason: reason.to_owned(), message: message.to_owned() }
}
