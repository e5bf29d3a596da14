//! The encoding and the operations of CKKS, compared with Lattigo. Both give slot j the root of the
//! power 5^j. Both put the real parts of coefficients into the lower half of a polynomial and the
//! imaginary parts into the upper half.

mod oracle;

use std::{path::Path, process::Command};

use cloakwork_ckks::{Basis, Ciphertext, Complex, EvaluationKeys, Evaluator, Ring, SwitchKey, key::MoveKey};
use cloakwork_params::ckks::{self, CKKS_SETS};
use cloakwork_secret::{
    Randomness,
    ckks::{KeyGenerator, SecretKey},
};
use oracle::Oracle;
use serde_json::Value;

const SETS: [&str; 2] = ["TOY_CKKS_45_60_50", "TOY_CKKS_54_60"];

#[test]
fn our_encoding_of_toy_rings_equals_that_of_lattigo() {
    let Some(oracle) = Oracle::build() else { return };
    for name in SETS {
        let ring = Ring::new(ckks::by_name(name).expect("a set"));
        for slots_log2 in [0, 1, 4, 8, 9] {
            compare_encoding(oracle, &ring, slots_log2);
        }
    }
}

#[test]
fn our_encoding_of_real_rings_equals_that_of_lattigo() {
    if std::env::var_os("CLOAKWORK_TEST_ALL").is_none() {
        return;
    }
    let Some(oracle) = Oracle::build() else { return };
    for set in CKKS_SETS.iter().filter(|set| !SETS.contains(&set.name)) {
        compare_encoding(oracle, &Ring::new(set), set.size_log2 - 1);
    }
}

fn compare_encoding(oracle: &Oracle, ring: &Ring, slots_log2: u32) {
    let (set, basis) = (ring.set(), Basis { level: 2, special: 1 });
    let numbers = numbers(1 << slots_log2, 0.4);
    let mut ours = ring.encode(&numbers, ring.scale(), basis).expect("numbers").poly;
    ring.inverse(&mut ours);
    let theirs = oracle.encode(set.size_log2, set.scale_log2, &numbers);
    assert_eq!(theirs.len(), set.size());
    // The tolerance is one step of rounding, and the error of a coefficient as a double: none at a
    // scale of 2^45, four steps at 2^54.
    let most = 1 + (ring.scale() * f64::EPSILON) as i64;
    let gap = set.slots() >> slots_log2;
    for (prime, row) in ring.primes(basis).zip(ours.rows()) {
        let modulus = prime.modulus();
        for (place, (ours, theirs)) in row.iter().zip(&theirs).enumerate() {
            let difference = modulus.to_signed(modulus.sub(*ours, modulus.of_signed(*theirs)));
            // Coefficients between the multiples of the gap are exactly zero.
            let most = if place % gap == 0 { most } else { 0 };
            assert!(
                difference.abs() <= most,
                "{}, {} slots: coefficient {place} is off by {difference}",
                set.name,
                numbers.len()
            );
        }
    }
}

#[test]
fn our_decoding_equals_that_of_lattigo() {
    let Some(oracle) = Oracle::build() else { return };
    for name in SETS {
        let ring = Ring::new(ckks::by_name(name).expect("a set"));
        let coefficients: Vec<i128> = (0..ring.size())
            .map(|place| ((place * place) as f64 * 0.618).sin() * ring.scale() / 16.0)
            .map(|coefficient| coefficient as i128)
            .collect();
        let doubles: Vec<f64> = coefficients.iter().map(|coefficient| *coefficient as f64).collect();
        // With fewer numbers, both libraries read only the coefficients that are multiples of the
        // gap.
        for slots_log2 in [0, 1, 4, 8, 9] {
            let ours = ring.decode(&doubles, ring.scale(), slots_log2);
            let theirs = oracle.decode(&coefficients, ring.set().scale_log2, slots_log2);
            let precision = precision(&ours, &theirs);
            assert!(precision > 46.0, "{name}, {} slots: {precision} bits", 1 << slots_log2);
        }
    }
}

#[test]
fn our_results_equal_those_of_lattigo() {
    let Some(oracle) = Oracle::build() else { return };
    let steps = [1_i64, 5, -1];
    for name in SETS {
        let ring = Ring::new(ckks::by_name(name).expect("a set"));
        let mut client = Client::new(&ring, &steps);
        for slots in [512, 16] {
            let (a, b) = (numbers(slots, 0.1), numbers(slots, 0.7));
            let theirs = oracle.compute(ring.set().size_log2, ring.set().scale_log2, [&a, &b], &steps);
            let (x, y) = (client.encrypt(&a), client.encrypt(&b));
            let evaluator = Evaluator::new(&ring, 1);
            // Noise covers the last bits of the scale on both sides, fewer than 15.
            let least = f64::from(ring.set().scale_log2) - 15.0;
            let check = |what: &str, ours: Ciphertext, theirs: &[Complex]| {
                let ours = client.key.decrypt(&ring, &ours).expect("decryption");
                let precision = precision(&ours, theirs);
                assert!(precision > least, "{name}, {slots} slots: {what} has {precision} bits");
            };
            check("x + y", evaluator.add(&x, &y).expect("a sum"), &theirs.sum);
            check("x * y", evaluator.multiply(&x, &y, &client.keys).expect("a product"), &theirs.product);
            check("conjugates", evaluator.conjugate(&x, &client.keys).expect("conjugates"), &theirs.conjugates);
            assert_eq!(theirs.rotations.len(), steps.len());
            for (steps, theirs) in steps.iter().zip(&theirs.rotations) {
                check("a rotation", evaluator.rotate(&x, *steps, &client.keys).expect("a rotation"), theirs);
            }
        }
    }
}

/// Runs the benchmark on toy rings. On real rings, its comparison takes gigabytes and minutes.
#[test]
fn the_benchmark_measures_bootstraps_of_both_libraries_alike() {
    let Some(oracle) = Oracle::build() else { return };
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ckks-peer.json");
    let mut benchmark = Command::new(env!("CARGO_BIN_EXE_bench-ckks"));
    benchmark.args(["--quick", "--only", "peer", "--rounds", "1", "--peer"]).arg(oracle.program());
    let output = benchmark.arg("--out").arg(&file).output().expect("the benchmark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read(&file).expect("what the benchmark writes");
    let document: Value = serde_json::from_slice(&text).expect("it writes JSON");
    let rows = document["peer"].as_array().expect("a row for each set of Lattigo and size of our keys");
    assert_eq!(rows.len(), 4);
    for (row, (their_level, our_keys)) in rows.iter().zip([(9, "medium"), (9, "large"), (13, "medium"), (13, "large")])
    {
        let (ours, theirs) = (&row["ours"][0], &row["theirs"][0]);
        assert_eq!((&ours["level"], &theirs["level"]), (&Value::from(9), &Value::from(their_level)));
        assert_eq!(ours["keys"], our_keys);
        // A toy ring has so few coefficients that the curvature of the sine limits both libraries
        // alike.
        let bits = |side: &Value| [&side["mean_bits"], &side["worst_bits"]].map(|bits| bits.as_f64().expect("bits"));
        let ([our_mean, our_worst], [their_mean, their_worst]) = (bits(ours), bits(theirs));
        assert!((23.0..25.0).contains(&our_mean) && (our_mean - their_mean).abs() < 0.5, "{our_mean}, {their_mean}");
        assert!(
            (21.0..24.0).contains(&our_worst) && (our_worst - their_worst).abs() < 1.0,
            "{our_worst}, {their_worst}"
        );
        let seconds = |side: &Value| side["seconds"][0].as_f64().expect("seconds");
        assert!((row["ratio"].as_f64().expect("a ratio") - seconds(theirs) / seconds(ours)).abs() < 1e-9);
    }
}

struct Client<'r> {
    ring: &'r Ring,
    key: SecretKey,
    keys: EvaluationKeys,
    randomness: Randomness,
}

const LEVEL: usize = 3;

impl<'r> Client<'r> {
    fn new(ring: &'r Ring, steps: &[i64]) -> Self {
        let mut randomness = Randomness::from_os().expect("randomness");
        let key = SecretKey::generate(ring.set(), &mut randomness).expect("a key");
        let generator = KeyGenerator::new(&key, ring);
        let relinearization = generator.relinearization(LEVEL, &mut randomness).expect("a key");
        let relinearization = Some(SwitchKey::expand(ring, relinearization).expect("a key of the ring"));
        let mut moved: Vec<_> =
            steps.iter().map(|steps| generator.rotation(*steps, LEVEL, &mut randomness).expect("a key")).collect();
        moved.push(generator.conjugation(LEVEL, &mut randomness).expect("a key"));
        let moves = moved.into_iter().map(|(power, key)| {
            let key = SwitchKey::expand(ring, key).and_then(|key| MoveKey::new(ring, power, key));
            (power, key.expect("a key of the ring"))
        });
        let keys = EvaluationKeys { relinearization, moves: moves.collect() };
        Self { ring, key, keys, randomness }
    }

    fn encrypt(&mut self, numbers: &[Complex]) -> Ciphertext {
        self.key.encrypt(self.ring, numbers, LEVEL, &mut self.randomness).expect("encryption")
    }
}

/// Bits after the point on which all numbers of both lists agree.
fn precision(ours: &[Complex], theirs: &[Complex]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    -ours.iter().zip(theirs).map(|(a, b)| (*a - *b).magnitude()).fold(f64::MIN_POSITIVE, f64::max).log2()
}

fn numbers(count: usize, seed: f64) -> Vec<Complex> {
    (0..count).map(|k| Complex::new((seed + 1.7 * k as f64).sin(), (seed * 2.0 + 0.9 * k as f64).cos())).collect()
}
