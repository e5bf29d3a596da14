//! Multiples of the first prime in the coefficients of a raised ciphertext.
//!
//! Under a sparse secret of weight h, the error of a coefficient is the rounded sum of h uniform
//! fractions of the prime. The sum is at most h / 2 multiples. Remainders are correct for fewer
//! than h / 2.

use cloakwork_ckks::{Bootstrap, KeySize};

use crate::client::{Client, numbers, ring};

#[test]
fn multiples_follow_the_weight_of_the_sparse_secret() {
    for set in ["TOY_CKKS_45_60_50", "TOY_CKKS_54_60"] {
        let ring = ring(set);
        let mut histogram = Histogram::new(ring.set().bootstrap.sparse_weight);
        // Each seed gives another secret and another sparse secret.
        for seed in 0..24 {
            let bootstrap = Bootstrap::new(&ring, 1, 1, KeySize::Small).expect("a bootstrap");
            let mut client = Client::seeded(bootstrap, seed);
            histogram.observe(&mut client, 16);
        }
        histogram.check(set);
    }
}

/// Checks the multiples in the ciphertexts that one client raises.
pub(crate) fn check(client: &mut Client<'_>, ciphertexts: usize) {
    let set = client.ring.set();
    let mut histogram = Histogram::new(set.bootstrap.sparse_weight);
    histogram.observe(client, ciphertexts);
    histogram.check(set.name);
}

/// Number of coefficients by multiple, from -h / 2 on.
struct Histogram {
    counts: Vec<u64>,
}

impl Histogram {
    fn new(weight: usize) -> Self {
        Self { counts: vec![0; weight + 1] }
    }

    fn observe(&mut self, client: &mut Client<'_>, ciphertexts: usize) {
        let prime = client.ring.prime(0).modulus().value() as f64;
        for seed in 0..ciphertexts {
            let x = client.encrypt(&numbers(client.bootstrap.slots(), seed), 0);
            let raised = client.raise(&x);
            for coefficient in client.key.coefficients_of(client.ring, &raised).expect("decryption") {
                let (multiple, rest) = ((coefficient / prime).round(), coefficient / prime);
                // The rest is the plaintext, since numbers are a small part of the prime.
                assert!((rest - multiple).abs() < 0.02, "{rest} is not near a whole number");
                let place = multiple as i64 + (self.counts.len() / 2) as i64;
                let count = usize::try_from(place).ok().and_then(|place| self.counts.get_mut(place));
                *count.expect("no more multiples than the weight allows") += 1;
            }
        }
    }

    fn check(&self, name: &str) {
        let weight = self.counts.len() - 1;
        let middle = weight / 2;
        let seen: u64 = self.counts.iter().sum();
        let expected: Vec<f64> = probabilities(weight).iter().map(|one| one * seen as f64).collect();
        let most = (0..=middle).rev().find(|far| self.counts[middle - far] + self.counts[middle + far] > 0);
        let most = most.expect("something was seen");
        println!("{name}: {seen} coefficients, at most {most} multiples: {:?}", self.counts);
        // The polynomial for remainders is correct up to one less than half the weight.
        assert!(most < middle, "{name}: {most} multiples");
        // Compare the number of coefficients at least `far` multiples out, on either side, with the
        // expected number. Where fewer than 2^-20 are expected, there must be none.
        for far in 1..middle {
            let both = |values: &dyn Fn(usize) -> f64| {
                (far..=middle).map(|at| values(middle - at) + values(middle + at)).sum::<f64>()
            };
            let (count, mean) = (both(&|at| self.counts[at] as f64), both(&|at| expected[at]));
            // The coefficients of one ciphertext are not independent. The squared correlations of a
            // coefficient with all others sum to about one, which may double the variance. The
            // bound is six standard deviations, plus ten for rare events.
            assert!(
                (count - mean).abs() < 6.0 * (2.0 * mean).sqrt() + 10.0,
                "{name}: {count} beyond {far}, not {mean}"
            );
            assert!(mean > 2_f64.powi(-20) || count == 0.0, "{name}: {count} beyond {far}, where {mean} are expected");
        }
    }
}

/// Probabilities of -h / 2 and so on: that the rounded sum of h numbers, uniform between -1/2 and
/// 1/2, has this value.
fn probabilities(weight: usize) -> Vec<f64> {
    let mut found = vec![1.0];
    for n in 1..=weight {
        let of = |place: Option<usize>| place.and_then(|place| found.get(place)).copied().unwrap_or(0.0);
        found = (0..=n)
            .map(|k| {
                let (from_left, stays) = ((2 * (n - k) + 1) as f64, (2 * k + 1) as f64);
                (from_left * of(k.checked_sub(1)) + stays * of(Some(k))) / (2 * n) as f64
            })
            .collect();
    }
    found
}

#[test]
fn probabilities_match_known_sums() {
    // The sum of two numbers has a triangular density from -1 to 1. An eighth of it is beyond 1/2
    // on each side.
    assert_eq!(probabilities(2), [0.125, 0.75, 0.125]);
    let of_set = probabilities(32);
    let moment = |power: i32| -> f64 {
        of_set.iter().zip(-16..).map(|(one, multiple): (&f64, i32)| one * f64::from(multiple).powi(power)).sum()
    };
    assert!((moment(0) - 1.0).abs() < 1e-12 && (moment(2) - 33.0 / 12.0).abs() < 1e-12);
    // The probability of both ends for 2^16 coefficients, as docs/ckks.md states it.
    assert!(((of_set[0] + of_set[32]).log2() + 16.0 + 132.663).abs() < 0.001);
}
