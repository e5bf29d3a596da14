//! Arithmetic on encrypted numbers, compared with that on plain numbers.

use cloakwork_ckks::{
    Basis, Ciphertext, CkksError, Complex, Diagonals, EncodedMatrix, EvaluationKeys, Evaluator, Ring, SwitchKey,
    key::{MaskSeed, MoveKey, SeededSwitchKey},
};
use cloakwork_params::ckks::{self, offsets::Way};
use cloakwork_secret::{
    Randomness, SecretError,
    ckks::{KeyGenerator, PublicKey, SecretKey, SeededPublicKey},
};

struct Client {
    ring: Ring,
    key: SecretKey,
    randomness: Randomness,
}

impl Client {
    fn new(set: &str) -> Self {
        let ring = Ring::new(ckks::by_name(set).expect("a set"));
        let mut randomness = Randomness::insecure_for_tests(1);
        let key = SecretKey::generate(ring.set(), &mut randomness).expect("a key");
        Self { ring, key, randomness }
    }

    fn keys(&mut self, level: usize, steps: &[i64]) -> EvaluationKeys {
        let generator = KeyGenerator::new(&self.key, &self.ring);
        let relinearization = generator.relinearization(level, &mut self.randomness).expect("a key");
        let mut moved: Vec<_> =
            steps.iter().map(|steps| generator.rotation(*steps, level, &mut self.randomness).expect("a key")).collect();
        moved.push(generator.conjugation(level, &mut self.randomness).expect("a key"));
        let moves = moved
            .into_iter()
            .map(|(power, key)| (power, MoveKey::new(&self.ring, power, self.expand(key)).expect("a key")));
        EvaluationKeys { relinearization: Some(self.expand(relinearization)), moves: moves.collect() }
    }

    fn expand(&self, key: SeededSwitchKey) -> SwitchKey {
        SwitchKey::expand(&self.ring, key).expect("a key of the ring")
    }

    fn encrypt(&mut self, numbers: &[Complex], level: usize) -> Ciphertext {
        self.key.encrypt(&self.ring, numbers, level, &mut self.randomness).expect("encryption")
    }

    /// Number of correct bits after the binary point: minus log2 of the greatest error.
    fn precision(&self, ciphertext: &Ciphertext, expected: &[Complex]) -> f64 {
        let numbers = self.key.decrypt(&self.ring, ciphertext).expect("decryption");
        assert_eq!(numbers.len(), expected.len());
        -numbers.iter().zip(expected).map(|(a, b)| (*a - *b).magnitude()).fold(0.0, f64::max).log2()
    }
}

fn numbers(count: usize, seed: f64) -> Vec<Complex> {
    (0..count).map(|k| Complex::new((seed + 1.7 * k as f64).sin(), (seed * 2.0 + 0.9 * k as f64).cos())).collect()
}

fn each(a: &[Complex], b: &[Complex], of: impl Fn(Complex, Complex) -> Complex) -> Vec<Complex> {
    a.iter().zip(b).map(|(a, b)| of(*a, *b)).collect()
}

const SETS: [&str; 2] = ["TOY_CKKS_54_60", "TOY_CKKS_45_60_50"];

#[test]
fn public_key_encryptions_decrypt_with_the_secret_key() {
    for set in ["TOY_CKKS_45_60_50", "TOY_CKKS_54_60"] {
        let mut client = Client::new(set);
        let seeded = client.key.public_key(&client.ring, &mut client.randomness).expect("a key");
        let public = PublicKey::expand(&client.ring, client.key.key_id(), seeded).expect("a key of the ring");
        assert_eq!(public.key_id(), client.key.key_id());
        for (slots, level) in [(512, 0), (512, client.ring.set().working_level), (4, 3)] {
            let plain = numbers(slots, 0.3);
            let ciphertext = public.encrypt(&client.ring, &plain, level, &mut client.randomness).expect("encryption");
            assert_eq!((ciphertext.level(), ciphertext.slots()), (level, slots));
            // The noise is 3.19 sqrt(2N / 3 + weight) per coefficient, and sqrt(N) times that in a
            // number.
            let precision = client.precision(&ciphertext, &plain);
            assert!(precision > f64::from(client.ring.set().scale_log2) - 16.0, "{set}, {slots}: {precision}");
        }
        let again = [0, 1].map(|_| public.encrypt(&client.ring, &numbers(4, 0.3), 0, &mut client.randomness));
        let [one, other] = again.map(|ciphertext| ciphertext.expect("encryption").polys[1].words().to_vec());
        assert!(one != other, "no two encryptions are alike");
        let refused = public.encrypt(&client.ring, &[Complex::new(f64::NAN, 0.0)], 0, &mut client.randomness);
        assert!(matches!(refused.err(), Some(SecretError::Ckks(CkksError::NotFinite { index: 0 }))));
        let (body, seed) = (client.ring.zero(Basis::of_level(1)), MaskSeed { key: 1, block: 0, byte: 0 });
        let lower = PublicKey::expand(&client.ring, client.key.key_id(), SeededPublicKey { body, seed });
        assert!(matches!(lower.err(), Some(SecretError::Ckks(CkksError::MalformedKey { .. }))));
    }
}

#[test]
fn encrypted_numbers_decrypt_at_every_number_of_slots() {
    for set in SETS {
        let mut client = Client::new(set);
        for slots in [1, 2, 8, 512] {
            for level in [0, 1, client.ring.set().working_level] {
                let a = numbers(slots, 0.3);
                let encrypted = client.encrypt(&a, level);
                let precision = client.precision(&encrypted, &a);
                assert!(precision > client.ring.scale().log2() - 12.0, "{set} {slots} {level}: {precision}");
            }
        }
    }
}

#[test]
fn sums_products_rotations_and_conjugates_match_plain_numbers() {
    for set in SETS {
        let mut client = Client::new(set);
        let keys = client.keys(client.ring.set().working_level, &[1, 5, -1]);
        for (slots, level) in [(512, 14), (16, 13), (512, 1)] {
            let (a, b) = (numbers(slots, 0.1), numbers(slots, 0.7));
            let (x, y) = (client.encrypt(&a, level), client.encrypt(&b, level));
            let evaluator = Evaluator::new(&client.ring, 1);
            let least = client.ring.scale().log2() - 16.0;
            let check = |what: &str, result: Ciphertext, expected: Vec<Complex>| {
                let precision = client.precision(&result, &expected);
                assert!(precision > least, "{set}, {slots} slots at level {level}: {what} has {precision} bits");
            };
            check("x + y", evaluator.add(&x, &y).expect("a sum"), each(&a, &b, |a, b| a + b));
            check("x - y", evaluator.sub(&x, &y).expect("a difference"), each(&a, &b, |a, b| a - b));
            check("-x", evaluator.negate(&x), each(&a, &b, |a, _| -a));
            let product = evaluator.multiply(&x, &y, &keys).and_then(|product| evaluator.rescale(&product));
            let product = product.expect("a product");
            assert_eq!(product.level(), level - 1);
            check("x * y", product, each(&a, &b, |a, b| a * b));
            let plain = client.ring.encode(&b, client.ring.scale(), Basis::of_level(level)).expect("numbers");
            check("x + plain", evaluator.add_plain(&x, &plain).expect("a sum"), each(&a, &b, |a, b| a + b));
            let product = evaluator.multiply_plain(&x, &plain).and_then(|product| evaluator.rescale(&product));
            check("x * plain", product.expect("a product"), each(&a, &b, |a, b| a * b));
            for steps in [0_i64, 1, 5, -1] {
                let turned = (0..slots).map(|at| a[(at as i64 + steps).rem_euclid(slots as i64) as usize]).collect();
                check("a rotation", evaluator.rotate(&x, steps, &keys).expect("a rotation"), turned);
            }
            let more = evaluator.add_constant(&x, 0.375).expect("a sum");
            check("x + constant", more, each(&a, &b, |a, _| a + Complex::from(0.375)));
            check(
                "conjugates",
                evaluator.conjugate(&x, &keys).expect("conjugates"),
                each(&a, &b, |a, _| a.conjugate()),
            );
        }
    }
}

#[test]
fn matrix_products_match_plain_numbers() {
    let mut client = Client::new("TOY_CKKS_45_60_50");
    let (level, n) = (6, 64);
    let diagonals = [0, 1, 3, 4, n - 1, n - 6].map(|offset| (offset, numbers(n, offset as f64)));
    let matrix = Diagonals::new(n, diagonals);
    let encode = |more| {
        EncodedMatrix::new(&Evaluator::new(&client.ring, 1), &matrix, Way::Apart { more }, level, client.ring.scale())
    };
    let encoded = [0, 1, 5].map(|more| encode(more).expect("a matrix"));
    let mut steps: Vec<i64> = encoded.iter().flat_map(EncodedMatrix::rotations).collect();
    steps.sort_unstable();
    steps.dedup();
    let keys = client.keys(level, &steps);
    let a = numbers(n, 0.6);
    for at in [level, level + 2] {
        let x = client.encrypt(&a, at);
        for encoded in &encoded {
            let product = Evaluator::new(&client.ring, 2).transform(&x, encoded, &keys).expect("a product");
            assert_eq!(product.level(), level - 1);
            let precision = client.precision(&product, &matrix.apply(&a));
            assert!(precision > 27.0, "{precision}");
        }
    }
    let x = client.encrypt(&a, level);
    let low = client.encrypt(&a, level - 1);
    let few = client.keys(level - 1, &steps);
    let evaluator = Evaluator::new(&client.ring, 1);
    let refused = |x: &Ciphertext, keys: &EvaluationKeys| evaluator.transform(x, &encoded[0], keys).err();
    assert!(matches!(refused(&low, &keys), Some(CkksError::LevelTooLow { got: 5, least: 6, .. })));
    assert!(matches!(refused(&x, &few), Some(CkksError::LevelTooHigh { got: 6, max: 5, .. })));
    assert!(matches!(refused(&x, &EvaluationKeys::default()), Some(CkksError::MissingKey { .. })));
}

/// Rings of toy sets have one stretch per row. Rows of full-size rings are cut into more stretches
/// for more threads.
#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let mut client = Client::new("CKKS_45_60_50_H4096");
    let (level, n) = (6, 64);
    let matrix = Diagonals::new(n, [0, 1, 3, 4, n - 1, n - 6].map(|offset| (offset, numbers(n, offset as f64))));
    let (way, scale) = (Way::Apart { more: 0 }, client.ring.scale());
    let encoded = EncodedMatrix::new(&Evaluator::new(&client.ring, 2), &matrix, way, level, scale).expect("a matrix");
    let steps: Vec<i64> = encoded.rotations().collect();
    let keys = client.keys(level, &steps);
    let a = numbers(n, 0.6);
    let x = client.encrypt(&a, level);
    let turned = steps.iter().find(|steps| **steps > 0).expect("a rotation to the left");
    let rotated: Vec<Complex> = (0..n).map(|place| a[(place + *turned as usize) % n]).collect();
    let expected =
        [rotated, a.iter().map(|number| number.conjugate()).collect(), each(&a, &a, |a, b| a * b), matrix.apply(&a)];
    let mut seen: Option<Vec<Vec<u64>>> = None;
    for threads in [1, 2, 3, 4, 5, 8, 17, 40] {
        let evaluator = Evaluator::new(&client.ring, threads);
        let results = [
            evaluator.rotate(&x, *turned, &keys),
            evaluator.conjugate(&x, &keys),
            evaluator.multiply_rescaled(&x, &x, &keys),
            evaluator.transform(&x, &encoded, &keys),
        ];
        let results = results.map(|result| result.expect("a result"));
        let words = results.iter().flat_map(|result| result.polys.iter().map(|poly| poly.words().to_vec()));
        let words: Vec<Vec<u64>> = words.collect();
        if seen.is_none() {
            for (result, expected) in results.iter().zip(&expected) {
                let precision = client.precision(result, expected);
                assert!(precision > 24.0, "{precision}");
            }
        }
        assert!(*seen.get_or_insert_with(|| words.clone()) == words, "{threads} threads");
    }
}

#[test]
fn malformed_keys_are_refused() {
    let mut client = Client::new("TOY_CKKS_45_60_50");
    let generator = KeyGenerator::new(&client.key, &client.ring);
    let mut key = || generator.relinearization(7, &mut client.randomness).expect("a key");
    let spoilt: [fn(&mut SeededSwitchKey); 5] = [
        |key| key.basis.level = 28,
        |key| key.basis.special = 3,
        |key| key.basis.level = 8,
        |key| key.bodies.truncate(1),
        |key| key.bodies[1].row_mut(3)[9] = u64::MAX,
    ];
    for spoil in spoilt {
        let mut key = key();
        spoil(&mut key);
        assert!(matches!(SwitchKey::expand(&client.ring, key), Err(CkksError::MalformedKey { .. })));
    }
    for power in [0, 2, 2049] {
        let key = SwitchKey::expand(&client.ring, key()).expect("a key of the ring");
        assert!(matches!(MoveKey::new(&client.ring, power, key), Err(CkksError::MalformedKey { .. })));
    }
}

#[test]
fn squares_are_right_down_to_the_last_level() {
    let mut client = Client::new("TOY_CKKS_54_60");
    let keys = client.keys(8, &[]);
    // Squares keep the magnitude of numbers at one or less.
    let a: Vec<Complex> = numbers(512, 0.2).into_iter().map(|number| number.scale(0.7)).collect();
    let mut x = client.encrypt(&a, 8);
    let mut expected = a;
    let evaluator_ring = Ring::new(client.ring.set());
    let evaluator = Evaluator::new(&evaluator_ring, 3);
    while x.level() > 0 {
        x = evaluator.multiply(&x, &x, &keys).and_then(|square| evaluator.rescale(&square)).expect("a square");
        expected = each(&expected, &expected, |a, b| a * b);
        let precision = client.precision(&x, &expected);
        assert!(precision > 26.0, "{precision} bits at level {}", x.level());
    }
    assert_eq!(evaluator.rescale(&x).err(), Some(CkksError::LevelTooLow { what: "a rescale", got: 0, least: 1 }));
}

#[test]
fn numbers_too_large_for_the_modulus_are_refused() {
    for (set, largest_log2) in [("TOY_CKKS_45_60_50", 51), ("TOY_CKKS_54_60", 58)] {
        let mut client = Client::new(set);
        let x = client.encrypt(&[Complex::ZERO; 2], 3);
        for level in [1, 2, 3] {
            let evaluator = Evaluator::new(&client.ring, 1);
            let sum =
                |log2| evaluator.add_constant(&x.at_level(level).expect("a level"), 2_f64.powi(log2)).expect("a sum");
            let [fits, wraps] = [sum(largest_log2), sum(largest_log2 + 4)];
            let got = client.key.decrypt(&client.ring, &fits).expect("numbers");
            assert!((got[0].re / 2_f64.powi(largest_log2) - 1.0).abs() < 1e-9, "{set}: {}", got[0].re);
            // Without a third prime to check against, decryption returns wrong numbers.
            let read = client.key.decrypt(&client.ring, &wraps);
            assert_eq!(matches!(read, Err(SecretError::Ckks(CkksError::TooLarge { .. }))), level > 1, "{read:?}");
        }
        let large = [Complex::from(2_f64.powi(largest_log2 + 4)); 2];
        let refused = client.key.encrypt(&client.ring, &large, 9, &mut client.randomness).err();
        assert!(matches!(refused, Some(SecretError::Ckks(CkksError::TooLarge { .. }))), "{refused:?}");
    }
}

#[test]
fn invalid_operations_are_refused() {
    let mut client = Client::new("TOY_CKKS_54_60");
    let keys = client.keys(3, &[2]);
    let (x, y) = (client.encrypt(&numbers(512, 0.2), 4), client.encrypt(&numbers(8, 0.2), 4));
    let mut other_scale = x.clone();
    other_scale.scale *= 1.001;
    let evaluator = Evaluator::new(&client.ring, 1);
    assert!(matches!(evaluator.add(&x, &y), Err(CkksError::OtherSlots { left: 512, right: 8 })));
    assert!(matches!(evaluator.sub(&x, &other_scale), Err(CkksError::OtherScale { .. })));
    assert!(matches!(evaluator.multiply(&x, &x, &keys), Err(CkksError::LevelTooHigh { got: 4, max: 3, .. })));
    assert!(matches!(evaluator.rotate(&x, 2, &keys), Err(CkksError::LevelTooHigh { got: 4, max: 3, .. })));
    assert!(matches!(evaluator.rotate(&x, 3, &keys), Err(CkksError::MissingKey { .. })));
    let empty = EvaluationKeys::default();
    assert!(matches!(evaluator.multiply(&x, &x, &empty), Err(CkksError::MissingKey { .. })));
    assert!(matches!(evaluator.conjugate(&x, &empty), Err(CkksError::MissingKey { .. })));
    let basis = Basis::of_level(0);
    for (bad, scale) in [(f64::NAN, 1.0), (f64::INFINITY, 1.0), (1.0, f64::NAN), (1.0, 0.0), (1.0, -1.0), (1e300, 1.0)]
    {
        let refused = client.ring.encode(&[Complex::from(bad)], scale, basis).err();
        let expected = matches!(refused, Some(CkksError::NotFinite { .. } | CkksError::TooLarge { .. }));
        assert!(expected, "{bad} at {scale}: {refused:?}");
    }
    assert!(matches!(client.ring.encode(&numbers(1024, 0.1), 1.0, basis), Err(CkksError::WrongSlots { .. })));
    assert!(matches!(client.ring.encode(&numbers(3, 0.1), 1.0, basis), Err(CkksError::WrongSlots { .. })));
    let high = client.ring.encode(&numbers(4, 0.1), 1.0, Basis::of_level(27));
    assert!(matches!(high, Err(CkksError::LevelTooHigh { .. })));
    let other = SecretKey::generate(ckks::by_name("TOY_CKKS_45_60_50").expect("a set"), &mut client.randomness);
    let other = other.expect("a key");
    assert!(matches!(other.decrypt(&client.ring, &x), Err(SecretError::SetNotInKey { .. })));
    let refused = other.encrypt(&client.ring, &numbers(4, 0.1), 0, &mut client.randomness);
    assert!(matches!(refused, Err(SecretError::SetNotInKey { .. })));
    assert_eq!(evaluator.chebyshev(&x, &[], 1.0, &keys).err(), Some(CkksError::NoCoefficients));
    let ring = Ring::new(other.set());
    let refused = other.encrypt(&ring, &numbers(4, 0.1), 15, &mut client.randomness);
    assert!(matches!(refused, Err(SecretError::Ckks(CkksError::LevelTooHigh { got: 15, max: 14, .. }))));
}
