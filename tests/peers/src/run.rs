//! Runs one case: both sides get the same key and inputs, both are checked, then the rows are
//! measured.

use std::sync::Arc;

use cloakwork_params::{Encoding, ParameterSet, table};
use cloakwork_peers_measure::{Slices, alternate, time};
use peer_tfhe::{Peer, Workers};

use crate::{
    Options,
    cases::{Case, Kind},
    ours::{self, Amount, Ours},
    pin::on_one_core,
    report::{self, Report, Result},
};

/// Least seconds of a slice of one-core work.
const SLICE_SECONDS_MIN: f64 = 0.02;

/// Measures the selected rows of `case`.
pub fn run(case: &'static Case, options: &Options, report: &mut Report) {
    let rows = options.rows(case);
    let key_read = case.key_read && options.wants(&report::key_read_name(case));
    if rows.is_empty() && !key_read {
        return;
    }
    let (peer, mut ours) = sides(case);
    for row in rows {
        let slices = measure(case, row.kind, options.pairs(case.pairs), &peer, ours.as_mut());
        report.add(Result::new(case, row, slices));
    }
    if key_read {
        let (bytes, tile) = ours.bootstrap_key();
        report.add_key_read(case, bytes, tile);
    }
}

/// Builds both sides of a case, after both have computed everything correctly.
pub fn sides(case: &Case) -> (Arc<dyn Peer>, Box<dyn Ours>) {
    let set = set(case);
    let (table, threads) = (table(set), threads());
    let peer = peer_tfhe::peer(case.set, &table, case.batch).expect("tfhe-rs has the set");
    let mut ours = ours::from_peer(set, peer.as_ref(), &table, threads);
    check(case, peer.as_ref(), ours.as_mut());
    (peer, ours)
}

/// The parameter set of a case.
pub fn set(case: &Case) -> &'static ParameterSet {
    table::by_name(case.set).expect("cases name sets of the table")
}

/// The function of the lookup table: a permutation of the set's values.
pub fn table(set: &ParameterSet) -> Vec<u64> {
    let values = match set.encoding {
        Encoding::Shortint { message_modulus, carry_modulus, .. } => message_modulus * carry_modulus,
        Encoding::Boolean => 2,
    };
    (0..values).map(|value| (5 * value + 3) % values).collect()
}

/// Number of threads that the machine runs at once.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Checks that both sides compute the right results before they are timed.
fn check(case: &Case, peer: &dyn Peer, ours: &mut dyn Ours) {
    let expected = peer.expected();
    assert_eq!(peer.decrypt(&peer.results()), expected, "{}: the results of tfhe-rs are wrong", case.label);
    ours.compute(Amount::All);
    assert_eq!(peer.decrypt(&ours.results()), expected, "{}: our results are wrong", case.label);
    if case.rows.iter().any(|row| row.kind == Kind::Generation) {
        ours.compute_all_under_new_key();
        let results = peer.decrypt(&ours.results());
        assert_eq!(results, expected, "{}: the results under a key of our own are wrong", case.label);
    }
}

/// Measures pairs of slices of one kind of row, with the number of operations in each slice.
pub fn measure(case: &Case, kind: Kind, pairs: usize, peer: &Arc<dyn Peer>, ours: &mut dyn Ours) -> Slices {
    let threads = threads();
    let mut batches = |inputs: usize, amount: Amount| {
        let workers = Workers::new(peer, threads, inputs);
        workers.compute_all();
        ours.compute(amount);
        alternate(pairs, || ours.compute(amount), || workers.compute_all())
    };
    match kind {
        Kind::Throughput => Slices { pairs: batches(case.batch, Amount::All), operations: case.batch },
        Kind::OnEachCore => Slices { pairs: batches(threads, Amount::OnePerCore), operations: 1 },
        Kind::Latency => on_one_core(|| {
            peer.compute(0);
            let repeat = (SLICE_SECONDS_MIN / time(|| ours.compute(Amount::One)).cpu).ceil() as usize;
            let pairs = alternate(
                pairs,
                || (0..repeat).for_each(|_| ours.compute(Amount::One)),
                || (0..repeat).for_each(|_| peer.compute(0)),
            );
            Slices { pairs, operations: repeat }
        }),
        Kind::Generation => {
            Slices { pairs: alternate(pairs, || ours.generate_key(), || peer.generate_key()), operations: 1 }
        }
        Kind::Expansion => {
            Slices { pairs: alternate(pairs, || ours.expand_key(), || peer.expand_key()), operations: 1 }
        }
    }
}
