//! The seeds that every test run simulates.

use super::{Bug, Summary, run, seeds_to_find};

#[test]
fn a_thousand_seeds_hold_the_invariants() {
    let mut sum = Summary::default();
    for seed in 0..1_000 {
        let summary = run(seed, false, None);
        sum.succeeded += summary.succeeded;
        sum.takeovers += summary.takeovers;
        sum.superseded += summary.superseded;
        sum.fenced += summary.fenced;
        sum.reloads += summary.reloads;
        sum.lost_commits += summary.lost_commits;
        sum.early_ends += summary.early_ends;
        sum.early_begins += summary.early_begins;
        sum.refused += summary.refused;
    }
    // The counts must show faults: a run without faults proves nothing.
    println!("{sum:?}");
    assert!(sum.succeeded > 4_000 && sum.takeovers > 1_500 && sum.superseded > 100, "{sum:?}");
    assert!(sum.fenced > 50 && sum.reloads > 300 && sum.lost_commits > 200, "{sum:?}");
    assert!(sum.early_ends > 500 && sum.early_begins > 500 && sum.refused > 20, "{sum:?}");
}

#[test]
fn every_planted_bug_is_found() {
    for (name, bug) in Bug::ALL {
        let seeds = seeds_to_find(bug, 0, 10_000);
        println!("{name}: {seeds:?}");
        assert!(seeds.is_some(), "{name} is not found");
    }
}

#[test]
fn a_seed_is_the_whole_run() {
    for seed in [1, 2, 3, 1_000_003] {
        assert_eq!(run(seed, false, None), run(seed, false, None));
    }
}
