//! Arithmetic on encrypted numbers, against the same on plain ones.

use cloakwork_ckks::{Basis, Ciphertext, CkksError, Complex, EvaluationKeys, Evaluator, Ring, SwitchKey, key::MoveKey};
use cloakwork_params::ckks;
use cloakwork_secret::{
    Randomness, SecretError,
    ckks::{KeyGenerator, SecretKey},
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
            .map(|(power, key)| (power, MoveKey::new(&self.ring, power, SwitchKey::expand(&self.ring, key))));
        EvaluationKeys { relinearization: Some(SwitchKey::expand(&self.ring, relinearization)), moves: moves.collect() }
    }

    fn encrypt(&mut self, numbers: &[Complex], level: usize) -> Ciphertext {
        self.key.encrypt(&self.ring, numbers, level, &mut self.randomness).expect("encryption")
    }

    /// log2 of the greatest error, the sign turned: bits behind the point.
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
fn what_is_encrypted_comes_back_at_every_number_of_slots() {
    for set in SETS {
        let mut client = Client::new(set);
        for slots in [1, 2, 8, 512] {
            for level in [0, 1, client.ring.level_max()] {
                let a = numbers(slots, 0.3);
                let encrypted = client.encrypt(&a, level);
                let precision = client.precision(&encrypted, &a);
                assert!(precision > client.ring.scale().log2() - 12.0, "{set} {slots} {level}: {precision}");
            }
        }
    }
}

#[test]
fn sums_products_and_moves_are_those_of_the_numbers() {
    for set in SETS {
        let mut client = Client::new(set);
        let keys = client.keys(client.ring.level_max(), &[1, 5, -1]);
        for (slots, level) in [(512, 14), (16, 27.min(client.ring.level_max())), (512, 1)] {
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
            check(
                "conjugates",
                evaluator.conjugate(&x, &keys).expect("conjugates"),
                each(&a, &b, |a, _| a.conjugate()),
            );
        }
    }
}

#[test]
fn products_go_on_until_no_level_is_left() {
    let mut client = Client::new("TOY_CKKS_54_60");
    let keys = client.keys(8, &[]);
    // Numbers of magnitude up to one stay such.
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
fn what_cannot_be_done_is_refused() {
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
    let refused = other.expect("a key").decrypt(&client.ring, &x).err();
    assert!(matches!(refused, Some(SecretError::SetNotInKey { .. })));
}
