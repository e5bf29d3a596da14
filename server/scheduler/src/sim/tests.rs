//! The seeds that every test run simulates.

use super::{Summary, run};

#[test]
fn ten_thousand_seeds_hold_the_invariants() {
    let mut sum = Summary::default();
    for seed in 0..10_000 {
        let summary = run(seed, false);
        sum.steps += summary.steps;
        sum.succeeded += summary.succeeded;
        sum.server_deaths += summary.server_deaths;
        sum.worker_deaths += summary.worker_deaths;
        sum.refused += summary.refused;
        sum.poison += summary.poison;
        sum.acquitted += summary.acquitted;
        sum.checks += summary.checks;
        sum.checks_computed += summary.checks_computed;
        sum.checks_deadly += summary.checks_deadly;
        sum.quarantined += summary.quarantined;
    }
    // The counts must show faults: a run without faults proves nothing.
    println!("{sum:?}");
    assert!(sum.succeeded > 50_000, "{sum:?}");
    assert!(sum.server_deaths > 5_000 && sum.worker_deaths > 5_000, "{sum:?}");
    assert!(sum.refused > 1_000 && sum.poison > 1_000, "{sum:?}");
    assert!(sum.acquitted > 100, "{sum:?}");
    assert!(sum.checks > 10_000 && sum.checks_computed > 1_000, "{sum:?}");
    assert!(sum.checks_deadly > 100 && sum.quarantined > 100, "{sum:?}");
}

#[test]
fn a_seed_is_the_whole_run() {
    for seed in [1, 2, 3, 1_000_003] {
        assert_eq!(run(seed, false), run(seed, false));
    }
}
