//! The work that is left for each declared pool. An autoscaler sizes pools by this metric.

use std::collections::BTreeMap;

use cloakwork_params::{AnySet, SetId, table};
use cloakwork_scheduler::Stats;

use crate::{
    config::{Pool, REFERENCE_SET},
    jobs::cost_of_blocks,
    metrics::Metrics,
};

/// The pools that the settings declare.
#[derive(Clone, Debug, Default)]
pub struct Backlogs(Vec<Declared>);

#[derive(Clone, Debug)]
struct Declared {
    /// Labels of metrics are fixed text. The declared pools are fixed while the process runs.
    name: &'static str,
    /// Sets that the pool's workers compute.
    sets: Vec<SetId>,
    /// Cost that one worker computes in a second.
    cost_per_second: u64,
}

impl Backlogs {
    /// Call this once for each server: the names are never freed.
    pub fn new(pools: &BTreeMap<String, Pool>) -> Self {
        let declared = |(name, pool): (&String, &Pool)| {
            let named = |set: &AnySet| pool.sets.0.is_empty() || pool.sets.0.contains(&set.name());
            let sets = AnySet::all().filter(named).map(AnySet::id).collect();
            let cost_per_second = cost_per_second(pool.bootstraps_per_second);
            Declared { name: name.clone().leak(), sets, cost_per_second }
        };
        Self(pools.iter().map(declared).collect())
    }

    /// Names of the declared pools.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|declared| declared.name)
    }

    /// Time in milliseconds that one worker of a pool would take for the pool's work. A worker of a
    /// pool that is not declared computes all sets, as fast as [`UNDECLARED_RATE`] says.
    pub(super) fn millis(&self, stats: &Stats, pool: &str) -> u64 {
        let millis = match self.0.iter().find(|declared| declared.name == pool) {
            Some(declared) => (declared.work(stats) * 1000).div_ceil(declared.cost_per_second.into()),
            None => {
                let waiting: u128 = stats.waiting.values().sum();
                let rate = cost_per_second(UNDECLARED_RATE);
                ((waiting + held(stats, pool)) * 1000).div_ceil(rate.into())
            }
        };
        u64::try_from(millis).unwrap_or(u64::MAX)
    }

    /// Records the seconds that one worker of a pool would take for the pool's work: for the
    /// waiting jobs of its sets, whichever pool will get them, and for the rest of the jobs that
    /// its workers hold. A pool with a held job has some work left, so the autoscaler keeps a
    /// worker.
    pub(super) fn observe(&self, metrics: &Metrics, stats: &Stats) {
        for declared in &self.0 {
            let seconds = declared.work(stats).div_ceil(declared.cost_per_second.into());
            metrics.pool_backlog.set(u64::try_from(seconds).unwrap_or(u64::MAX), [declared.name]);
        }
    }
}

impl Declared {
    /// Cost of the work that is left for the pool.
    fn work(&self, stats: &Stats) -> u128 {
        let waiting: u128 = self.sets.iter().filter_map(|set| stats.waiting.get(set)).sum();
        waiting + held(stats, self.name)
    }
}

/// Bootstraps of [`REFERENCE_SET`] that a worker computes in a second, where no setting says it.
/// About one core.
const UNDECLARED_RATE: u64 = 300;

/// Cost that the workers of a pool hold.
fn held(stats: &Stats, pool: &str) -> u128 {
    stats.pools.get(pool).map_or(0, |pool| pool.held_cost.max(u128::from(pool.jobs > 0)))
}

/// Cost of so many bootstraps of [`REFERENCE_SET`] in a second, at least 1.
fn cost_per_second(bootstraps: u64) -> u64 {
    table::by_name(REFERENCE_SET).map_or(1, |set| cost_of_blocks(set, bootstraps, 0)).max(1)
}

#[cfg(test)]
mod tests {
    use cloakwork_scheduler::PoolStats;

    use super::*;
    use crate::{config::Sets, metrics::Telemetry};

    #[test]
    fn a_pool_without_workers_shows_the_seconds_of_its_waiting_jobs() {
        let telemetry = Telemetry::new(10).unwrap();
        let set = |name| AnySet::by_name(name).unwrap();
        let (reference, toy) = (set(REFERENCE_SET), set("TOY_MESSAGE_2_CARRY_2"));
        let pool = |rate, sets: &[AnySet]| Pool {
            bootstraps_per_second: rate,
            sets: Sets(sets.iter().map(|set| set.name()).collect()),
        };
        let pools = [("cpu", pool(300, &[])), ("gpu", pool(9000, &[reference])), ("toy", pool(1, &[toy]))];
        let pools = pools.map(|(name, pool)| (name.to_owned(), pool)).into();
        let backlogs = Backlogs::new(&pools);
        let cost = |bootstraps| u128::from(cost_of_blocks(table::by_name(REFERENCE_SET).unwrap(), bootstraps, 0));
        let lines = |stats: &Stats, expected: [u64; 3]| {
            backlogs.observe(&telemetry.metrics, stats);
            let scraped = telemetry.scrape(cloakwork_telemetry::Format::Prometheus);
            for (name, seconds) in ["cpu", "gpu", "toy"].into_iter().zip(expected) {
                let line = format!("cloakwork_pool_backlog_worker_seconds{{pool=\"{name}\"}} {seconds}");
                assert!(scraped.lines().any(|found| found == line), "no {line}:\n{scraped}");
            }
        };
        lines(&Stats::default(), [0, 0, 0]);
        let waiting = Stats { waiting: [(reference.id(), cost(18_000))].into(), ..Stats::default() };
        lines(&waiting, [60, 2, 0]);
        let held = PoolStats { workers: 1, jobs: 1, held_cost: cost(9_001), ..PoolStats::default() };
        let nearly_done = PoolStats { held_cost: 0, ..held };
        let pools = [("gpu".to_owned(), held), ("cpu".to_owned(), nearly_done)].into();
        lines(&Stats { pools, ..waiting }, [61, 4, 0]);
    }
}
