//! The figures that operators see.

use crate::common::{Bed, SECOND, With, job};
use cloakwork_scheduler::{COST_MAX, Config, Event, PoolStats, TenantId, Why, WorkerId};

#[test]
fn a_pool_shows_what_its_workers_hold_and_want() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 100);
    bed.worker(2, 50);
    bed.report(3, |report| report.draining = true);
    bed.report(4, |report| report.pool = "gpu".to_owned());
    bed.submit(job(1).cost(40));
    bed.submit(job(2).cost(30));
    bed.submit(job(3).key(2).cost(20));
    bed.submit(job(4).key(3).cost(10));
    let pools = bed.core.stats().pools;
    let cpu = PoolStats { workers: 3, draining: 1, exclusive: 0, jobs: 3, held_cost: 90, wanted_cost: 250 };
    let gpu = PoolStats { workers: 1, draining: 0, exclusive: 0, jobs: 1, held_cost: 10, wanted_cost: 100 };
    assert_eq!(pools, [("cpu".to_owned(), cpu), ("gpu".to_owned(), gpu)].into());
}

#[test]
fn a_crash_shows_as_a_requeued_job_and_a_worker_that_tries_it() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 100);
    bed.submit(job(1));
    bed.worker(2, 100);
    bed.submit(job(2).key(2));
    bed.run(Event::WorkerGone { worker: WorkerId(2), crashed: true });
    let stats = bed.core.stats();
    assert_eq!((stats.queued, stats.running, stats.suspects), (1, 1, 1));
    assert_eq!(stats.counters.requeued, [(Why::WorkerCrashed, 1)].into());
    bed.worker(3, 100);
    let stats = bed.core.stats();
    assert_eq!((stats.queued, stats.running, stats.pools["cpu"].exclusive), (0, 2, 1));
}

#[test]
fn idle_time_does_not_slow_the_pace() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 1000);
    for id in [1, 2] {
        bed.submit(job(id).cost(1000));
        bed.now += SECOND;
        bed.commit(1, id, 1);
        assert_eq!(bed.core.stats().cost_per_second, 1000);
        bed.now += 100 * SECOND;
    }
}

#[test]
fn the_oldest_waiting_job_shows_since_when_it_waits() {
    let mut bed = Bed::new(Config::default());
    assert_eq!(bed.core.stats().oldest_queued, None);
    for (id, tenths) in [(1, 55), (2, 70)] {
        bed.now = tenths * SECOND / 10 + 1;
        bed.submit(job(id));
        assert_eq!(bed.core.stats().oldest_queued, Some(5_500_000), "to a tenth of a second");
    }
    bed.worker(1, 1);
    assert_eq!(bed.core.stats().oldest_queued, Some(7_000_000), "the worker has the other job");
}

#[test]
fn a_refused_tenant_waits_longer_if_it_shares_the_pace() {
    for others in 0..3 {
        let mut bed = Bed::new(Config { jobs_per_tenant_max: 2, ..Config::default() });
        bed.worker(1, 1000);
        bed.submit(job(1).cost(1000));
        bed.now += SECOND;
        bed.commit(1, 1, 1);
        bed.worker(1, 0);
        (0..others).for_each(|tenant| drop(bed.submit(job(100 + u128::from(tenant)).tenant(2 + tenant))));
        [2, 3].into_iter().for_each(|id| drop(bed.submit(job(id).cost(5000))));
        let refusal = bed.core.admit(TenantId(1), None).expect_err("two jobs are unfinished");
        assert_eq!(refusal.retry_after, (1 + others) * SECOND, "a tenth of 10,000 at a pace of 1000 a second");
    }
}

#[test]
fn a_cost_beyond_the_maximum_counts_as_the_maximum() {
    let mut bed = Bed::new(Config::default());
    bed.submit(job(1).cost(u64::MAX));
    assert_eq!(bed.core.stats().cost, u128::from(COST_MAX));
}
