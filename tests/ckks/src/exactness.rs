//! Precision of bootstraps over many secrets, compared with a floor for each row.

use cloakwork_ckks::{BootstrapKeys, Evaluator, Ring};
use cloakwork_secret::{
    Randomness,
    ckks::{KeyGenerator, SecretKey},
};
use serde_json::{Value, json};

use crate::{
    bootstraps::{Row, TABLES, Table},
    precision::{Spread, bits},
    sets::set,
};

/// A row of the tables, with the fewest bits after the point that its mean error and its greatest
/// error must leave.
struct Floor {
    row: &'static str,
    real: [f64; 2],
    /// Floors for toy rings. Their few coefficients are larger, so the sine is less linear over
    /// them, but the noise is smaller.
    toy: [f64; 2],
}

/// Floors that lie some tenths of a bit below the measured values in docs/ckks.md.
const FLOORS: [Floor; 4] = [
    Floor { row: "CKKS_54_60_H4096 regular 32768 medium 5", real: [20.8, 18.7], toy: [19.5, 18.0] },
    Floor { row: "CKKS_45_60_50_H4096 regular 32768 medium 5", real: [23.5, 20.5], toy: [23.5, 21.5] },
    Floor { row: "CKKS_45_60_50_H4096 regular 32768 small 3", real: [22.2, 19.5], toy: [23.5, 21.5] },
    Floor { row: "CKKS_45_60_50_H4096 lossy 32768 medium 5", real: [24.5, 22.0], toy: [25.0, 22.5] },
];

/// The amount of work of a measurement.
pub(crate) struct Extent {
    /// Whether toy rings are measured.
    pub(crate) is_quick: bool,
    /// Number of secrets, each with its own keys.
    pub(crate) secrets: usize,
    /// Number of messages under each secret.
    pub(crate) messages: usize,
}

/// Measures the rows whose name contains `case`. Returns the measured values, or an error that
/// names the first row below its floor.
pub(crate) fn measure(extent: &Extent, case: &str) -> Result<Vec<Value>, String> {
    let floors: Vec<&Floor> = FLOORS.iter().filter(|floor| floor.row.contains(case)).collect();
    if floors.is_empty() {
        return Ok(Vec::new());
    }
    println!(
        "\n{} secrets, {} messages under each\n\n| row | bits: mean | least mean of a secret | worst | at least: mean | worst |\n|---|---|---|---|---|---|",
        extent.secrets, extent.messages
    );
    floors.into_iter().map(|floor| measure_one(extent, floor)).collect()
}

fn measure_one(extent: &Extent, floor: &Floor) -> Result<Value, String> {
    let (name, table, row) = find(floor.row).ok_or_else(|| format!("no table has '{}'", floor.row))?;
    let ring = Ring::new(set(name, extent.is_quick));
    let bootstrap = table.bootstrap(&ring, row).expect("a bootstrap of the table");
    let evaluator = Evaluator::new(&ring, cloakwork_tests_machine::cores());
    let mut found = Vec::new();
    for secret in 0..extent.secrets {
        let mut randomness = Randomness::from_os().expect("randomness");
        let key = SecretKey::generate(ring.set(), &mut randomness).expect("a key");
        let seeded = KeyGenerator::new(&key, &ring).bootstrap(&bootstrap, &mut randomness).expect("keys");
        let keys = BootstrapKeys::expand(&ring, seeded).expect("keys of the ring");
        let of_secret = (0..extent.messages).map(|message| {
            let plain = Spread::Radius.numbers(secret * extent.messages + message, bootstrap.slots());
            let ciphertext = key.encrypt(&ring, &plain, bootstrap.level_in(), &mut randomness).expect("encryption");
            let result = evaluator.bootstrap(&ciphertext, &bootstrap, &keys).expect("a bootstrap");
            bits(&key.decrypt(&ring, &result).expect("decryption"), &plain)
        });
        let of_secret: Vec<[f64; 2]> = of_secret.collect();
        eprintln!("{}: secret {} of {}: {of_secret:.2?}", floor.row, secret + 1, extent.secrets);
        found.push(of_secret);
    }
    let means: Vec<f64> = found.iter().map(|of_secret| mean_bits(of_secret.iter().map(|[mean, _]| *mean))).collect();
    let mean = mean_bits(means.iter().copied());
    let least = means.iter().copied().fold(f64::MAX, f64::min);
    let worst = found.iter().flatten().map(|[_, worst]| *worst).fold(f64::MAX, f64::min);
    let (row, [mean_floor, worst_floor]) = (floor.row, if extent.is_quick { floor.toy } else { floor.real });
    println!("| {row} | {mean:.2} | {least:.2} | {worst:.2} | {mean_floor} | {worst_floor} |");
    // The comparison is negated so that a NaN fails as well.
    if !(mean >= mean_floor && worst >= worst_floor) {
        return Err(format!("{row}: {mean:.2} and {worst:.2} bits, not {mean_floor} and {worst_floor}"));
    }
    Ok(json!({
        "row": row, "is_toy": extent.is_quick, "secrets": extent.secrets, "messages": extent.messages,
        "mean_bits": mean, "worst_bits": worst, "all": found,
    }))
}

/// The set, the table and the row with this name.
fn find(name: &str) -> Option<(&str, &'static Table, &'static Row)> {
    let (set, _) = name.split_once(' ')?;
    let rows = TABLES.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)));
    let (table, row) = rows.into_iter().find(|(table, row)| table.name(set, row) == name)?;
    Some((set, table, row))
}

/// Bits of the mean error, from the bits of each error.
fn mean_bits(bits: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = bits.len() as f64;
    -(bits.map(|bits| (-bits).exp2()).sum::<f64>() / count).log2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bootstraps_of_toy_rings_reach_their_precision_floors() {
        let extent = Extent { is_quick: true, secrets: 3, messages: 2 };
        let measured = measure(&extent, "").expect("bits enough");
        assert_eq!(measured.len(), FLOORS.len());
    }

    /// Takes minutes and gigabytes, so it runs only with `CLOAKWORK_TEST_ALL`.
    #[test]
    fn bootstraps_of_real_rings_reach_their_precision_floors() {
        if std::env::var_os("CLOAKWORK_TEST_ALL").is_none() {
            return;
        }
        measure(&Extent { is_quick: false, secrets: 1, messages: 10 }, "").expect("bits enough");
    }

    #[test]
    fn a_measurement_below_its_floor_is_an_error() {
        let extent = Extent { is_quick: true, secrets: 1, messages: 1 };
        for toy in [[60.0, 0.0], [0.0, 60.0], [f64::NAN, 0.0]] {
            let floor = Floor { row: FLOORS[1].row, real: [0.0, 0.0], toy };
            let error = measure_one(&extent, &floor).expect_err("the floor is beyond any precision");
            assert!(error.ends_with(&format!("not {} and {}", toy[0], toy[1])), "{error}");
        }
    }

    #[test]
    fn mean_bits_averages_errors_and_not_bits() {
        assert!((mean_bits([1.0, 2.0, 2.0].into_iter()) + (1.0_f64 / 3.0).log2()).abs() < 1e-12);
    }
}
