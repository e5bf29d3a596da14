//! Checks: rows of accepted results that another worker computes a second time.
//!
//! A check lives in memory only. The client's result does not wait for it, and no tenant's job
//! does. After a mismatch, one of the two workers is wrong, and a third worker of their class
//! decides which. Where there is none, both are quarantined: the worker that computes the second
//! time may be the one that lies.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_params::AnySet;
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
    class: String,
    /// The results so far: of the first worker, and of a second one that differs.
    results: Vec<Computed>,
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
    /// The first worker's rows are right.
    Confirmed { wrong: Vec<WorkerId> },
    /// Two workers differ, and only a third can tell which is wrong.
    Open,
    /// The first worker's rows are not confirmed.
    Wrong(Vec<WorkerId>),
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

    /// Fails for a worker that is quarantined.
    pub(super) fn admit(&self, worker: WorkerId) -> Result<(), ApiError> {
        match self.quarantined.contains(&worker) {
            false => Ok(()),
            true => Err(WORKER_QUARANTINED.error("the results of this worker were found wrong")),
        }
    }

    /// The events that quarantine the same workers in a new scheduler.
    pub(super) fn quarantines(&self) -> Vec<Event> {
        self.quarantined.iter().map(|worker| Event::Quarantined { worker: *worker }).collect()
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
            is_reproducible: true,
        }))
    }
}

impl Computed {
    /// The verdict on earlier results in the light of this one.
    fn judge(&self, earlier: &[Self]) -> Verdict {
        match earlier {
            [first] if first.digests == self.digests => Verdict::Confirmed { wrong: Vec::new() },
            [_] => Verdict::Open,
            [first, second] if first.digests == self.digests => Verdict::Confirmed { wrong: vec![second.worker] },
            [first, second] if second.digests == self.digests => Verdict::Wrong(vec![first.worker]),
            _ => Verdict::Wrong(earlier.iter().chain([self]).map(|computed| computed.worker).collect()),
        }
    }
}

impl Actor {
    /// Begins to check the rows of a job that has just succeeded. Rows that cannot be checked are
    /// counted.
    pub(super) fn begin_check(&mut self, job: JobId, worker: WorkerId, sample: Sample, lowering: v1::Lowering) {
        let count = sample.rows.len() as u64;
        if count == 0 {
            return;
        }
        if let Err(reason) = self.try_check(job, worker, sample, lowering) {
            self.parts.telemetry.metrics.rows_unverified.add(count, [reason]);
        }
    }

    fn try_check(
        &mut self,
        job: JobId,
        worker: WorkerId,
        sample: Sample,
        lowering: v1::Lowering,
    ) -> Result<(), &'static str> {
        let Some(meta) = self.jobs.get(&job).map(|live| live.meta.clone()) else { return Err("lost") };
        let is_fixed = matches!(meta.set, AnySet::Ckks(_)) || lowering != v1::Lowering::Unspecified;
        let (class, name) = self.workers.class_and_name(worker);
        let digests = sample.digests.filter(|_| is_fixed && !class.is_empty()).ok_or("not_reproducible")?;
        if !self.scheduler.can_check(&class, meta.set.id(), &[worker]) {
            return Err("no_worker");
        }
        let leases = self.workers.wished(worker).unwrap_or_default();
        let leased = leases.iter().find(|((of, _), _)| *of == job).map(|(_, leased)| leased.clone()).ok_or("lost")?;
        let shares = self.shares(&meta.tenant, &leased.work)?;
        let count = sample.rows.len() as u64;
        let cost = u128::from(meta.cost) * u128::from(count) / u128::from(meta.rows.max(1));
        let check = JobMeta {
            id: id::new(self.parts.clock.unix_micros()),
            cost: u64::try_from(cost).unwrap_or(u64::MAX).max(1),
            priority: PRIORITY,
            ..(*meta).clone()
        };
        // A job of all its rows needs no list of them.
        let rows = if count == meta.rows { Vec::new() } else { sample.rows };
        let time = CHECK_TIME.saturating_add(leased.since.elapsed().saturating_mul(ATTEMPT_TIMES));
        self.add_check(Pending {
            meta: Arc::new(check),
            job,
            work: leased.work.clone(),
            rows: CheckedRows { rows: rows.into(), lowering },
            count,
            class,
            results: vec![Computed { worker, name, digests }],
            time,
            deadline: Instant::now(),
            _shares: shares,
        });
        Ok(())
    }

    /// The memory that a check takes.
    fn shares(&self, tenant: &Arc<str>, work: &Work) -> Result<[Share<Arc<str>>; 2], &'static str> {
        let count = self.checks.counts.try_take(tenant, 1).map_err(|_| "crowded")?;
        let bytes = self.checks.bytes.try_take(tenant, work.bytes() as u64).map_err(|_| "crowded")?;
        Ok([count, bytes])
    }

    fn add_check(&mut self, mut pending: Pending) {
        pending.deadline = Instant::now() + pending.time;
        let meta = pending.meta.clone();
        let until = self.uptime.micros().saturating_add(u64::try_from(pending.time.as_micros()).unwrap_or(u64::MAX));
        let check = NewCheck {
            id: meta.id,
            group: Group { tenant: self.tenant(&meta.tenant), key: meta.key_id, set: meta.set.id() },
            cost: meta.cost,
            class: pending.class.clone(),
            excluded: pending.results.iter().map(|computed| computed.worker).collect(),
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
        let worker = match end {
            CheckEnd::Computed { worker } => worker,
            CheckEnd::NoWorker => return self.drop_check(&pending, "no_worker"),
            CheckEnd::Crowded => return self.drop_check(&pending, "crowded"),
            CheckEnd::Failed => return self.drop_check(&pending, "failed"),
            CheckEnd::WorkerLost => return self.drop_check(&pending, "lost"),
            CheckEnd::Expired => return self.drop_check(&pending, "late"),
        };
        let digests = handed_in.and_then(|HandedIn { outcome, .. }| outcome.sample?.digests);
        let Some(digests) = digests else { return self.drop_check(&pending, "failed") };
        let (_, name) = self.workers.class_and_name(worker);
        let computed = Computed { worker, name, digests };
        match computed.judge(&pending.results) {
            Verdict::Confirmed { wrong } => {
                self.parts.telemetry.metrics.rows_verified.add(pending.count, []);
                self.quarantine(&pending, &computed, &wrong);
            }
            Verdict::Wrong(wrong) => self.quarantine(&pending, &computed, &wrong),
            Verdict::Open => self.ask_third(pending, computed),
        }
    }

    /// Has a third worker compute rows on which two workers differ.
    fn ask_third(&mut self, mut pending: Pending, second: Computed) {
        self.parts.telemetry.metrics.verify_mismatches.add(1, []);
        let first = &pending.results[0];
        tracing::error!(
            job = %id::to_text(pending.job), first = &*first.name, second = &*second.name, rows = pending.count,
            "two workers of one class computed different results: one of them is wrong"
        );
        let excluded = [first.worker, second.worker];
        pending.results.push(second);
        if !self.scheduler.can_check(&pending.class, pending.meta.set.id(), &excluded) {
            return self.drop_check(&pending, "no_worker");
        }
        let meta = JobMeta { id: id::new(self.parts.clock.unix_micros()), ..(*pending.meta).clone() };
        pending.meta = Arc::new(meta);
        self.add_check(pending);
    }

    /// Gives a check up. If two workers differ, no third has told which of them is right, and both
    /// are quarantined.
    fn drop_check(&mut self, pending: &Pending, reason: &'static str) {
        self.parts.telemetry.metrics.rows_unverified.add(pending.count, [reason]);
        if let [first, second] = &pending.results[..] {
            self.quarantine(pending, second, &[first.worker, second.worker]);
        }
    }

    /// Quarantines workers that a check has found wrong. `last` is the last result of the check.
    fn quarantine(&mut self, pending: &Pending, last: &Computed, wrong: &[WorkerId]) {
        for computed in pending.results.iter().chain([last]).filter(|computed| wrong.contains(&computed.worker)) {
            let worker = computed.worker;
            if self.checks.quarantined.contains(&worker) {
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
            self.checks.events.push_back(Event::Quarantined { worker });
            self.pools_changed();
        }
    }

    /// Gives all checks up, because the scheduler that knows them is about to be replaced.
    pub(super) fn drop_checks(&mut self) {
        for pending in std::mem::take(&mut self.checks.pending).into_values() {
            self.drop_check(&pending, "lost");
        }
        // The new scheduler gets these events anew.
        self.checks.events.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computed(worker: u128, digest: u8) -> Computed {
        Computed { worker: WorkerId(worker), name: "worker".into(), digests: vec![[digest; 32]] }
    }

    #[test]
    fn two_of_three_workers_decide() {
        let [one, two, three] = [1, 2, 3].map(WorkerId);
        let (first, second) = (computed(1, 7), computed(2, 8));
        assert_eq!(computed(2, 7).judge(std::slice::from_ref(&first)), Verdict::Confirmed { wrong: Vec::new() });
        assert_eq!(second.judge(std::slice::from_ref(&first)), Verdict::Open);
        let earlier = [first, second];
        assert_eq!(computed(3, 7).judge(&earlier), Verdict::Confirmed { wrong: vec![two] });
        assert_eq!(computed(3, 8).judge(&earlier), Verdict::Wrong(vec![one]));
        assert_eq!(computed(3, 9).judge(&earlier), Verdict::Wrong(vec![one, two, three]));
    }
}
