//! Bootstraps: what comes back, how exactly, and that it is the same on every instruction set and number of threads.

use cloakwork_ckks::{
    Basis, Bootstrap, BootstrapKeys, BootstrapKind, BootstrapShape, Ciphertext, CkksError, Complex, Evaluator, KeyPlan,
    KeySize, NoSuchBootstrap, Ring, SwitchKey,
    bootstrap::SeededBootstrapKeys,
    key::{MoveKey, conjugation_power, rotation_power},
};
use cloakwork_math::simd::Level;
use cloakwork_params::ckks::{self, key_use::KeyUse};
use cloakwork_secret::{
    Randomness,
    ckks::{KeyGenerator, SecretKey},
};

/// A client, and what it has for one kind of bootstrap.
struct Client<'r> {
    ring: &'r Ring,
    key: SecretKey,
    bootstrap: Bootstrap<'r>,
    keys: BootstrapKeys,
    randomness: Randomness,
}

impl<'r> Client<'r> {
    fn new(ring: &'r Ring, slots_log2: u32, stages: usize, size: KeySize) -> Self {
        Self::with(Bootstrap::new(ring, slots_log2, stages, size).expect("a bootstrap"))
    }

    fn with(bootstrap: Bootstrap<'r>) -> Self {
        let ring = bootstrap.ring();
        let mut randomness = Randomness::insecure_for_tests(7);
        let key = SecretKey::generate(ring.set(), &mut randomness).expect("a key");
        let seeded = KeyGenerator::new(&key, ring).bootstrap(&bootstrap, &mut randomness).expect("keys");
        // A sparse secret is weak where the modulus is large: what is under it is modulo two primes.
        assert_eq!((seeded.to_sparse.basis, seeded.to_sparse.bodies.len()), (Basis { level: 0, special: 1 }, 1));
        let keys = BootstrapKeys::expand(ring, seeded).expect("keys of the ring");
        Self { ring, key, bootstrap, keys, randomness }
    }

    fn encrypt(&mut self, numbers: &[Complex], level: usize) -> Ciphertext {
        self.key.encrypt(self.ring, numbers, level, &mut self.randomness).expect("encryption")
    }

    fn bootstrap(&self, ciphertext: &Ciphertext, threads: usize) -> Ciphertext {
        let evaluator = Evaluator::new(self.ring, threads);
        evaluator.bootstrap(ciphertext, &self.bootstrap, &self.keys).expect("a bootstrap")
    }

    /// Bits behind the point: of the mean error, and of the greatest one.
    fn precision(&self, ciphertext: &Ciphertext, expected: &[Complex]) -> (f64, f64) {
        let got = self.key.decrypt(self.ring, ciphertext).expect("decryption");
        let errors: Vec<f64> = got.iter().zip(expected).map(|(a, b)| (*a - *b).magnitude()).collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        (-mean.log2(), -errors.iter().copied().fold(0.0, f64::max).log2())
    }
}

/// Numbers in the unit disc that have nothing to do with each other.
fn numbers(count: usize, seed: usize) -> Vec<Complex> {
    let number = |at: usize| Complex::at_turn((at * at) as f64 * 0.618_034).scale((at as f64 * 0.754_877).fract());
    (seed..seed + count).map(number).collect()
}

fn ring(set: &str) -> Ring {
    Ring::new(ckks::by_name(set).expect("a set"))
}

#[test]
fn numbers_come_back_with_new_levels_again_and_again() {
    // Of fewer numbers, each is in fewer and larger coefficients, for which a sine is less of a straight line.
    for (set, slots_log2, stages, level_out, mean_bits, worst_bits) in [
        ("TOY_CKKS_45_60_50", 9, 3, 11, 23.5, 22.0),
        ("TOY_CKKS_45_60_50", 9, 4, 10, 23.5, 22.0),
        ("TOY_CKKS_45_60_50", 9, 5, 9, 23.5, 22.0),
        ("TOY_CKKS_54_60", 9, 3, 12, 19.5, 18.0),
        ("TOY_CKKS_54_60", 9, 5, 8, 19.5, 18.0),
        ("TOY_CKKS_45_60_50", 8, 3, 11, 22.5, 21.0),
        ("TOY_CKKS_45_60_50", 5, 2, 12, 20.0, 18.5),
        ("TOY_CKKS_45_60_50", 1, 1, 13, 16.0, 16.0),
    ] {
        let ring = ring(set);
        for size in [KeySize::Small, KeySize::Medium, KeySize::Large] {
            let mut client = Client::new(&ring, slots_log2, stages, size);
            let plain = numbers(1 << slots_log2, 5);
            let mut ciphertext = client.encrypt(&plain, 2);
            for round in 0..3 {
                ciphertext = client.bootstrap(&ciphertext, 2);
                assert_eq!((ciphertext.level(), client.bootstrap.level_out()), (level_out, level_out));
                let (mean, worst) = client.precision(&ciphertext, &plain);
                let lost = f64::from(round + 1).log2();
                let enough = mean > mean_bits - lost && worst > worst_bits - lost;
                assert!(enough, "{set} 2^{slots_log2} {stages} {size:?}, round {round}: {mean:.1}, {worst:.1}");
            }
        }
    }
}

/// A smaller part of the first prime is a straighter piece of the sine, and has more of the noise.
#[test]
fn lossy_bootstraps_leave_more_levels() {
    for (set, slots_log2, stages, level_out, mean_bits, worst_bits) in [
        ("TOY_CKKS_45_60_50", 9, 3, 14, 24.5, 22.0),
        ("TOY_CKKS_45_60_50", 9, 4, 14, 24.5, 22.0),
        ("TOY_CKKS_45_60_50", 9, 5, 14, 24.5, 22.0),
        ("TOY_CKKS_45_60_50", 5, 2, 14, 24.5, 22.0),
        ("TOY_CKKS_54_60", 9, 4, 14, 24.0, 21.5),
    ] {
        let ring = ring(set);
        for size in [KeySize::Small, KeySize::Medium, KeySize::Large] {
            let mut client = Client::with(Bootstrap::lossy(&ring, slots_log2, stages, size).expect("a bootstrap"));
            let plain = numbers(1 << slots_log2, 5);
            let mut ciphertext = client.encrypt(&plain, stages);
            for round in 0..3 {
                ciphertext = client.bootstrap(&ciphertext, 2);
                assert_eq!((ciphertext.level(), client.bootstrap.level_out()), (level_out, level_out));
                assert!((ciphertext.scale / ring.scale() - 1.0).abs() < 1e-9, "{}", ciphertext.scale);
                let (mean, worst) = client.precision(&ciphertext, &plain);
                let lost = f64::from(round + 1).log2();
                let enough = mean > mean_bits - lost && worst > worst_bits - lost;
                assert!(enough, "{set} 2^{slots_log2} {stages} {size:?}, round {round}: {mean:.1}, {worst:.1}");
            }
            let refused = client.encrypt(&plain, stages - 1);
            let refused = Evaluator::new(&ring, 1).bootstrap(&refused, &client.bootstrap, &client.keys).err();
            assert!(matches!(refused, Some(CkksError::LevelTooLow { .. })), "{refused:?}");
        }
    }
}

#[test]
fn two_ciphertexts_of_real_numbers_take_one_bootstrap() {
    let ring = ring("TOY_CKKS_45_60_50");
    for slots_log2 in [9, 4] {
        let mut client = Client::new(&ring, slots_log2, 3, KeySize::Medium);
        let plain = [5, 77].map(|seed| -> Vec<Complex> {
            numbers(1 << slots_log2, seed).into_iter().map(|number| Complex::from(number.re)).collect()
        });
        let [a, b] = plain.each_ref().map(|plain| client.encrypt(plain, 0));
        let evaluator = Evaluator::new(&ring, 2);
        let both = evaluator.bootstrap_both([&a, &b], &client.bootstrap, &client.keys).expect("a bootstrap");
        for (result, plain) in both.iter().zip(&plain) {
            let (mean, worst) = client.precision(result, plain);
            assert_eq!(result.level(), client.bootstrap.level_out());
            assert!(mean > 18.0 && worst > 16.0, "2^{slots_log2}: {mean:.1}, {worst:.1}");
        }
    }
}

/// The same number everywhere is one large coefficient, where the sine is least straight: it comes back less exactly, as
/// docs/ckks.md says.
#[test]
fn a_number_that_is_everywhere_comes_back_less_exactly() {
    let ring = ring("TOY_CKKS_45_60_50");
    let plain = vec![Complex::from(1.0); 512];
    let of = [Bootstrap::new(&ring, 9, 3, KeySize::Medium), Bootstrap::lossy(&ring, 9, 3, KeySize::Medium)];
    for (bootstrap, bits) in of.into_iter().zip([13.0..14.0, 22.0..24.0]) {
        let mut client = Client::with(bootstrap.expect("a bootstrap"));
        let ciphertext = client.encrypt(&plain, client.bootstrap.level_in());
        let (_, worst) = client.precision(&client.bootstrap(&ciphertext, 2), &plain);
        assert!(bits.contains(&worst), "{worst:.1} is not in {bits:?}");
    }
}

#[test]
fn results_are_the_same_on_every_instruction_set_and_number_of_threads() {
    for set in ["TOY_CKKS_45_60_50", "TOY_CKKS_54_60"] {
        let mut seen: Option<[Vec<u64>; 2]> = None;
        for level in Level::available() {
            let ring = Ring::with_level(ckks::by_name(set).expect("a set"), level);
            let mut client = Client::new(&ring, 9, 3, KeySize::Medium);
            let ciphertext = client.encrypt(&numbers(512, 0), 0);
            for threads in [1, 3] {
                let result = client.bootstrap(&ciphertext, threads).polys.map(|poly| poly.words().to_vec());
                assert!(*seen.get_or_insert_with(|| result.clone()) == result, "{set}, {}, {threads}", level.name());
            }
        }
    }
}

#[test]
fn bootstraps_that_there_are_not_are_refused() {
    let ring = ring("TOY_CKKS_45_60_50");
    let refused = |slots_log2, stages| Bootstrap::new(&ring, slots_log2, stages, KeySize::Medium).err();
    for (slots_log2, stages) in [(9, 0), (9, 6), (2, 3)] {
        let (slots, stages_max) = (1 << slots_log2, slots_log2.min(5) as usize);
        let expected = NoSuchBootstrap::Stages { stages, slots, stages_max };
        assert_eq!(refused(slots_log2, stages), Some(CkksError::NoSuchBootstrap(expected)));
    }
    for slots_log2 in [0, 10, 40] {
        assert!(matches!(refused(slots_log2, 1), Some(CkksError::NoSuchBootstrap(NoSuchBootstrap::Slots { .. }))));
    }
    let mut client = Client::new(&ring, 5, 1, KeySize::Medium);
    let other = client.encrypt(&numbers(64, 0), 0);
    let refused = Evaluator::new(&ring, 1).bootstrap(&other, &client.bootstrap, &client.keys).err();
    assert_eq!(refused, Some(CkksError::OtherSlots { left: 64, right: 32 }));

    let x = client.encrypt(&numbers(32, 0), 1);
    let evaluator = Evaluator::new(&ring, 1);
    // A product that was not rescaled is too large for the first prime.
    let square = evaluator.multiply(&x, &x, &client.keys.evaluation).expect("a product");
    let refused = |x: &Ciphertext, bootstrap: &Bootstrap<'_>, keys: &BootstrapKeys| {
        Evaluator::new(&ring, 1).bootstrap(x, bootstrap, keys).err()
    };
    assert!(matches!(refused(&square, &client.bootstrap, &client.keys), Some(CkksError::TooLarge { .. })));
    let other = self::ring("TOY_CKKS_54_60");
    let of_other_set = Bootstrap::new(&other, 5, 1, KeySize::Medium).expect("a bootstrap");
    assert!(matches!(refused(&x, &of_other_set, &client.keys), Some(CkksError::OtherSet { .. })));
    assert!(KeyGenerator::new(&client.key, &ring).bootstrap(&of_other_set, &mut client.randomness).is_err());
    // Keys of a bootstrap that is not raised as high.
    let more_stages = Bootstrap::new(&ring, 5, 2, KeySize::Medium).expect("a bootstrap");
    assert!(matches!(refused(&x, &more_stages, &client.keys), Some(CkksError::LevelTooHigh { .. })));
}

/// Shapes that a toy has of those of the seed page's table: of so many numbers, with so many stages.
fn shapes() -> Vec<BootstrapShape> {
    let stages = |slots_log2: u32| match slots_log2 {
        ..=3 => 1..=1,
        4..=5 => 1..=2,
        6 => 2..=2,
        _ => 2..=3,
    };
    let mut shapes = Vec::new();
    for slots_log2 in 1..=9 {
        for stages in stages(slots_log2) {
            for size in [KeySize::Small, KeySize::Medium, KeySize::Large] {
                let kinds = [BootstrapKind::Regular, BootstrapKind::Lossy];
                shapes.extend(kinds.map(|kind| BootstrapShape { slots_log2, stages, size, kind }));
            }
        }
    }
    shapes
}

/// What is planned without matrices is what a bootstrap takes: not a key more, and none for a higher level.
#[test]
fn planned_keys_are_those_that_bootstraps_take() {
    let set = ckks::by_name("TOY_CKKS_45_60_50").expect("a set");
    let ring = Ring::new(set);
    let mut randomness = Randomness::insecure_for_tests(7);
    let key = SecretKey::generate(set, &mut randomness).expect("a key");
    for shape in shapes() {
        let bootstrap = Bootstrap::of(&ring, shape).expect("a bootstrap");
        assert_eq!(shape.matrix_bytes(set), bootstrap.bytes() as u64, "{shape:?}");
        let mut plan = KeyPlan::default();
        plan.bootstrap(&ring, shape).expect("a bootstrap");
        let generator = KeyGenerator::new(&key, &ring);
        let parts = generator.parts(&plan, &mut randomness).expect("keys").collect::<Result<Vec<_>, _>>();
        let parts = SeededBootstrapKeys::of_parts(parts.expect("keys")).expect("a key for each purpose");
        let mut keys = BootstrapKeys::expand(&ring, parts).expect("keys of the ring");

        let plain = numbers(1 << shape.slots_log2, 5);
        let x = key.encrypt(&ring, &plain, shape.level_in(), &mut randomness).expect("encryption");
        let compute = |keys: &BootstrapKeys| Evaluator::new(&ring, 1).bootstrap(&x, &bootstrap, keys);
        let y = compute(&keys).expect("all keys are there");
        let got = key.decrypt(&ring, &y).expect("decryption");
        let worst = got.iter().zip(&plain).map(|(a, b)| (*a - *b).magnitude()).fold(0.0, f64::max);
        assert!(worst < 2_f64.powi(-13), "{shape:?}: {worst}");

        for (purpose, level) in shape.keys(set) {
            // One that is a level too low, or, below the lowest one, not there.
            let (power, lower) = match (purpose, level.checked_sub(1)) {
                (KeyUse::ToSparse | KeyUse::ToDense, _) => continue,
                (KeyUse::Multiplication, below) => {
                    (None, below.map(|below| generator.relinearization(below, &mut randomness).expect("a key")))
                }
                (KeyUse::Conjugation, below) => {
                    let lower = below.map(|below| generator.conjugation(below, &mut randomness).expect("a key").1);
                    (Some(conjugation_power(&ring)), lower)
                }
                (KeyUse::Rotation { steps, .. }, below) => {
                    let steps = steps as i64;
                    let lower = below.map(|below| generator.rotation(steps, below, &mut randomness).expect("a key").1);
                    (Some(rotation_power(&ring, steps)), lower)
                }
            };
            let lower = lower.map(|key| SwitchKey::expand(&ring, key).expect("a key of the ring"));
            let evaluation = &mut keys.evaluation;
            let refused = match power {
                None => {
                    let own = std::mem::replace(&mut evaluation.relinearization, lower);
                    let refused = compute(&keys).err();
                    keys.evaluation.relinearization = own;
                    refused
                }
                Some(power) => {
                    let own = evaluation.moves.remove(&power).expect("a key that was planned");
                    let lower = lower.map(|key| MoveKey::new(&ring, power, key).expect("a key that moves"));
                    evaluation.moves.extend(lower.map(|key| (power, key)));
                    let refused = compute(&keys).err();
                    keys.evaluation.moves.insert(power, own);
                    refused
                }
            };
            let is_refused = matches!(refused, Some(CkksError::LevelTooHigh { .. } | CkksError::MissingKey { .. }));
            assert!(is_refused, "{shape:?} with no key for {purpose} at level {level}: {refused:?}");
        }
    }
}

/// The real rings: gigabytes, and a minute.
#[test]
fn real_rings_keep_their_promises() {
    if std::env::var_os("CLOAKWORK_TEST_ALL").is_none() {
        return;
    }
    for (set, level_out, mean_bits, worst_bits) in [("CKKS_45_60_50", 9, 22.5, 20.0), ("CKKS_54_60", 8, 19.0, 17.0)] {
        let ring = ring(set);
        let mut client = Client::new(&ring, 15, 5, KeySize::Medium);
        let plain = numbers(1 << 15, 5);
        let ciphertext = client.encrypt(&plain, 0);
        let result = client.bootstrap(&ciphertext, 2);
        let (mean, worst) = client.precision(&result, &plain);
        assert_eq!(result.level(), level_out);
        assert!(mean > mean_bits && worst > worst_bits, "{set}: {mean:.1}, {worst:.1}");
    }
}
