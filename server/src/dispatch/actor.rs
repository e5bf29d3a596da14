//! The dispatcher's loop: it takes commands, commits one transaction, then publishes the results.
//! `settle.rs` describes the exceptions that do not wait for the transaction.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_proto::v1::JobState;
use cloakwork_scheduler::{Config, Effect, Event, JobId, RestoredJob, Scheduler, SuspectId, WorkerId};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::sleep_until,
};

use super::{
    Parts, PoolView, Watched,
    command::{Command, Outcome, WorkerReport},
    effects::{Ending, HandedOver},
    live::{Jobs, Leases, Live},
    record,
    settle::Stall,
    submit::Guard,
    workers::Workers,
};
use crate::{
    clock::{Epoch, unix_micros},
    database,
    error::{ApiError, WORKER_UNKNOWN},
    jobs::{JobMeta, JobView, id},
    limits::Limits,
    store::{LiveJob, Write},
};

/// Maximum number of commands that are decided as one batch.
const BATCH: usize = 256;

/// Maximum bytes of waiting jobs' inputs in memory. Further inputs are read back from the store.
pub(super) const WORK_BYTES_MAX: usize = 256 << 20;

pub(super) struct Actor {
    pub(super) parts: Parts,
    pub(super) scheduler: Scheduler,
    pub(super) clock: Epoch,
    commands: mpsc::Receiver<Command>,
    pools: watch::Sender<Arc<Vec<PoolView>>>,
    pub(super) jobs: Jobs,
    /// Live jobs by tenant and idempotency key (the request ID).
    pub(super) requests: HashMap<(Arc<str>, [u8; 16]), JobId>,
    pub(super) tenants: HashMap<Arc<str>, cloakwork_scheduler::TenantId>,
    pub(super) workers: Workers,
    pub(super) work_bytes: usize,
    pub(super) draining: bool,
    pub(super) stopped: bool,
    // Changes that are decided and not committed yet.
    pub(super) writes: Vec<Write>,
    /// Guards of the submitted jobs in `writes`.
    pub(super) guards: Vec<Guard>,
    pub(super) answers: Vec<Answer>,
    pub(super) recorded: Vec<(JobId, u64)>,
    /// First attempts at jobs that are not promised. Workers may begin them before the commit.
    pub(super) early: Vec<(WorkerId, JobId, u64)>,
    pub(super) requeued: Vec<JobId>,
    pub(super) endings: Vec<Ending>,
    /// Ends that callers have been told and that are not committed yet. The list is kept while the
    /// store fails.
    pub(super) handed_over: Vec<HandedOver>,
    pub(super) assignments: BTreeMap<WorkerId, Vec<(JobId, u64)>>,
    /// Latency records of jobs whose ends are already committed. Only now are the records complete.
    pub(super) late: Vec<Write>,
    pub(super) late_since: Option<Instant>,
    /// Present while the store fails.
    pub(super) stall: Option<Stall>,
    /// When the dispatcher last dropped a job from memory, because the job had ended or all jobs
    /// were reloaded.
    pub(super) last_end: Option<Instant>,
    /// The outcome that a worker is handing in, and the scheduler's verdict on the outcome.
    pub(super) outcome: Option<Box<Outcome>>,
    pub(super) verdict: Option<bool>,
}

/// Replies that wait until the change that they report is in the store.
pub(super) enum Answer {
    /// Reply to `SubmitJob`: the server is responsible for the job from now on.
    Submitted(oneshot::Sender<Result<Watched, ApiError>>, Watched),
    /// Reply to `RunJob`, whose caller hears nothing before the job's end.
    Running(oneshot::Sender<Result<Watched, ApiError>>, Watched),
    /// Reply about a live job that has been cancelled or confirmed.
    Found(oneshot::Sender<Result<Option<Watched>, ApiError>>, Watched),
    /// Reply to a confirmation of a job that had already ended.
    Ended(oneshot::Sender<Result<Option<Watched>, ApiError>>),
    Committed(oneshot::Sender<Result<bool, ApiError>>),
}

impl Actor {
    /// An actor that holds the unfinished jobs of the previous process.
    pub(super) async fn restore(
        parts: Parts,
        commands: mpsc::Receiver<Command>,
    ) -> Result<(Self, watch::Receiver<Arc<Vec<PoolView>>>), ApiError> {
        let (pools, watched) = watch::channel(Arc::default());
        let mut actor = Self {
            scheduler: Scheduler::new(config(&parts.limits)),
            workers: Workers::new(&parts.limits),
            parts,
            clock: Epoch::begin(),
            commands,
            pools,
            jobs: Jobs::new(),
            requests: HashMap::new(),
            tenants: HashMap::new(),
            work_bytes: 0,
            draining: false,
            stopped: false,
            writes: Vec::new(),
            guards: Vec::new(),
            answers: Vec::new(),
            recorded: Vec::new(),
            early: Vec::new(),
            requeued: Vec::new(),
            endings: Vec::new(),
            handed_over: Vec::new(),
            assignments: BTreeMap::new(),
            late: Vec::new(),
            late_since: None,
            stall: None,
            last_end: None,
            outcome: None,
            verdict: None,
        };
        actor.reload(true).await.map_err(database::failed)?;
        actor.settle().await.map_err(database::failed)?;
        Ok((actor, watched))
    }

    /// Runs until the last sender of commands is dropped.
    pub(super) async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let wake = tokio::time::Instant::from_std(self.next_wake());
            tokio::select! {
                biased;
                received = self.commands.recv_many(&mut batch, BATCH) => if received == 0 { break },
                () = sleep_until(wake) => {}
            }
            for command in batch.drain(..) {
                self.handle(command).await;
            }
            // Commands that have arrived are handled before timers: a late tick must not expire a
            // lease that a waiting report renews.
            if self.commands.is_empty() {
                self.tick();
            }
            if self.stopped {
                break;
            }
            self.settle_or_recover().await;
        }
        self.stopped = true;
        if let Err(error) = self.settle().await {
            database::failed(error);
        }
    }

    async fn handle(&mut self, command: Command) {
        let Some(command) = self.pass(command) else { return };
        match command {
            Command::Submit { job, promised, reply } => self.submit(*job, promised, reply).await,
            Command::Confirm { tenant, job, reply } => match self.watched(&tenant, job) {
                Some(watched) => {
                    self.promise(job);
                    self.writes.push(Write::Confirmed(job));
                    self.answers.push(Answer::Found(reply, watched));
                }
                // The job may have ended a moment ago, with an end that is not on disk yet.
                None => {
                    self.hurry();
                    self.answers.push(Answer::Ended(reply));
                }
            },
            Command::Cancel { tenant, job, reply } => self.cancel(&tenant, job, reply),
            Command::Watch { tenant, job, reply } => {
                let watched = self.watched(&tenant, job);
                if watched.is_some() {
                    self.promise(job);
                }
                let _ = reply.send(watched);
            }
            // Commands are handled in order: earlier answers are committed by now, or the store is
            // failing.
            Command::Settled { reply } => drop(reply.send(())),
            Command::Attach { report, reply } => {
                let worker = report.worker;
                match self.workers.attach(report.clone()) {
                    Ok((wishes, stream)) => {
                        self.reported(report);
                        // The complete assignment, changed or not: this stream has been told
                        // nothing yet.
                        self.assignments.insert(worker, self.scheduler.assignment(worker));
                        if reply.send(Ok((wishes, stream))).is_err() && self.workers.detach(worker, stream) {
                            self.step(Event::WorkerGone { worker, crashed: false });
                        }
                    }
                    Err(refusal) => drop(reply.send(Err(refusal))),
                }
            }
            Command::Report { stream, report } => {
                if self.workers.report(stream, report.clone()) {
                    self.reported(report);
                }
            }
            Command::Detach { worker, stream } => {
                if self.workers.detach(worker, stream) {
                    self.parts.telemetry.metrics.worker_disconnects.add(1, ["left"]);
                    self.step(Event::WorkerGone { worker, crashed: false });
                }
                self.publish_pools();
            }
            Command::Leased { worker, job, epoch, reply } => {
                let leased = self.workers.wished(worker).map(|wish| wish.get(&(job, epoch)).cloned());
                let _ = reply.send(leased.ok_or_else(|| WORKER_UNKNOWN.error("the worker has no assignment yet")));
            }
            Command::Commit { outcome, reply } => self.commit(outcome, reply),
            Command::Drain => self.draining = true,
            Command::Stop { embedded } => {
                if let Some(worker) = embedded {
                    self.step(Event::WorkerGone { worker, crashed: false });
                }
                self.stopped = true;
            }
        }
    }

    /// Marks the job as promised: a party other than the waiting call that created the job now
    /// relies on it.
    pub(super) fn promise(&mut self, job: JobId) {
        if let Some(live) = self.jobs.get_mut(&job) {
            live.promised = true;
        }
    }

    fn watched(&self, tenant: &str, job: JobId) -> Option<Watched> {
        self.jobs.get(&job).filter(|live| *live.meta.tenant == *tenant).map(|live| live.view.subscribe())
    }

    fn cancel(&mut self, tenant: &str, job: JobId, reply: oneshot::Sender<Result<Option<Watched>, ApiError>>) {
        match self.watched(tenant, job) {
            Some(watched) => {
                self.step(Event::CancelRequested { job });
                self.answers.push(Answer::Found(reply, watched));
            }
            None => drop(reply.send(Ok(None))),
        }
    }

    fn commit(&mut self, outcome: Box<Outcome>, reply: oneshot::Sender<Result<bool, ApiError>>) {
        let event = Event::Committed {
            worker: outcome.worker,
            job: outcome.job,
            epoch: outcome.epoch,
            outcome: super::effects::verdict_on(&outcome),
        };
        self.outcome = Some(outcome);
        self.verdict = None;
        self.step(event);
        self.outcome = None;
        match self.verdict.take() {
            Some(true) => self.answers.push(Answer::Committed(reply)),
            _ => {
                self.parts.telemetry.metrics.stale_results.add(1, []);
                let _ = reply.send(Ok(false));
            }
        }
    }

    fn reported(&mut self, report: WorkerReport) {
        for lease in &report.report.leases {
            let Some(live) = self.jobs.get(&lease.job).filter(|live| live.epoch == lease.epoch) else { continue };
            let seen = |view: &JobView| (view.rows_done, view.stage);
            let now = (lease.rows_done.min(live.meta.rows), Some(lease.stage));
            if seen(&live.view.borrow()) != now {
                live.publish(|view| (view.rows_done, view.stage) = now);
            }
        }
        self.step(Event::Reported { worker: report.worker, report: report.report });
        self.publish_pools();
    }

    fn publish_pools(&mut self) {
        let pools = self.workers.pools();
        self.pools.send_if_modified(|known| {
            let changed = **known != pools;
            if changed {
                *known = Arc::new(pools);
            }
            changed
        });
    }

    /// Feeds the scheduler and applies its effects. Assignments follow once all known events are
    /// fed.
    pub(super) fn step(&mut self, event: Event) {
        let mut effects: Vec<Effect> = Vec::new();
        self.scheduler.feed(self.clock.now(), event, &mut effects);
        effects.into_iter().for_each(|effect| self.effect(effect));
    }

    fn tick(&mut self) {
        for (worker, name) in self.workers.take_lost() {
            tracing::warn!(worker = %format_args!("{:032x}", worker.0), name = &*name, "a worker is lost");
            self.parts.telemetry.metrics.worker_disconnects.add(1, ["lost"]);
            self.step(Event::WorkerGone { worker, crashed: true });
        }
        if self.scheduler.next_timer().is_some_and(|due| due <= self.clock.now()) {
            self.step(Event::Tick);
        }
        let stats = self.scheduler.stats();
        record::observe(&self.parts.telemetry.metrics, &stats, self.clock.now(), &self.pools.borrow());
    }

    fn next_wake(&self) -> Instant {
        let now = Instant::now();
        let timer = self.scheduler.next_timer().map(|due| {
            now + Duration::from_micros(
                due.saturating_sub(self.clock.now()).min(Duration::from_secs(60).as_micros() as u64),
            )
        });
        let far = now + Duration::from_secs(60);
        if let Some(stall) = &self.stall {
            return stall.until;
        }
        [timer, self.late_due(), self.workers.next_lost()].into_iter().flatten().min().unwrap_or(far)
    }

    /// Rebuilds the scheduler from the store. `restarted` means that the previous process ended,
    /// and its embedded worker with it.
    pub(super) async fn reload(&mut self, restarted: bool) -> Result<(), sqlx::Error> {
        if restarted {
            self.parts.store.begin().await?;
        }
        let stored = self.parts.store.live_jobs().await?;
        self.last_end = Some(Instant::now());
        self.writes.clear();
        self.guards.clear();
        self.recorded.clear();
        self.early.clear();
        self.requeued.clear();
        self.endings.clear();
        self.assignments.clear();
        let mut before = std::mem::take(&mut self.jobs);
        self.requests.clear();
        self.work_bytes = 0;
        self.scheduler = Scheduler::new(config(&self.parts.limits));
        for job in stored {
            let id = job.meta.id;
            if self.handed_over.iter().any(|told| told.job == id) {
                self.requests.insert((job.meta.tenant.clone(), job.meta.request_id), id);
                self.jobs.extend(before.remove(&id).map(|live| (id, live)));
                continue;
            }
            let live = Live::restored(&job, before.remove(&id));
            self.restore_job(job, live);
        }
        let known: Vec<WorkerReport> = self.workers.latest().cloned().collect();
        let dead = if restarted { self.embedded_before().await? } else { Vec::new() };
        self.step(Event::Recovered { dead });
        for report in known {
            let worker = report.worker;
            self.reported(report);
            // The worker may have been told of leases that the failed transaction made void.
            self.assignments.insert(worker, self.scheduler.assignment(worker));
        }
        Ok(())
    }

    fn restore_job(&mut self, job: LiveJob, live: Live) {
        let scheduled = self.scheduled(&job.meta);
        self.requests.insert((job.meta.tenant.clone(), job.meta.request_id), job.meta.id);
        self.work_bytes += live.work.as_ref().map_or(0, |work| work.bytes());
        self.jobs.insert(job.meta.id, live);
        self.step(Event::Restored(RestoredJob {
            job: scheduled,
            submitted: 0,
            attempts: job.attempts,
            epoch: job.epoch,
            suspect: job.suspect.map(SuspectId),
            solo_crashes: job.solo_crashes,
            holder: job.worker.map(WorkerId),
        }));
    }

    /// Embedded workers of earlier processes. These workers are certainly dead.
    async fn embedded_before(&self) -> Result<Vec<WorkerId>, sqlx::Error> {
        let workers = self.parts.store.embedded_workers().await?;
        Ok(workers.into_iter().map(WorkerId).collect())
    }

    /// Converts a Unix time in microseconds to the scheduler's clock.
    pub(super) fn monotonic(&self, unix: i64) -> u64 {
        let left = unix.saturating_sub(unix_micros());
        self.clock.now().saturating_add_signed(left)
    }

    /// Releases the blobs that an ended job had pinned. Outputs stay pinned if the job has
    /// succeeded; otherwise their pins are released too.
    pub(super) fn release(&self, meta: &JobMeta, end: JobState) {
        let (keystore, job) = (self.parts.keystore.clone(), meta.id);
        tokio::spawn(async move {
            let outputs = (end != JobState::Succeeded).then(|| id::output_holder(job));
            for holder in [id::to_bytes(job)].into_iter().chain(outputs) {
                if let Err(error) = keystore.unpin(&holder).await {
                    tracing::warn!(%error, "a job's blobs cannot be unpinned; their pins must expire");
                }
            }
        });
    }

    /// Hands out the leases that the scheduler has assigned.
    pub(super) async fn assign(&mut self) {
        let mut effects = Vec::new();
        self.scheduler.flush(&mut effects);
        effects.into_iter().for_each(|effect| self.effect(effect));
        for (worker, leases) in std::mem::take(&mut self.assignments) {
            let before = self.workers.wished(worker).unwrap_or_default();
            let mut wish = Leases::new();
            for lease in leases {
                let leased = match before.get(&lease) {
                    Some(leased) => Some(leased.clone()),
                    None => self.lease(worker, lease.0, lease.1).await,
                };
                wish.extend(leased.map(|leased| (lease, leased)));
            }
            self.workers.wish(worker, Arc::new(wish));
        }
    }
}

impl Answer {
    /// Whether the caller may rely on the answer from then on, whatever happens.
    pub(super) fn promises(&self) -> bool {
        match self {
            Self::Submitted(..) | Self::Found(..) | Self::Ended(..) => true,
            // The job's ending decides this itself (`is_relied_on`).
            Self::Running(..) | Self::Committed(..) => false,
        }
    }

    pub(super) fn send(self) {
        match self {
            Self::Ended(reply) => drop(reply.send(Ok(None))),
            Self::Submitted(reply, watched) | Self::Running(reply, watched) => drop(reply.send(Ok(watched))),
            Self::Found(reply, watched) => drop(reply.send(Ok(Some(watched)))),
            Self::Committed(reply) => drop(reply.send(Ok(true))),
        }
    }

    pub(super) fn refuse(self, error: &ApiError) {
        match self {
            Self::Ended(reply) => drop(reply.send(Err(error.clone()))),
            Self::Submitted(reply, _) | Self::Running(reply, _) => drop(reply.send(Err(error.clone()))),
            Self::Found(reply, _) => drop(reply.send(Err(error.clone()))),
            Self::Committed(reply) => drop(reply.send(Err(error.clone()))),
        }
    }
}

/// Cost that a tenant is served before the next tenant's turn, in units of
/// `ParameterSet::bootstrap_weight`. The quantum is about 64 bootstraps of the usual set, or two
/// waves of a small worker.
const QUANTUM: u64 = 6400;

fn config(limits: &Limits) -> Config {
    Config {
        lease: limits.lease_ms * 1000,
        progress_timeout: limits.progress_ms * 1000,
        attempts_max: u32::try_from(limits.job_attempts).unwrap_or(u32::MAX),
        jobs_max: usize::try_from(limits.queued_jobs).unwrap_or(usize::MAX),
        jobs_per_tenant_max: usize::try_from(limits.tenant_queued_jobs).unwrap_or(usize::MAX),
        workers_max: usize::try_from(limits.workers).unwrap_or(usize::MAX),
        quantum: QUANTUM,
        patience: 16 * QUANTUM,
        ..Config::default()
    }
}
