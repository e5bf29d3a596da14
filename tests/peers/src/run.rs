//! One case: the same key and inputs on both sides, both checked, then its rows.

use std::sync::Arc;

use cloakwork_params::{Encoding, table};
use peer_tfhe::{Peer, Workers};

use crate::{
    Options,
    cases::{Case, Kind},
    measure::{Measurement, alternate, time},
    ours::{Ours, ours},
    pin::on_one_core,
    report::{Report, Result},
};

/// Seconds that a slice of one-core work should last at least.
const SLICE: f64 = 0.06;

/// Measures the rows of `case` that are wanted.
pub fn run(case: &Case, options: &Options, report: &mut Report) {
    let name = |kind: Kind| format!("{} {}", case.label, kind.label());
    let rows: Vec<_> = case.rows.iter().filter(|row| options.wants(&name(row.kind))).collect();
    if rows.is_empty() {
        return;
    }
    let set = table::by_name(case.set).expect("cases name sets of the table");
    let values = match set.encoding {
        Encoding::Shortint { message_modulus, carry_modulus, .. } => message_modulus * carry_modulus,
        Encoding::Boolean => 2,
    };
    let table: Vec<_> = (0..values).map(|value| (5 * value + 3) % values).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let peer = peer_tfhe::peer(case.set, &table, case.batch, 1).expect("tfhe-rs has the set");
    let mut ours = ours(set, peer.secret_key(), peer.key(), peer.operands(), &table, threads);
    check(case, peer.as_ref(), ours.as_mut());
    let pairs = options.pairs(case.pairs);
    for row in rows {
        let measurement = measure(row.kind, pairs, &peer, ours.as_mut(), threads);
        report.add(Result {
            name: name(row.kind),
            set: case.set,
            unit: row.kind.unit(),
            scale: match row.kind {
                Kind::Throughput => case.batch as f64,
                Kind::Latency | Kind::Generation | Kind::Expansion => 1e3,
            },
            required: row.required,
            measurement,
        });
    }
}

/// Both sides must compute what they are timed for.
fn check(case: &Case, peer: &dyn Peer, ours: &mut dyn Ours) {
    ours.compute_all();
    let expected = peer.expected();
    assert_eq!(peer.decrypt(&peer.results()), expected, "{}: tfhe-rs computes something else", case.label);
    assert_eq!(peer.decrypt(&ours.results()), expected, "{}: ours computes something else", case.label);
    if case.rows.iter().any(|row| row.kind == Kind::Generation) {
        ours.compute_all_under_new_key();
        let results = peer.decrypt(&ours.results());
        assert_eq!(results, expected, "{}: a key of our own computes something else", case.label);
    }
}

fn measure(kind: Kind, pairs: usize, peer: &Arc<dyn Peer>, ours: &mut dyn Ours, threads: usize) -> Measurement {
    match kind {
        Kind::Latency => on_one_core(|| {
            let mut compute_ours = || ours.compute_one();
            let compute_peer = || peer.compute(0);
            compute_peer();
            let repeat = (SLICE / time(&mut compute_ours).as_secs_f64()).ceil() as u32;
            alternate(
                pairs,
                || time(|| (0..repeat).for_each(|_| compute_ours())) / repeat,
                || time(|| (0..repeat).for_each(|_| compute_peer())) / repeat,
            )
        }),
        Kind::Throughput => {
            let workers = Workers::new(peer, threads);
            workers.compute_all();
            ours.compute_all();
            alternate(pairs, || time(|| ours.compute_all()), || time(|| workers.compute_all()))
        }
        Kind::Generation => alternate(pairs, || time(|| ours.generate_key()), || time(|| peer.generate_key())),
        Kind::Expansion => alternate(pairs, || time(|| ours.expand_key()), || time(|| peer.expand_key())),
    }
}
