//! Whether times of the client's operations depend on secrets, in the manner of dudect: two classes
//! of inputs are measured in random order, and Welch's t-test compares their times.
//!
//! A class has fixed inputs, or random ones. The test fails if an operation that should take the
//! same time for both does not, or if the test does not find a dependence that is there on purpose:
//! four divisions for each message that is not zero. The test finds dependences of the printed
//! size, and smaller ones escape it.

use std::{hint::black_box, time::Instant};

use cloakwork_ckks::{Complex, Ring};
use cloakwork_math::{Torus, random::SecretRng};
use cloakwork_params::{ParameterSet, ckks, table};
use cloakwork_secret::{
    ClientKey, LweSecretKey, Randomness,
    ckks::{SecretKey, SeededCiphertext},
};

/// |t| that an operation may have. Values above 10 hardly ever come from chance.
const T_MAX: f64 = 10.0;

/// Number of comparisons of an operation. Other work on the machine may hide or feign a dependence
/// once, and hardly ever each time.
const TRIES: usize = 3;

const SAMPLES: usize = 10_000;

/// Inputs of each class.
const INPUTS: usize = 32;

#[test]
fn times_of_fixed_and_of_random_secrets_are_alike() {
    let blocks = table::by_name("V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128").expect("a set");
    let bits = table::by_name("PARAMETERS_ERROR_PROB_2_POW_MINUS_165_KS_PBS").expect("a set");
    let constant: [Case<'_>; 7] = [
        ("encryption: blocks of 0 or any", &|| encryption::<u64>(blocks, 16)),
        ("encryption: bits of 0 or any", &|| encryption::<u32>(bits, 2)),
        ("decryption: blocks of 0 or any", &|| decryption::<u64>(blocks, 16)),
        ("decryption: bits of 0 or any", &|| decryption::<u32>(bits, 2)),
        ("decryption: keys of 0 or any", &phases),
        ("decryption: numbers of 0.5 or any sign", &numbers_decryption),
        ("key generation: sparse secrets", &sparse_secrets),
    ];
    for (what, measure) in constant {
        let is_alike = (0..TRIES).any(|_| print(what, measure()).t < T_MAX);
        assert!(is_alike, "{what}: a dependence in each of {TRIES} comparisons");
    }
    // The time of these depends on secrets, as the documentation of the crate states.
    print("encryption: numbers of 0 or any", numbers_encryption());
    print("encryption: Gaussian noise of a fixed draw or any", gaussian_noise());
    let is_found = (0..TRIES).any(|_| {
        let found = decryption_with_divisions(blocks);
        print("on purpose: four divisions for each message but 0", found).t > T_MAX
    });
    assert!(is_found, "the divisions were not found in any of {TRIES} comparisons");
}

/// An operation, and a comparison of its times.
type Case<'a> = (&'static str, &'a dyn Fn() -> Found);

fn print(what: &str, found: Found) -> Found {
    println!("|t| = {:6.1}, differences of {:6.0} ns are found: {what}", found.t, found.least_nanoseconds);
    found
}

/// Result of a comparison.
#[derive(Clone, Copy)]
struct Found {
    /// |t| of Welch's test.
    t: f64,
    /// Difference of the mean times that gives the largest allowed |t|.
    least_nanoseconds: f64,
}

/// The greatest |t| over some bounds that cut off the slowest samples, which interrupts have met.
fn compare<I: Clone, O>(mut input: impl FnMut(bool) -> I, mut run: impl FnMut(&I) -> O) -> Found {
    let inputs: [Vec<I>; 2] = [false, true].map(|is_fixed| (0..INPUTS).map(|_| input(is_fixed)).collect());
    let mut order = SecretRng::insecure_for_tests(1);
    let mut samples: Vec<(bool, f64)> = (0..SAMPLES)
        .map(|index| {
            let is_fixed = order.word() & 1 == 1;
            // A copy, because the allocator puts the copies of both classes at one address.
            // Alignment and caches would otherwise differ between the classes.
            let input = inputs[usize::from(is_fixed)][index % INPUTS].clone();
            let started = Instant::now();
            black_box(run(black_box(&input)));
            (is_fixed, started.elapsed().as_nanos() as f64)
        })
        .collect();
    samples.sort_by(|(_, left), (_, right)| left.total_cmp(right));
    let found = [0.5, 0.75, 0.9].map(|part| welch(&samples[..(SAMPLES as f64 * part) as usize]));
    found.into_iter().max_by(|left, right| left.t.total_cmp(&right.t)).expect("three comparisons")
}

/// Welch's test for the two classes of samples.
fn welch(samples: &[(bool, f64)]) -> Found {
    let [fixed, random] = [true, false].map(|class| {
        let times: Vec<f64> =
            samples.iter().filter(|(is_fixed, _)| *is_fixed == class).map(|(_, time)| *time).collect();
        let (count, sum) = (times.len() as f64, times.iter().sum::<f64>());
        let mean = sum / count;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (mean, variance / count)
    });
    let error = (fixed.1 + random.1).sqrt();
    Found { t: (fixed.0 - random.0).abs() / error, least_nanoseconds: T_MAX * error }
}

fn messages(is_fixed: bool, count: u64, rng: &mut SecretRng) -> Vec<u64> {
    (0..32).map(|_| if is_fixed { 0 } else { rng.word() % count }).collect()
}

fn encryption<T: Torus>(set: &'static ParameterSet, count: u64) -> Found {
    let mut randomness = Randomness::insecure_for_tests(2);
    let key = ClientKey::generate(set, &mut randomness).expect("a key");
    let mut rng = SecretRng::insecure_for_tests(3);
    compare(
        |is_fixed| messages(is_fixed, count, &mut rng),
        |messages| key.encrypt_seeded::<T>(set, messages, &mut randomness).expect("messages of the set"),
    )
}

fn decryption<T: Torus>(set: &'static ParameterSet, count: u64) -> Found {
    let mut randomness = Randomness::insecure_for_tests(4);
    let key = ClientKey::generate(set, &mut randomness).expect("a key");
    let mut rng = SecretRng::insecure_for_tests(5);
    compare(
        |is_fixed| {
            let messages = messages(is_fixed, count, &mut rng);
            key.encrypt::<T>(set, &messages, &mut randomness).expect("messages of the set")
        },
        |list| key.decrypt(set, list).expect("a list of the set"),
    )
}

fn decryption_with_divisions(set: &'static ParameterSet) -> Found {
    let mut randomness = Randomness::insecure_for_tests(4);
    let key = ClientKey::generate(set, &mut randomness).expect("a key");
    let mut rng = SecretRng::insecure_for_tests(5);
    compare(
        |is_fixed| {
            let messages = messages(is_fixed, 16, &mut rng);
            key.encrypt::<u64>(set, &messages, &mut randomness).expect("messages of the set")
        },
        |list| {
            let messages = key.decrypt(set, list).expect("a list of the set");
            let quotients = messages.iter().filter(|message| **message != 0).flat_map(|message| {
                (0..4).map(move |step| (u128::MAX / u128::from(black_box(u64::MAX) - message - step)) as u64)
            });
            quotients.fold(0, u64::wrapping_add)
        },
    )
}

fn phases() -> Found {
    const DIMENSION: usize = 2048;
    let mut rng = SecretRng::insecure_for_tests(6);
    let ciphertext: Vec<u64> = (0..=DIMENSION).map(|_| rng.word()).collect();
    compare(
        |is_fixed| {
            let bits = (0..DIMENSION).map(|_| if is_fixed { 0 } else { rng.word() as u8 & 1 }).collect();
            LweSecretKey::from_bits(bits).expect("bits")
        },
        // One product takes a microsecond, which is near the resolution of the clock.
        |key| (0..16).map(|_| key.phase(&ciphertext).expect("a ciphertext of the key")).fold(0, u64::wrapping_add),
    )
}

fn numbers_decryption() -> Found {
    let (ring, key, mut randomness) = numbers_client();
    let mut rng = SecretRng::insecure_for_tests(7);
    compare(
        |is_fixed| {
            let numbers = numbers(is_fixed.then_some(0.5), &ring, &mut rng);
            key.encrypt(&ring, &numbers, 2, &mut randomness).expect("numbers of the ring")
        },
        |ciphertext| key.decrypt(&ring, ciphertext).expect("a ciphertext of the ring"),
    )
}

fn numbers_encryption() -> Found {
    let (ring, key, mut randomness) = numbers_client();
    let mut rng = SecretRng::insecure_for_tests(8);
    compare(
        |is_fixed| numbers(is_fixed.then_some(0.0), &ring, &mut rng),
        |numbers| -> SeededCiphertext { key.encrypt_seeded(&ring, numbers, 2, &mut randomness).expect("numbers") },
    )
}

fn numbers_client() -> (Ring, SecretKey, Randomness) {
    let ring = Ring::new(ckks::by_name("TOY_CKKS_54_60").expect("a set"));
    let mut randomness = Randomness::insecure_for_tests(9);
    let key = SecretKey::generate(ring.set(), &mut randomness).expect("a key");
    (ring, key, randomness)
}

fn numbers(fixed: Option<f64>, ring: &Ring, rng: &mut SecretRng) -> Vec<Complex> {
    let mut part = || fixed.unwrap_or_else(|| rng.word() as i64 as f64 / i64::MAX as f64);
    (0..ring.slots()).map(|_| Complex::new(part(), part())).collect()
}

fn sparse_secrets() -> Found {
    draws(|rng| {
        let mut coefficients = vec![0; 1024];
        rng.fill_sparse(256, &mut coefficients);
        coefficients
    })
}

fn gaussian_noise() -> Found {
    draws(|rng| {
        let mut integers = vec![0; 1024];
        rng.fill_gaussian(3.19, &mut integers);
        integers
    })
}

/// Compares one draw with any draw.
fn draws<O>(mut draw: impl FnMut(&mut SecretRng) -> O) -> Found {
    let mut seeds = 10..;
    compare(
        |is_fixed| if is_fixed { 1 } else { seeds.next().expect("no end") },
        |seed: &u64| draw(&mut SecretRng::insecure_for_tests(*seed)),
    )
}
