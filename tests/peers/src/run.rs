//! One case: the same key and inputs on both sides, both checked, then its rows.

use std::sync::Arc;

use cloakwork_params::{Encoding, ParameterSet, table};
use peer_tfhe::{Peer, Workers};

use crate::{
    Options,
    cases::{Case, Kind},
    measure::{Measurement, alternate, time},
    ours::{self, Ours},
    pin::on_one_core,
    report::{Report, Result},
};

/// Seconds that a slice of one-core work should last at least.
const SLICE: f64 = 0.02;

/// Measures the rows of `case` that are wanted.
pub fn run(case: &'static Case, options: &Options, report: &mut Report) {
    let rows = options.rows(case);
    if rows.is_empty() {
        return;
    }
    let set = set(case);
    let (table, threads) = (table(set), threads());
    let peer = peer_tfhe::peer(case.set, &table, case.batch).expect("tfhe-rs has the set");
    let mut ours = ours::from_peer(set, peer.as_ref(), &table, threads);
    check(case, peer.as_ref(), ours.as_mut());
    for row in rows {
        let measurement = measure(case, row.kind, options.pairs(case.pairs), &peer, ours.as_mut(), threads);
        report.add(Result { name: case.name(row.kind), set: case.set, row: *row, measurement });
    }
}

/// The parameter set of a case.
pub fn set(case: &Case) -> &'static ParameterSet {
    table::by_name(case.set).expect("cases name sets of the table")
}

/// The function that is looked up: a permutation of the set's values.
pub fn table(set: &ParameterSet) -> Vec<u64> {
    let values = match set.encoding {
        Encoding::Shortint { message_modulus, carry_modulus, .. } => message_modulus * carry_modulus,
        Encoding::Boolean => 2,
    };
    (0..values).map(|value| (5 * value + 3) % values).collect()
}

/// As many as the machine runs at once.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Both sides must compute what they are timed for.
fn check(case: &Case, peer: &dyn Peer, ours: &mut dyn Ours) {
    let expected = peer.expected();
    assert_eq!(peer.decrypt(&peer.results()), expected, "{}: tfhe-rs computes something else", case.label);
    ours.compute_all();
    assert_eq!(peer.decrypt(&ours.results()), expected, "{}: ours computes something else", case.label);
    if case.rows.iter().any(|row| row.kind == Kind::Generation) {
        ours.compute_all_under_new_key();
        let results = peer.decrypt(&ours.results());
        assert_eq!(results, expected, "{}: a key of our own computes something else", case.label);
    }
}

fn measure(
    case: &Case,
    kind: Kind,
    pairs: usize,
    peer: &Arc<dyn Peer>,
    ours: &mut dyn Ours,
    threads: usize,
) -> Measurement {
    match kind {
        Kind::Latency => on_one_core(|| {
            peer.compute(0);
            let repeat = (SLICE / time(|| ours.compute_one()).cpu).ceil() as usize;
            alternate(
                pairs,
                repeat,
                || (0..repeat).for_each(|_| ours.compute_one()),
                || (0..repeat).for_each(|_| peer.compute(0)),
            )
        }),
        Kind::Throughput => {
            let workers = Workers::new(peer, threads);
            workers.compute_all();
            ours.compute_all();
            alternate(pairs, case.batch, || ours.compute_all(), || workers.compute_all())
        }
        Kind::Generation => alternate(pairs, 1, || ours.generate_key(), || peer.generate_key()),
        Kind::Expansion => alternate(pairs, 1, || ours.expand_key(), || peer.expand_key()),
    }
}
