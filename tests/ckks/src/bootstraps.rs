//! Bootstraps, by set, stages and size of the keys.

use cloakwork_ckks::{Bootstrap, BootstrapKeys, Evaluator, KeySize, Ring};
use cloakwork_params::ckks;
use cloakwork_secret::{
    Randomness,
    ckks::{KeyGenerator, SecretKey},
};
use serde_json::{Value, json};

use crate::{
    precision::{bits, numbers},
    quartiles, seconds,
};

const ROUNDS: usize = 3;

/// A row, and the seconds on one thread of an i7-10700K that the seed page of DESILO's library gives for it.
struct Row {
    slots_log2: u32,
    stages: usize,
    size: KeySize,
    published: f64,
}

const ROWS: &[Row] = &[
    Row { slots_log2: 15, stages: 3, size: KeySize::Medium, published: 30.512 },
    Row { slots_log2: 15, stages: 4, size: KeySize::Medium, published: 24.765 },
    Row { slots_log2: 15, stages: 5, size: KeySize::Medium, published: 23.176 },
    Row { slots_log2: 15, stages: 3, size: KeySize::Large, published: 28.122 },
    Row { slots_log2: 15, stages: 4, size: KeySize::Large, published: 23.889 },
    Row { slots_log2: 15, stages: 5, size: KeySize::Large, published: 20.840 },
    Row { slots_log2: 5, stages: 1, size: KeySize::Medium, published: 26.593 },
    Row { slots_log2: 5, stages: 2, size: KeySize::Medium, published: 25.485 },
    Row { slots_log2: 10, stages: 2, size: KeySize::Medium, published: 29.102 },
    Row { slots_log2: 10, stages: 3, size: KeySize::Medium, published: 25.554 },
    Row { slots_log2: 10, stages: 4, size: KeySize::Medium, published: 23.830 },
];

/// Of those whose name has `case` in it: as in `CKKS_45_60_50 32768 5 medium`.
pub(crate) fn measure(is_quick: bool, case: &str) -> Vec<Value> {
    let sets = if is_quick { ["TOY_CKKS_45_60_50", "TOY_CKKS_54_60"] } else { ["CKKS_45_60_50", "CKKS_54_60"] };
    println!(
        "| set | slots | stages | keys | seconds | on all cores | DESILO, published | keys, MiB | matrices, MiB | level out | bits, mean | worst |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    let rows = sets.iter().flat_map(|set| ROWS.iter().map(move |row| (set, row)));
    rows.filter(|(set, row)| row.name(set).contains(case))
        .filter_map(|(set, row)| measure_one(set, row, is_quick))
        .collect()
}

impl Row {
    fn name(&self, set: &str) -> String {
        format!("{set} {} {} {:?}", 1 << self.slots_log2, self.stages, self.size).to_lowercase().replacen(
            &set.to_lowercase(),
            set,
            1,
        )
    }
}

fn measure_one(set: &str, row: &Row, is_quick: bool) -> Option<Value> {
    let ring = Ring::new(ckks::by_name(set)?);
    let slots_log2 = row.slots_log2.min(ring.set().size_log2 - 1).max(row.stages as u32);
    let bootstrap = Bootstrap::new(&ring, slots_log2, row.stages, row.size).expect("a bootstrap of the table");
    let mut randomness = Randomness::from_os().expect("randomness");
    let key = SecretKey::generate(ring.set(), &mut randomness).expect("a key");
    let seeded = KeyGenerator::new(&key, &ring).bootstrap(&bootstrap, &mut randomness).expect("keys");
    let keys = BootstrapKeys::expand(&ring, seeded).expect("keys of the ring");
    let plain = numbers(1 << slots_log2);
    let ciphertext = key.encrypt(&ring, &plain, 0, &mut randomness).expect("encryption");
    let mut result = None;
    let mut median = |threads: usize| {
        let evaluator = Evaluator::new(&ring, threads);
        let times = (0..if is_quick { 1 } else { ROUNDS }).map(|_| {
            seconds(|| result = Some(evaluator.bootstrap(&ciphertext, &bootstrap, &keys).expect("a bootstrap")))
        });
        quartiles(times.collect())[1]
    };
    // All cores first: what memory is got from the system is got then.
    let (all_cores, one) = (median(cloakwork_tests_machine::cores()), median(1));
    let result = result?;
    let got = key.decrypt(&ring, &result).expect("decryption");
    let [mean, worst] = bits(&got, &plain);
    println!(
        "| {set} | {} | {} | {:?} | {one:.2} | {all_cores:.2} | {} | {} | {} | {} | {mean:.1} | {worst:.1} |",
        1 << slots_log2,
        row.stages,
        row.size,
        row.published,
        keys.bytes() >> 20,
        bootstrap.bytes() >> 20,
        result.level(),
    );
    Some(json!({
        "set": set, "slots": 1 << slots_log2, "stages": row.stages, "size": format!("{:?}", row.size).to_lowercase(),
        "seconds": one, "seconds_on_all_cores": all_cores, "published_desilo_seconds": row.published, "key_bytes": keys.bytes(),
        "matrix_bytes": bootstrap.bytes(), "level": result.level(), "mean_bits": mean, "worst_bits": worst,
    }))
}
