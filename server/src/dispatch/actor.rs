//! The dispatcher's loop: it takes commands, decides, and publishes committed decisions
//! (`settle.rs`).

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_clock::Epoch;
use cloakwork_scheduler::{Config, Effect, Event, JobId, RestoredJob, Scheduler, Stats, SuspectId, WorkerId};
use cloakwork_share::FairShare;
use cloakwork_storage::Error;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::sleep_until,
};

use super::{
    Parts, PoolView, Watched,
    audit::{self, Audit},
    checks::{CHECKS_MAX, Checks, QUARANTINED_MAX},
    command::{Command, WorkerReport},
    decided::{Answer, Decided},
    effects::HandedIn,
    live::{Jobs, LEASED_BYTES_PER_WORKER_MAX, Live, TENANT_WORK_BYTES_MAX, WORK_BYTES_MAX},
    loads::Loads,
    placement::Placement,
    record,
    recover::Stall,
    settle::Commit,
    workers::Workers,
};
use crate::{
    database,
    error::{ApiError, WORKER_UNKNOWN},
    jobs::JobView,
    limits::Limits,
    store::{LiveJob, Write},
};

/// Maximum number of commands that are decided as one batch.
pub(super) const BATCH: usize = 256;

/// Shortest time between two views of the pools, in microseconds. Workers report each second, so a
/// view for each report would cost the square of their number. Workers that attach and leave all
/// the time cost no more.
const POOLS_INTERVAL_MICROS: u64 = 1_000_000;

/// Shortest time between two updates of the gauges, in microseconds. An update takes about as long
/// as the decisions about a job.
const GAUGES_INTERVAL_MICROS: u64 = 100_000;

/// Interval between two updates of the gauges while nothing happens to the unfinished jobs. The age
/// of the oldest one grows meanwhile.
const QUIET_GAUGES_INTERVAL_MICROS: u64 = 5_000_000;

/// Answers that may wait for the next transaction before the dispatcher takes no more commands.
pub(super) const ANSWERS_MAX: usize = 4096;

pub(super) struct Actor {
    pub(super) parts: Parts,
    pub(super) scheduler: Scheduler,
    /// The scheduler's time.
    pub(super) uptime: Epoch,
    commands: mpsc::Receiver<Command>,
    /// Commands that are handled before the dispatcher looks at its timers again.
    commands_before_tick: Option<usize>,
    pools: watch::Sender<Arc<Vec<PoolView>>>,
    /// When the next view of the pools is made, if the workers or their reports have changed. By
    /// the scheduler's time, like the next field.
    pools_due_micros: Option<u64>,
    /// From when on the next view may be made.
    pools_next_micros: u64,
    /// From when on the gauges may be updated again.
    gauges_next_micros: u64,
    /// Whether something has happened since the last update of the gauges.
    gauges_are_stale: bool,
    pub(super) audit: Audit,
    pub(super) jobs: Jobs,
    /// Live jobs by tenant and idempotency key (the request ID).
    pub(super) requests: HashMap<(Arc<str>, [u8; 16]), JobId>,
    pub(super) tenants: HashMap<Arc<str>, cloakwork_scheduler::TenantId>,
    pub(super) workers: Workers,
    /// Workers on their way to other shards.
    pub(super) placement: Placement,
    /// Rows that are computed a second time.
    pub(super) checks: Checks,
    /// Bytes of the work that is kept in memory.
    pub(super) work_bytes: Arc<FairShare<Arc<str>>>,
    /// Reads of work that is not in memory.
    pub(super) loads: Loads,
    /// Workers that the operator drained.
    pub(super) drained: HashSet<WorkerId>,
    pub(super) draining: bool,
    pub(super) stopped: bool,
    /// Decisions since the last transaction began.
    pub(super) decided: Decided,
    /// The transaction on its way to the store.
    pub(super) commit: Option<Commit>,
    pub(super) assignments: BTreeMap<WorkerId, Vec<(JobId, u64)>>,
    /// Workers that keep leases until the next commit. The next round makes their assignments
    /// again.
    pub(super) withheld: BTreeSet<WorkerId>,
    /// Latency records of jobs whose ends are already committed. Only now are the records complete.
    pub(super) late: Vec<Write>,
    pub(super) late_since: Option<Instant>,
    /// Present while the store fails.
    pub(super) stall: Option<Stall>,
    /// When the dispatcher last dropped a job from memory, because the job had ended or all jobs
    /// were reloaded.
    pub(super) last_end: Option<Instant>,
    /// The outcome that a worker is handing in, and the scheduler's verdict on the outcome.
    pub(super) outcome: Option<HandedIn>,
    pub(super) verdict: Option<bool>,
}

impl Actor {
    /// An actor that holds the unfinished jobs of the previous process.
    pub(super) async fn restore(
        parts: Parts,
        commands: mpsc::Receiver<Command>,
    ) -> Result<(Self, watch::Receiver<Arc<Vec<PoolView>>>), ApiError> {
        let (pools, watched) = watch::channel(Arc::default());
        let uptime = parts.clock.epoch();
        let loads = Loads::new(parts.store.clone(), parts.keystore.clone());
        let mut actor = Self {
            scheduler: Scheduler::new(config(&parts.limits)),
            workers: Workers::new(&parts.limits, uptime.clone()),
            parts,
            uptime,
            commands,
            commands_before_tick: None,
            pools,
            pools_due_micros: None,
            pools_next_micros: 0,
            gauges_next_micros: 0,
            gauges_are_stale: true,
            audit: Audit::default(),
            jobs: Jobs::new(),
            requests: HashMap::new(),
            tenants: HashMap::new(),
            placement: Placement::new(),
            checks: Checks::default(),
            work_bytes: FairShare::new(WORK_BYTES_MAX, TENANT_WORK_BYTES_MAX),
            loads,
            drained: HashSet::new(),
            draining: false,
            stopped: false,
            decided: Decided::default(),
            commit: None,
            assignments: BTreeMap::new(),
            withheld: BTreeSet::new(),
            late: Vec::new(),
            late_since: None,
            stall: None,
            last_end: None,
            outcome: None,
            verdict: None,
        };
        actor.parts.telemetry.metrics.invariants.add(0, [audit::LIVE_JOBS]);
        actor.drained = actor.parts.store.drained_workers().await.map_err(database::failed)?;
        actor.reload(true).await.map_err(database::failed)?;
        actor.finish().await;
        match actor.stall {
            None => Ok((actor, watched)),
            Some(stall) => Err(stall.refusal),
        }
    }

    /// Runs until the last sender of commands is dropped.
    pub(super) async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        while self.round(&mut batch).await {}
        self.stopped = true;
        self.finish().await;
    }

    /// Waits for something to do, and does it. Returns false once the dispatcher is to stop.
    pub(super) async fn round(&mut self, batch: &mut Vec<Command>) -> bool {
        let wake = tokio::time::Instant::from_std(self.next_wake());
        tokio::select! {
            biased;
            applied = Self::applied(&mut self.commit) => self.committed(applied).await,
            received = self.commands.recv_many(batch, BATCH), if self.has_room() => {
                if received == 0 {
                    return false;
                }
            }
            loaded = self.loads.next() => self.loaded(loaded),
            stored = Self::counted(&mut self.audit) => self.end_audit(stored),
            () = self.parts.store.ownership().fell_behind() => self.fell_behind().await,
            () = sleep_until(wake) => {}
        }
        let handled = batch.len();
        for command in batch.drain(..) {
            self.handle(command).await;
        }
        while let Some(loaded) = self.loads.try_next() {
            self.loaded(loaded);
        }
        self.tick_after(handled);
        if self.stopped {
            return false;
        }
        self.settle().await;
        self.begin_audit();
        true
    }

    /// Whether more commands may be decided. Answers wait for a transaction, however long it takes.
    fn has_room(&self) -> bool {
        self.decided.answers.len() < ANSWERS_MAX
    }

    async fn handle(&mut self, command: Command) {
        let Some(command) = self.pass(command) else { return };
        match command {
            Command::Submit { job, promised, share, reply } => self.submit(*job, promised, share, reply).await,
            Command::Confirm { tenant, job, reply } => match self.watched(&tenant, job) {
                Some(watched) => {
                    self.promise(job);
                    self.decided.writes.push(Write::Confirmed(job));
                    self.decided.answers.push(Answer::Found(reply, watched));
                }
                // The job may have ended a moment ago, with an end that is not on disk yet.
                None => {
                    self.hurry();
                    self.decided.answers.push(Answer::Ended(reply));
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
            // The answer follows all earlier decisions. While the store fails, the reply comes at
            // once.
            Command::Settled { reply } => match self.stall {
                None => self.decided.answers.push(Answer::Settled(reply)),
                Some(_) => drop(reply.send(())),
            },
            Command::RefuseQuarantined { worker, reply } => drop(reply.send(self.checks.refuse_quarantined(worker))),
            Command::Attach { report, seat, turn: _turn, reply } => {
                let worker = report.worker;
                let now_micros = self.uptime.micros();
                let admitted = self.checks.refuse_quarantined(worker);
                let admitted =
                    admitted.and_then(|()| self.placement.admit(&self.parts.neighbours, now_micros, &report, seat));
                match admitted.and_then(|()| self.workers.attach(report.clone())) {
                    Ok((wishes, stream)) => {
                        self.reported(&report);
                        // The complete assignment, changed or not, because the new stream has
                        // received nothing yet.
                        self.assignments.insert(worker, self.scheduler.assignment(worker));
                        self.publish_pools_if_due();
                        if reply.send(Ok((wishes, stream))).is_err() && self.workers.detach(worker, stream) {
                            self.step(Event::WorkerGone { worker, crashed: false });
                        }
                    }
                    Err(refusal) => drop(reply.send(Err(refusal))),
                }
            }
            Command::Report { stream, report, turn: _turn, reply } => {
                if self.workers.report(stream, report.clone()) {
                    self.reported(&report);
                }
                let _ = reply.send(());
            }
            Command::Detach { worker, stream } => {
                if self.workers.detach(worker, stream) {
                    self.parts.telemetry.metrics.worker_disconnects.add(1, ["left"]);
                    self.placement.forget(worker);
                    self.step(Event::WorkerGone { worker, crashed: false });
                }
                self.pools_changed();
                self.publish_pools_if_due();
            }
            Command::Leased { worker, job, epoch, reply } => {
                let leased = self.workers.wished(worker).map(|wish| wish.get(&(job, epoch)).cloned());
                let leased = leased.ok_or_else(|| WORKER_UNKNOWN.error("the worker has no assignment yet"));
                let _ = reply.send(self.checks.refuse_quarantined(worker).and(leased));
            }
            Command::Commit { outcome, share, reply } => self.commit(HandedIn { outcome, share }, reply),
            Command::Snapshot { reply } => _ = reply.send(self.snapshot()),
            Command::SetDrained { worker, is_drained, reply } => {
                _ = reply.send(self.set_drained(worker, is_drained));
            }
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
                self.decided.answers.push(Answer::Found(reply, watched));
            }
            None => drop(reply.send(Ok(None))),
        }
    }

    fn commit(&mut self, handed_in: HandedIn, reply: oneshot::Sender<Result<bool, ApiError>>) {
        let outcome = &handed_in.outcome;
        if let Err(refusal) = self.checks.refuse_quarantined(outcome.worker) {
            return drop(reply.send(Err(refusal)));
        }
        let event = Event::Committed {
            worker: outcome.worker,
            job: outcome.job,
            epoch: outcome.epoch,
            outcome: super::effects::verdict_on(outcome),
        };
        self.outcome = Some(handed_in);
        self.verdict = None;
        self.step(event);
        self.outcome = None;
        let accepted = self.verdict.take() == Some(true);
        if !accepted {
            self.parts.telemetry.metrics.stale_results.add(1, []);
        }
        // A refusal waits too: the decision behind it, such as a cancellation, may not be
        // committed.
        self.decided.answers.push(Answer::Committed(reply, accepted));
    }

    fn reported(&mut self, report: &WorkerReport) {
        for lease in &report.report.leases {
            let Some(live) = self.jobs.get(&lease.job).filter(|live| live.epoch == lease.epoch) else { continue };
            let now = (lease.rows_done.min(live.meta.rows), Some(lease.stage));
            // A worker keeps the lease of a job that has ended until the end is committed.
            let changed = |view: &JobView| view.end.is_none() && (view.rows_done, view.stage) != now;
            if changed(&live.view.borrow()) {
                live.publish(|view| (view.rows_done, view.stage) = now);
            }
        }
        let event = self.event_of(report);
        self.step(Event::Reported { worker: report.worker, report: event });
        self.pools_changed();
    }

    /// A worker's report as the scheduler gets it.
    pub(super) fn event_of(&self, report: &WorkerReport) -> cloakwork_scheduler::Report {
        let mut event = report.report.clone();
        event.draining |= self.placement.is_leaving(report.worker) || self.drained.contains(&report.worker);
        event
    }

    pub(super) fn pools_changed(&mut self) {
        self.pools_due_micros.get_or_insert(self.pools_next_micros);
    }

    /// Makes the view of the pools if it is due. A view takes time in proportion to all workers and
    /// what they report.
    fn publish_pools_if_due(&mut self) {
        let now_micros = self.uptime.micros();
        if self.pools_due_micros.is_none_or(|due| due > now_micros) {
            return;
        }
        (self.pools_due_micros, self.pools_next_micros) = (None, now_micros + POOLS_INTERVAL_MICROS);
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
        if self.is_void() {
            return;
        }
        let mut next = Some(event);
        while let Some(event) = next {
            let mut effects: Vec<Effect> = Vec::new();
            self.scheduler.feed(self.uptime.micros(), event, &mut effects);
            effects.into_iter().for_each(|effect| self.effect(effect));
            // Effects may lead to events about checks. These come after all effects, which the
            // store must get in their order.
            next = self.checks.next_event();
        }
    }

    /// Looks at the timers once the commands that wait now are handled: a late tick must not expire
    /// a lease that a waiting report renews. Commands that arrive later do not delay the timers.
    /// Otherwise a steady stream of commands would suspend all deadlines.
    fn tick_after(&mut self, handled: usize) {
        let before_tick = match self.commands_before_tick {
            Some(left) => left.saturating_sub(handled),
            None => self.commands.len(),
        };
        self.commands_before_tick = Some(before_tick).filter(|left| *left > 0);
        if before_tick == 0 && !self.is_void() {
            self.tick();
        }
    }

    fn tick(&mut self) {
        for (worker, name) in self.workers.take_lost() {
            tracing::warn!(worker = %format_args!("{:032x}", worker.0), name = &*name, "a worker is lost");
            self.parts.telemetry.metrics.worker_disconnects.add(1, ["lost"]);
            self.placement.forget(worker);
            self.step(Event::WorkerGone { worker, crashed: true });
        }
        if self.scheduler.next_timer().is_some_and(|due| due <= self.uptime.micros()) {
            self.step(Event::Tick);
        }
        self.publish_pools_if_due();
        let stats = self.scheduler.stats();
        self.observe_if_due(&stats);
        if !self.draining {
            self.place_workers(&stats);
        }
    }

    fn observe_if_due(&mut self, stats: &Stats) {
        let now_micros = self.uptime.micros();
        self.gauges_are_stale = self.gauges_next_micros > now_micros;
        if !self.gauges_are_stale {
            self.gauges_next_micros = now_micros + GAUGES_INTERVAL_MICROS;
            let telemetry = &self.parts.telemetry;
            record::observe(telemetry, stats, now_micros, &self.pools.borrow());
            self.parts.backlogs.observe(&telemetry.metrics, stats);
        }
    }

    /// When the loop must run although nothing has happened.
    pub(super) fn next_wake(&self) -> Instant {
        let now = Instant::now();
        let far = now + Duration::from_secs(60);
        // Timers wait for the commands before them, and these commands wait for the transaction on
        // its way. A timer that is due would wake the loop again and again until then.
        if self.commit.is_some() && !self.has_room() && !self.commands.is_empty() {
            return far;
        }
        let placement = self.placement.due(&self.parts.neighbours).filter(|_| !self.draining);
        let timers = [
            self.scheduler.next_timer(),
            self.workers.next_lost(),
            self.pools_due_micros,
            self.gauges_due_micros(),
            placement,
        ];
        let timer = timers.into_iter().flatten().min().map(|due| {
            let left = Duration::from_micros(due.saturating_sub(self.uptime.micros()));
            now.checked_add(left).map_or(far, |due| due.min(far))
        });
        if let (Some(stall), None) = (&self.stall, &self.commit) {
            return stall.until;
        }
        // The end of the transaction on its way wakes the loop for late records, and for work that
        // was read.
        let late = self.late_due().into_iter().chain(self.loads.due()).min().filter(|_| self.commit.is_none());
        [timer, late].into_iter().flatten().min().unwrap_or(far)
    }

    /// When the gauges must be computed again. The age of the oldest job is one of them, and this
    /// age grows although nothing happens.
    pub(super) fn gauges_due_micros(&self) -> Option<u64> {
        match (self.gauges_are_stale, self.jobs.is_empty()) {
            (true, _) => Some(self.gauges_next_micros),
            (false, false) => Some(self.gauges_next_micros.saturating_add(QUIET_GAUGES_INTERVAL_MICROS)),
            (false, true) => None,
        }
    }

    /// Rebuilds the scheduler from the store. `restarted` means that the previous process ended,
    /// and its embedded worker with it.
    pub(super) async fn reload(&mut self, restarted: bool) -> Result<(), Error> {
        if restarted {
            self.parts.store.begin().await?;
        }
        self.parts.store.settle().await?;
        // The database may have lost the commits that stored them.
        self.parts.store.forget_known_programs();
        self.parts.keystore.forget_known_keys();
        let stored = self.parts.store.live_jobs().await?;
        self.last_end = Some(Instant::now());
        // Ends that the database knows may not be on its disk, and callers are about to see them.
        self.late_since.get_or_insert_with(Instant::now);
        let told = std::mem::take(&mut self.decided).handed_over;
        self.assignments.clear();
        self.withheld.clear();
        let mut before = std::mem::take(&mut self.jobs);
        self.requests.clear();
        self.loads.forget_all();
        self.drop_checks();
        self.scheduler = Scheduler::new(config(&self.parts.limits));
        let mut kept = BTreeSet::new();
        for job in stored {
            let id = job.meta.id;
            match before.remove(&id) {
                Some(live) if told.iter().any(|told| told.job == id) => {
                    self.requests.insert((job.meta.tenant.clone(), job.meta.request_id), id);
                    self.jobs.insert(id, live);
                    kept.insert(id);
                }
                live => self.restore_job(job, live),
            }
        }
        let (known, unknown): (Vec<_>, Vec<_>) = told.into_iter().partition(|told| kept.contains(&told.job));
        self.decided.handed_over = known;
        // A transaction may have succeeded although it was reported as failed. The job's last write
        // then closes the job.
        for told in unknown {
            self.late.push(told.record);
            self.late_since.get_or_insert_with(Instant::now);
        }
        let known: Vec<Arc<WorkerReport>> = self.workers.latest().cloned().collect();
        let dead = if restarted { self.embedded_before().await? } else { Vec::new() };
        self.step(Event::Recovered { dead });
        for event in self.checks.quarantines() {
            self.step(event);
        }
        for report in known {
            let worker = report.worker;
            self.reported(&report);
            // The worker may have received leases that the failed transaction made void.
            self.assignments.insert(worker, self.scheduler.assignment(worker));
        }
        Ok(())
    }

    fn restore_job(&mut self, job: LiveJob, before: Option<Live>) {
        let live = Live::restored(&job, before);
        let scheduled = self.scheduled(&job.meta, job.work_bytes);
        self.requests.insert((job.meta.tenant.clone(), job.meta.request_id), job.meta.id);
        self.jobs.insert(job.meta.id, live);
        self.step(Event::Restored(RestoredJob {
            job: scheduled,
            // The time of day may have been set back since.
            submitted: self.monotonic(job.meta.created_micros).min(self.uptime.micros()),
            attempts: job.attempts,
            epoch: job.epoch,
            suspect: job.suspect.map(SuspectId),
            solo_crashes: job.solo_crashes,
            holder: job.worker.map(WorkerId),
        }));
    }

    /// Embedded workers of earlier processes. These workers are certainly dead.
    async fn embedded_before(&mut self) -> Result<Vec<WorkerId>, Error> {
        let workers = self.parts.store.embedded_workers().await?;
        Ok(workers.into_iter().map(WorkerId).collect())
    }

    /// Converts a Unix time in microseconds to the scheduler's clock.
    pub(super) fn monotonic(&self, unix: i64) -> u64 {
        let left = unix.saturating_sub(self.parts.clock.unix_micros());
        self.uptime.micros().saturating_add_signed(left)
    }
}

/// Cost that a tenant is served before the next tenant's turn, in units of
/// `ParameterSet::bootstrap_weight`. The quantum is about 64 bootstraps of the default set, or two
/// waves of a small worker.
pub(super) const QUANTUM_COST: u64 = 6400;

pub(super) fn config(limits: &Limits) -> Config {
    Config {
        lease_micros: limits.lease_ms * 1000,
        progress_timeout_micros: limits.progress_ms * 1000,
        attempts_max: u32::try_from(limits.job_attempts).unwrap_or(u32::MAX),
        jobs_max: usize::try_from(limits.queued_jobs).unwrap_or(usize::MAX),
        jobs_per_tenant_max: usize::try_from(limits.tenant_queued_jobs).unwrap_or(usize::MAX),
        workers_max: usize::try_from(limits.workers).unwrap_or(usize::MAX),
        leased_bytes_per_worker_max: LEASED_BYTES_PER_WORKER_MAX,
        quantum_cost: QUANTUM_COST,
        overtaking_cost_max: 16 * QUANTUM_COST,
        checks_max: CHECKS_MAX as usize,
        quarantined_max: QUARANTINED_MAX,
        ..Config::default()
    }
}
