//! The parameters that a seed determines: limits, jobs, and the severity of the faults.

use cloakwork_params::{KeyId, SetId};

use super::random::Random;
use crate::config::Config;
use crate::types::{Group, TenantId, Time};

/// A tenth of a second, in microseconds.
pub(super) const TENTH: u64 = 100_000;
/// Work that the slowest worker does in a tenth of a second.
pub(super) const RATE_MIN: u64 = 20;

/// A job's behaviour, on any worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Good,
    /// Kills its worker.
    Poison,
    /// Always fails, for a reason that may pass.
    Flaky,
    /// Fails for a permanent reason.
    Broken,
    /// Makes no progress in its first attempt.
    Sticky,
    /// Takes more memory than small workers have.
    Large,
    /// A check that kills its worker.
    Deadly,
}

/// A job that a client is to submit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) kind: Kind,
    pub(super) group: Group,
    pub(super) cost: u64,
    pub(super) bytes: u64,
    pub(super) priority: i8,
    pub(super) at: Time,
    /// Mostly later than the end of any run.
    pub(super) deadline: Time,
    pub(super) cancel_at: Option<Time>,
}

impl Wish {
    /// One row for each unit of work.
    pub(super) fn rows(&self) -> u64 {
        self.cost.max(1)
    }
}

pub(super) struct Plan {
    pub(super) config: Config,
    pub(super) wishes: Vec<Wish>,
    /// Whether a worker lives inside the server and dies with it.
    pub(super) embedded: bool,
    pub(super) remote_workers: u64,
    /// When the faults end.
    pub(super) quiet_at: Time,
    pub(super) faults: u64,
    /// Maximum delay of a message during the faults.
    pub(super) delay_max: u64,
    /// Percentage of transactions that fail during the faults.
    pub(super) bad_transactions: u64,
    pub(super) liars: u64,
    /// Percentage of succeeded jobs that are checked.
    pub(super) checked: u64,
    /// When all jobs must have ended.
    pub(super) end: Time,
}

impl Plan {
    pub(super) fn new(random: &mut Random) -> Self {
        let embedded = random.percent(40);
        let lease_micros = random.range(5, 15) * TENTH;
        let config = Config {
            lease_micros,
            progress_timeout_micros: random.range(10, 30) * TENTH,
            attempts_max: random.range(2, 5) as u32,
            solo_crashes_max: random.range(1, 3) as u32,
            jobs_max: random.range(4, 24) as usize,
            jobs_per_tenant_max: random.range(2, 16) as usize,
            workers_max: random.range(5, 7) as usize,
            leases_per_worker_max: random.range(2, 24) as usize,
            leased_bytes_per_worker_max: random.range(1, 400),
            resident_keys_max: 4,
            checks_max: random.range(1, 6) as usize,
            checks_per_worker_max: random.range(1, 3) as usize,
            quarantined_max: 1000,
            quantum_cost: random.range(1, 200),
            overtaking_cost_max: random.range(1, 400),
        };
        let quiet_at = random.range(10, 80) * TENTH;
        let poison = if random.percent(40) { random.range(5, 30) } else { 0 };
        let strange = if random.percent(50) { 20 } else { 0 };
        let count = random.range(1, 20);
        let wishes: Vec<Wish> = (0..count).map(|_| wish(random, quiet_at, poison, strange)).collect();
        let remote_workers = if embedded { random.range(0, 2) } else { random.range(1, 4) };
        let harsh = random.percent(70);
        let mut plan = Self {
            config,
            wishes,
            embedded,
            remote_workers,
            quiet_at,
            faults: if harsh { random.range(0, 10) } else { 0 },
            delay_max: if random.percent(30) { 2 * lease_micros } else { TENTH / 5 },
            bad_transactions: if harsh { random.range(0, 5) } else { 0 },
            liars: if harsh { random.range(0, 2) } else { 0 },
            checked: if random.percent(60) { random.range(1, 100) } else { 0 },
            end: 0,
        };
        // A deadly check may still wait when the faults end.
        let checks = if plan.checked > 0 { 60 * TENTH } else { 0 };
        plan.end = plan.quiet_at + time_to_finish(&plan.config, &plan.wishes) + checks;
        plan
    }
}

/// I7: the maximum time for all jobs when only the jobs themselves cause failures. Each failed
/// attempt costs at most its lease, its progress timeout, a restart and the work of all jobs.
/// The number of failed attempts is bounded for each kind of job.
pub(super) fn time_to_finish(config: &Config, wishes: &[Wish]) -> Time {
    let work: u64 = wishes.iter().map(|wish| wish.cost.div_ceil(RATE_MIN) + 4).sum::<u64>() * TENTH * 2;
    let overhead = 2 * config.lease_micros + config.progress_timeout_micros + 30 * TENTH;
    let halvings = 5 + u64::from(config.solo_crashes_max);
    let retries = |wish: &Wish| match wish.kind {
        Kind::Poison => halvings + u64::from(config.attempts_max),
        Kind::Flaky | Kind::Large => u64::from(config.attempts_max),
        _ => 2,
    };
    (wishes.iter().map(retries).sum::<u64>() + 2) * (work + overhead)
}

/// A job that a client is to submit. `poison` and `strange` are percentages of jobs that are not
/// good.
pub(super) fn wish(random: &mut Random, quiet_at: Time, poison: u64, strange: u64) -> Wish {
    let tenant = TenantId(random.range(1, 3));
    let key = KeyId([(10 * tenant.0 + random.range(0, 1)) as u8; 16]);
    let group = Group { tenant, key, set: SetId(random.range(1, 2) as u16) };
    let kind = if random.percent(poison) {
        Kind::Poison
    } else if random.percent(strange) {
        random.pick(&[Kind::Flaky, Kind::Broken, Kind::Sticky, Kind::Large]).unwrap_or(Kind::Good)
    } else {
        Kind::Good
    };
    let cost = match random.range(0, 9) {
        0 => 0,
        1 => random.range(200, 1000),
        _ => random.range(1, 60),
    };
    let at = random.range(0, quiet_at);
    let deadline = if random.percent(5) { at + random.range(1, 40) * TENTH } else { Time::MAX / 2 };
    let cancel_at = random.percent(10).then(|| at + random.range(0, 20) * TENTH);
    let (bytes, priority) = (random.range(0, 100), random.range(0, 4) as i8 - 2);
    Wish { kind, group, cost, bytes, priority, at, deadline, cancel_at }
}
