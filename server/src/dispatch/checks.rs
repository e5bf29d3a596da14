//! Checks: rows of accepted results that another worker computes a second time.
//!
//! A check lives in memory only. Neither a client's result nor a tenant's job waits for a check.
//! After a mismatch, a third worker of the class decides which of the two workers is wrong. If no
//! third worker answers, both are quarantined, because either may have lied. The results of a
//! quarantined worker decide nothing.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_proto::v1;
use cloakwork_scheduler::{CheckEnd, Event, Group, JobId, NewCheck, WorkerId};
use cloakwork_share::{FairShare, Share};

use super::{
    actor::Actor,
    effects::HandedIn,
    lease_calls::LeaseCalls,
    live::{Leased, Work},
};
use crate::{
    error::{ApiError, WORKER_QUARANTINED},
    jobs::{JobMeta, id},
    metrics::Metrics,
};

/// Maximum number of checks that wait or run, of all tenants' jobs and of each tenant's.
pub(super) const CHECKS_MAX: u64 = 256;
const TENANT_CHECKS_MAX: u64 = 64;

/// Maximum bytes of the programs and inputs that checks keep in memory, of all tenants and of each.
const CHECK_BYTES_MAX: u64 = 64 << 20;
const TENANT_CHECK_BYTES_MAX: u64 = 16 << 20;

/// Time that a check may take. A check of a long job has four times the time of the attempt in
/// addition.
const CHECK_TIME: Duration = Duration::from_secs(600);
const ATTEMPT_TIMES: u32 = 4;

/// Maximum number of quarantined workers that are remembered. The oldest are forgotten first.
pub(super) const QUARANTINED_MAX: usize = 4096;

/// Maximum number of workers that are asked in vain for one check, for example because they fail.
const VAIN_MAX: usize = 3;

/// Why drawn rows were not compared, or were found wrong.
const UNVERIFIED_REASONS: [&str; 8] =
    ["no_worker", "not_reproducible", "crowded", "too_large", "failed", "lost", "late", "wrong"];

/// Priority of checks on their worker: below that of every job.
const PRIORITY: i8 = i8::MIN;

/// The rows of a result that are computed a second time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The rows, in increasing order.
    pub rows: Vec<u64>,
    /// A digest of these rows for each output. `None` if the worker's results are not reproducible.
    pub digests: Option<Vec<[u8; 32]>>,
}

/// The attempt that a job has succeeded with.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstResult {
    pub(super) job: JobId,
    pub(super) epoch: u64,
    pub(super) worker: WorkerId,
    /// The form in which the worker has computed the program.
    pub(super) lowering: v1::Lowering,
}

/// The part of a lease that only checks have.
#[derive(Clone, Debug)]
pub struct CheckedRows {
    /// The rows to compute, in increasing order. Empty for all rows.
    pub rows: Arc<[u64]>,
    /// The form in which the first worker has computed the program.
    pub lowering: v1::Lowering,
}

/// The checks that wait or run, and the workers that were found wrong.
pub(super) struct Checks {
    pending: BTreeMap<JobId, Pending>,
    /// Events that the scheduler takes once the effects of the current one are applied.
    events: VecDeque<Event>,
    /// Quarantined workers, the latest last.
    quarantined: VecDeque<WorkerId>,
    counts: Arc<FairShare<Arc<str>>>,
    bytes: Arc<FairShare<Arc<str>>>,
}

/// A check.
struct Pending {
    /// The check in the form of a job, under an ID of its own.
    meta: Arc<JobMeta>,
    /// The job whose rows are computed again.
    job: JobId,
    work: Arc<Work>,
    rows: CheckedRows,
    /// Number of rows.
    count: u64,
    class: Arc<str>,
    /// The results so far: of the first worker, and of others that differ.
    results: Vec<Computed>,
    /// Workers that were asked in vain.
    vain: Vec<WorkerId>,
    time: Duration,
    deadline: Instant,
    _shares: [Share<Arc<str>>; 2],
}

/// The rows as a worker has computed them.
#[derive(Clone)]
struct Computed {
    worker: WorkerId,
    name: Arc<str>,
    digests: Vec<[u8; 32]>,
}

/// The verdict after another computation of the rows.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Nothing more is to be found out. These workers are wrong.
    Final { wrong: Vec<WorkerId> },
    /// Two workers differ, and only a third can tell which is wrong.
    Open,
}

/// Exports the counters of checks with zeros. Prometheus sees no increase in the first value of a
/// series, and compares nothing with a series that is missing.
pub fn export_zeros(metrics: &Metrics) {
    for counter in [&metrics.rows_verified, &metrics.verify_mismatches, &metrics.workers_quarantined] {
        counter.add(0, []);
    }
    UNVERIFIED_REASONS.iter().for_each(|reason| metrics.rows_unverified.add(0, [*reason]));
}

impl Default for Checks {
    fn default() -> Self {
        Self {
            pending: BTreeMap::new(),
            events: VecDeque::new(),
            quarantined: VecDeque::new(),
            counts: FairShare::new(CHECKS_MAX, TENANT_CHECKS_MAX),
            bytes: FairShare::new(CHECK_BYTES_MAX, TENANT_CHECK_BYTES_MAX),
        }
    }
}

impl Checks {
    /// The next event for the scheduler.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn is_quarantined(&self, worker: WorkerId) -> bool {
        self.quarantined.contains(&worker)
    }

    /// Fails for a worker that is quarantined.
    pub(super) fn refuse_quarantined(&self, worker: WorkerId) -> Result<(), ApiError> {
        match self.is_quarantined(worker) {
            false => Ok(()),
            true => Err(WORKER_QUARANTINED.error("the results of this worker were found wrong")),
        }
    }

    /// The events that quarantine the same workers in a new scheduler, and remove those that held
    /// jobs.
    pub(super) fn quarantines(&self) -> Vec<Event> {
        self.quarantined.iter().copied().flat_map(quarantine_events).collect()
    }

    /// The lease of a check. Returns `None` for the ID of a job.
    pub(super) fn lease(&self, id: JobId, epoch: u64) -> Option<Arc<Leased>> {
        let pending = self.pending.get(&id)?;
        Some(Arc::new(Leased {
            meta: pending.meta.clone(),
            epoch,
            work: pending.work.clone(),
            since: Instant::now(),
            deadline: pending.deadline,
            calls: Arc::<LeaseCalls>::default(),
            check: Some(pending.rows.clone()),
            class: pending.class.clone(),
        }))
    }
}

impl Computed {
    /// The verdict on earlier results in the light of this one.
    fn judge(&self, earlier: &[Self], is_quarantined: impl Fn(WorkerId) -> bool) -> Verdict {
        let trusted: Vec<&Self> = earlier.iter().filter(|computed| !is_quarantined(computed.worker)).collect();
        let (same, others): (Vec<&Self>, Vec<&Self>) =
            trusted.into_iter().partition(|computed| computed.digests == self.digests);
        let mut wrong: Vec<WorkerId> = others.iter().map(|computed| computed.worker).collect();
        match (same.len(), others.len()) {
            (0, 1) => Verdict::Open,
            // Three workers and three results: no two of them agree.
            (0, 2..) => {
                wrong.push(self.worker);
                Verdict::Final { wrong }
            }
            _ => Verdict::Final { wrong },
        }
    }
}

impl Actor {
    /// Begins to check the rows of a job that has just succeeded. Rows that cannot be checked are
    /// counted.
    pub(super) fn begin_check(&mut self, first: FirstResult, sample: Sample) {
        let count = sample.rows.len() as u64;
        if count == 0 {
            return;
        }
        if let Err(reason) = self.try_check(first, sample) {
            self.parts.telemetry.metrics.rows_unverified.add(count, [reason]);
        }
    }

    fn try_check(&mut self, first: FirstResult, sample: Sample) -> Result<(), &'static str> {
        let FirstResult { job, epoch, worker, lowering } = first;
        let Some(meta) = self.jobs.get(&job).map(|live| live.meta.clone()) else { return Err("lost") };
        let digests = sample.digests.ok_or("not_reproducible")?;
        let leases = self.workers.wished(worker).unwrap_or_default();
        let leased = leases.get(&(job, epoch)).cloned().ok_or("lost")?;
        // The class that the worker had when it got the job. A worker that could state another one
        // with its result could choose which results are checked.
        let class = leased.class.clone();
        if !self.scheduler.can_check(&class, meta.set.id(), &[worker]) {
            return Err("no_worker");
        }
        let count = sample.rows.len() as u64;
        // A job of all its rows needs no list of them.
        let rows = if count == meta.rows { Vec::new() } else { sample.rows };
        let shares = self.shares(&meta.tenant, &leased.work, &rows)?;
        let cost = u128::from(meta.cost) * u128::from(count) / u128::from(meta.rows.max(1));
        let check = JobMeta {
            id: id::new(self.parts.clock.unix_micros()),
            cost: u64::try_from(cost).unwrap_or(u64::MAX).max(1),
            priority: PRIORITY,
            ..(*meta).clone()
        };
        let time = CHECK_TIME.saturating_add(leased.since.elapsed().saturating_mul(ATTEMPT_TIMES));
        self.add_check(Pending {
            meta: Arc::new(check),
            job,
            work: leased.work.clone(),
            rows: CheckedRows { rows: rows.into(), lowering },
            count,
            class,
            results: vec![Computed { worker, name: self.workers.name(worker), digests }],
            vain: Vec::new(),
            time,
            deadline: Instant::now(),
            _shares: shares,
        });
        Ok(())
    }

    /// The memory that a check takes.
    fn shares(&self, tenant: &Arc<str>, work: &Work, rows: &[u64]) -> Result<[Share<Arc<str>>; 2], &'static str> {
        let bytes = (work.bytes() + size_of_val(rows)) as u64;
        if bytes > TENANT_CHECK_BYTES_MAX {
            return Err("too_large");
        }
        let count = self.checks.counts.try_take(tenant, 1).map_err(|_| "crowded")?;
        let bytes = self.checks.bytes.try_take(tenant, bytes).map_err(|_| "crowded")?;
        Ok([count, bytes])
    }

    /// Asks a worker that was not asked before for the rows, under a new ID.
    fn add_check(&mut self, mut pending: Pending) {
        pending.deadline = Instant::now() + pending.time;
        let until = self.uptime.micros().saturating_add(u64::try_from(pending.time.as_micros()).unwrap_or(u64::MAX));
        let meta = pending.meta.clone();
        let check = NewCheck {
            id: meta.id,
            group: Group { tenant: self.tenant(&meta.tenant), key: meta.key_id, set: meta.set.id() },
            cost: meta.cost,
            class: (*pending.class).to_owned(),
            excluded: pending.asked(),
            // A worker that lies goes on until it is found.
            urgent: pending.results.len() > 1,
            until,
        };
        self.checks.pending.insert(meta.id, pending);
        self.checks.events.push_back(Event::CheckSubmitted(check));
    }

    /// Compares the rows of a check that has ended, and acts on the result.
    pub(super) fn check_ended(&mut self, check: JobId, end: CheckEnd) {
        let handed_in = self.outcome.take_if(|handed_in| handed_in.outcome.job == check);
        let Some(pending) = self.checks.pending.remove(&check) else { return };
        let digests = handed_in.and_then(|HandedIn { outcome, .. }| outcome.check);
        match (end, digests) {
            (CheckEnd::Computed { worker }, Some(digests)) => {
                self.compare(pending, Computed { worker, name: self.workers.name(worker), digests });
            }
            (CheckEnd::Computed { worker } | CheckEnd::Failed { worker }, _) => {
                self.ask_another(pending, worker, "failed");
            }
            (CheckEnd::WorkerLost { worker }, _) => self.ask_another(pending, worker, "lost"),
            (CheckEnd::NoWorker, _) => self.drop_check(&pending, "no_worker"),
            (CheckEnd::Crowded, _) => self.drop_check(&pending, "crowded"),
            (CheckEnd::Expired, _) => self.drop_check(&pending, "late"),
        }
    }

    fn compare(&mut self, mut pending: Pending, computed: Computed) {
        let telemetry = self.parts.telemetry.clone();
        let metrics = &telemetry.metrics;
        let first = &pending.results[0];
        let is_first_right = first.digests == computed.digests;
        if pending.results.len() == 1 && !is_first_right {
            metrics.verify_mismatches.add(1, []);
            tracing::error!(
                job = %id::to_text(pending.job), rows = pending.count,
                first = &*first.name, first_id = %format_args!("{:032x}", first.worker.0),
                second = &*computed.name, second_id = %format_args!("{:032x}", computed.worker.0),
                "two workers of one class computed different results: one of them is wrong"
            );
        }
        match computed.judge(&pending.results, |worker| self.checks.is_quarantined(worker)) {
            Verdict::Final { wrong } => {
                match is_first_right {
                    true => metrics.rows_verified.add(pending.count, []),
                    false => metrics.rows_unverified.add(pending.count, ["wrong"]),
                }
                pending.results.push(computed);
                self.quarantine(&pending, &wrong);
            }
            Verdict::Open => {
                pending.results.push(computed);
                self.ask(pending, "no_worker");
            }
        }
    }

    /// Has another worker compute the rows, because this one did not.
    fn ask_another(&mut self, mut pending: Pending, worker: WorkerId, reason: &'static str) {
        pending.vain.push(worker);
        // Rows that ended a worker may end the next one too. Only a mismatch is worth that.
        let is_worth_it = reason != "lost" || pending.results.len() > 1;
        match is_worth_it && pending.vain.len() < VAIN_MAX {
            true => self.ask(pending, reason),
            false => self.drop_check(&pending, reason),
        }
    }

    /// Has a worker compute the rows that was not asked before. Gives the check up for this reason
    /// if the class has no such worker.
    fn ask(&mut self, mut pending: Pending, reason: &'static str) {
        if !self.scheduler.can_check(&pending.class, pending.meta.set.id(), &pending.asked()) {
            return self.drop_check(&pending, reason);
        }
        let meta = JobMeta { id: id::new(self.parts.clock.unix_micros()), ..(*pending.meta).clone() };
        pending.meta = Arc::new(meta);
        self.add_check(pending);
    }

    /// Gives a check up. If two workers differ, no third has told which of them is right, and both
    /// are quarantined. A quarantined worker among the two is the wrong one.
    fn drop_check(&mut self, pending: &Pending, reason: &'static str) {
        self.parts.telemetry.metrics.rows_unverified.add(pending.count, [reason]);
        let suspects: Vec<WorkerId> = pending.results.iter().map(|computed| computed.worker).collect();
        if suspects.len() > 1 && !suspects.iter().any(|worker| self.checks.is_quarantined(*worker)) {
            self.quarantine(pending, &suspects);
        }
    }

    /// Quarantines workers that a check has found wrong.
    fn quarantine(&mut self, pending: &Pending, wrong: &[WorkerId]) {
        for computed in pending.results.iter().filter(|computed| wrong.contains(&computed.worker)) {
            let worker = computed.worker;
            if self.checks.is_quarantined(worker) {
                continue;
            }
            tracing::error!(
                worker = %format_args!("{:032x}", worker.0), name = &*computed.name, job = %id::to_text(pending.job),
                "a worker is quarantined: its results were found wrong"
            );
            self.parts.telemetry.metrics.workers_quarantined.add(1, []);
            if self.checks.quarantined.len() >= QUARANTINED_MAX {
                self.checks.quarantined.pop_front();
            }
            self.checks.quarantined.push_back(worker);
            self.checks.events.extend(quarantine_events(worker));
            // The end of its stream also ends the renewal of its certificate. The worker learns of
            // the quarantine when it attaches again.
            if self.workers.expel(worker) {
                self.parts.telemetry.metrics.worker_disconnects.add(1, ["quarantined"]);
            }
            self.pools_changed();
        }
    }

    /// Gives all checks up, because the scheduler that knows them is about to be replaced. Workers
    /// that differ stay: the next check of their results decides.
    pub(super) fn drop_checks(&mut self) {
        for pending in std::mem::take(&mut self.checks.pending).into_values() {
            self.parts.telemetry.metrics.rows_unverified.add(pending.count, ["lost"]);
        }
        // The new scheduler gets these events anew.
        self.checks.events.clear();
    }
}

/// The events that take all work off a worker, and remove it.
fn quarantine_events(worker: WorkerId) -> [Event; 2] {
    [Event::Quarantined { worker }, Event::WorkerGone { worker, crashed: false }]
}

impl Pending {
    /// The workers that were asked for the rows.
    fn asked(&self) -> Vec<WorkerId> {
        self.results.iter().map(|computed| computed.worker).chain(self.vain.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computed(worker: u128, digest: u8) -> Computed {
        Computed { worker: WorkerId(worker), name: "worker".into(), digests: vec![[digest; 32]] }
    }

    fn wrong(workers: &[u128]) -> Verdict {
        Verdict::Final { wrong: workers.iter().copied().map(WorkerId).collect() }
    }

    #[test]
    fn two_of_three_workers_decide() {
        let judge = |last: Computed, earlier: &[Computed]| last.judge(earlier, |_| false);
        let (first, second) = (computed(1, 7), computed(2, 8));
        assert_eq!(judge(computed(2, 7), std::slice::from_ref(&first)), wrong(&[]));
        assert_eq!(judge(second.clone(), std::slice::from_ref(&first)), Verdict::Open);
        let earlier = [first, second];
        assert_eq!(judge(computed(3, 7), &earlier), wrong(&[2]));
        assert_eq!(judge(computed(3, 8), &earlier), wrong(&[1]));
        assert_eq!(judge(computed(3, 9), &earlier), wrong(&[1, 2, 3]));
    }

    #[test]
    fn results_of_quarantined_workers_decide_nothing() {
        let judge = |last: Computed, earlier: &[Computed]| last.judge(earlier, |worker| worker == WorkerId(1));
        let (first, second) = (computed(1, 7), computed(2, 8));
        assert_eq!(judge(second.clone(), std::slice::from_ref(&first)), wrong(&[]));
        assert_eq!(judge(computed(2, 7), std::slice::from_ref(&first)), wrong(&[]));
        let earlier = [first, second];
        assert_eq!(judge(computed(3, 8), &earlier), wrong(&[]));
        // The second worker differs from the third, and only the quarantined one agrees with it.
        assert_eq!(judge(computed(3, 7), &earlier), Verdict::Open);
        assert_eq!(judge(computed(3, 9), &earlier), Verdict::Open);
    }
}
