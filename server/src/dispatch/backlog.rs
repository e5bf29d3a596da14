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
            let set = table::by_name(REFERENCE_SET);
            let cost_per_second = set.map_or(1, |set| cost_of_blocks(set, pool.bootstraps_per_second, 0));
            Declared { name: name.clone().leak(), sets, cost_per_second }
        };
        Self(pools.iter().map(declared).collect())
    }

    /// Records the seconds that one worker of a pool would take for the pool's work: for the
    /// waiting jobs of its sets, whichever pool will get them, and for the rest of the jobs that
    /// its workers hold. A pool with a held job has some work left, so the autoscaler keeps a
    /// worker.
    pub(super) fn observe(&self, metrics: &Metrics, stats: &Stats) {
        for Declared { name, sets, cost_per_second } in &self.0 {
            let waiting: u128 = sets.iter().filter_map(|set| stats.waiting.get(set)).sum();
            let pool = stats.pools.get(*name);
            let held = pool.map_or(0, |pool| pool.held_cost.max(u128::from(pool.jobs > 0)));
            let seconds = (waiting + held).div_ceil(u128::from(*cost_per_second));
            metrics.pool_backlog.set(u64::try_from(seconds).unwrap_or(u64::MAX), [*name]);
        }
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_scheduler::PoolStats;

    use super::*;
    use crate::{config::Sets, metrics::Telemetry};

    #[test]
    fn a_pool_without_workers_shows_the_seconds_of_its_waiting_jobs() {
        let telemetry = Telemetry::new().unwrap();
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
            let scraped = telemetry.scrape().unwrap();
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
