//! A small fleet, so that every test run simulates one.

use super::{Size, burst, steady};

const SMALL: Size = Size { shards: 3, workers: 30, jobs: 2_000, tenants: 100 };

#[test]
fn a_small_fleet_does_all_jobs_fairly() {
    let report = steady(SMALL, 3, 3);
    assert!(report.done > 0.95 * report.offered, "{report:?}");
    assert!(report.hits > 0.9 && report.fairness > 0.95, "{report:?}");
}

#[test]
fn a_burst_on_one_shard_is_evened_out() {
    let burst = burst(SMALL, 3, 60);
    assert!(burst.backlog_max > 0.25 && burst.gone_seconds.is_some(), "{burst:?}");
}
