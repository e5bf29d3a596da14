//! Times of bootstraps, row by row of the tables in the documentation of DESILO's library.

mod rows;

use std::thread;

use cloakwork_ckks::{BootstrapKeys, Ciphertext, Evaluator, Ring};
use cloakwork_params::ckks::CkksSet;
use cloakwork_secret::{
    Randomness,
    ckks::{KeyGenerator, SecretKey},
};
use serde_json::{Value, json};

pub(crate) use self::rows::{Row, TABLES, Table};
use crate::{
    precision::{Spread, bits},
    quartiles, seconds,
    sets::{SETS, set},
};

const ROUNDS: usize = 5;

/// Measures the rows whose name contains `case`. A name looks like
/// `CKKS_45_60_50_H4096 regular 32768 medium 5`.
pub(crate) fn measure(is_quick: bool, case: &str) -> Vec<Value> {
    let sets = SETS.map(|name| set(name, is_quick));
    let mut measured = Vec::new();
    for (set, table) in sets.iter().flat_map(|set| TABLES.iter().map(move |table| (*set, table))) {
        let rows: Vec<&Row> = table.rows.iter().filter(|row| table.name(set.name, row).contains(case)).collect();
        if rows.is_empty() {
            continue;
        }
        println!(
            "\n{}, {}\n\n| slots | keys | stages | seconds, one thread | all | one over all | two at once | DESILO, published | keys in memory, MiB | matrices, MiB | level | bits: mean | worst | by area: mean | worst |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
            set.name, table.title
        );
        measured.extend(rows.into_iter().map(|row| measure_one(set, table, row, is_quick)));
    }
    measured
}

fn measure_one(set: &'static CkksSet, table: &Table, row: &Row, is_quick: bool) -> Value {
    let ring = Ring::new(set);
    let bootstrap = table.bootstrap(&ring, row).expect("a bootstrap of the table");
    let mut randomness = Randomness::from_os().expect("randomness");
    let key = SecretKey::generate(ring.set(), &mut randomness).expect("a key");
    let seeded = KeyGenerator::new(&key, &ring).bootstrap(&bootstrap, &mut randomness).expect("keys");
    let keys = BootstrapKeys::expand(&ring, seeded).expect("keys of the ring");
    let cores = cloakwork_tests_machine::cores();
    let bootstrapped = |ciphertext: &Ciphertext, threads: usize| {
        let evaluator = Evaluator::new(&ring, threads);
        evaluator.bootstrap(ciphertext, &bootstrap, &keys).expect("a bootstrap")
    };
    // The first runs allocate memory from the system, so that the timed runs do not.
    let mut precision = |spread: Spread| {
        let plain = spread.numbers(0, bootstrap.slots());
        let ciphertext = key.encrypt(&ring, &plain, bootstrap.level_in(), &mut randomness).expect("encryption");
        let result = bootstrapped(&ciphertext, cores);
        (bits(&key.decrypt(&ring, &result).expect("decryption"), &plain), ciphertext, result.level())
    };
    let ([mean_by_area, worst_by_area], ..) = precision(Spread::Area);
    let ([mean, worst], ciphertext, level) = precision(Spread::Radius);
    let run = |threads| bootstrapped(&ciphertext, threads);
    // Two single-threaded bootstraps at once slow each other down through the shared memory
    // bandwidth. The ratio shows how much of two cores remains.
    let two_at_once =
        || thread::scope(|scope| [(); 2].map(|()| scope.spawn(|| run(1))).map(|one| one.join().expect("a bootstrap")));
    let rounds = 0..if is_quick { 1 } else { ROUNDS };
    // The measurements alternate, so that other work on the machine slows all of them down alike.
    let round = |_| [seconds(|| drop(run(1))), seconds(|| drop(run(cores))), seconds(|| drop(two_at_once()))];
    let times: Vec<[f64; 3]> = rounds.map(round).collect();
    let middle = |value: &dyn Fn(&[f64; 3]) -> f64| quartiles(times.iter().map(value).collect())[1];
    let (one, all_cores) = (middle(&|[one, ..]| *one), middle(&|[_, all, _]| *all));
    let (ratio, side_by_side) = (middle(&|[one, all, _]| one / all), middle(&|[one, _, two]| 2.0 * one / two));
    let slots = bootstrap.slots();
    let size = format!("{:?}", row.size).to_lowercase();
    println!(
        "| {} | {size} | {} | {one:.2} | {all_cores:.2} | {ratio:.2} | {side_by_side:.2} | {} | {} | {} | {} | {mean:.1} | {worst:.1} | {mean_by_area:.1} | {worst_by_area:.1} |",
        slots,
        row.stages,
        row.published,
        keys.bytes() >> 20,
        bootstrap.bytes() >> 20,
        level,
    );
    json!({
        "set": set.name, "kind": table.title, "slots": slots, "stages": row.stages, "size": size,
        "seconds": one, "seconds_on_all_cores": all_cores, "one_over_all": ratio, "two_at_once": side_by_side, "published_desilo_seconds": row.published, "key_bytes": keys.bytes(),
        "matrix_bytes": bootstrap.bytes(), "level": level, "mean_bits": mean, "worst_bits": worst,
        "mean_bits_by_area": mean_by_area, "worst_bits_by_area": worst_by_area,
    })
}
