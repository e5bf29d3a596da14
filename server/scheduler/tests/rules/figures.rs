//! The figures that operators see.

use crate::common::{Bed, SECOND, With, job};
use cloakwork_scheduler::{Config, Event, PoolStats, Why, WorkerId};

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
