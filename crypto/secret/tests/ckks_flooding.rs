//! Decryption with noise that hides the errors.

use cloakwork_ckks::{CkksError, Complex, Ring};
use cloakwork_params::ckks;
use cloakwork_secret::{
    Randomness, SecretError,
    ckks::{Flooding, SecretKey},
};

#[test]
fn numbers_get_noise_of_the_stated_size() {
    const RESULTS: usize = 40;
    let (ring, key, mut randomness) = client();
    // The last noise is about the widest that is not refused.
    for (slots_log2, bits, error_log2) in [(9, 30, -38), (9, 40, -38), (4, 40, -38), (4, 48, 20)] {
        let numbers: Vec<Complex> = (0..1 << slots_log2).map(|k| Complex::new(f64::from(k).sin(), 0.25)).collect();
        let ciphertext = key.encrypt(&ring, &numbers, 2, &mut randomness).unwrap();
        let exact = key.decrypt(&ring, &ciphertext).unwrap();
        let flooding = Flooding::new(2_f64.powi(error_log2), 1 << 20).unwrap().with_statistical_bits(bits).unwrap();
        let results =
            (0..RESULTS).map(|_| key.decrypt_flooded(&ring, &ciphertext, &flooding, &mut randomness).unwrap());
        let noise: Vec<Complex> = results
            .flat_map(|result| result.into_iter().zip(&exact).map(|(a, b)| a - *b).collect::<Vec<_>>())
            .collect();
        let squares: f64 = noise.iter().map(|noise| noise.magnitude().powi(2)).sum();
        let (expected, count) = (flooding.noise(slots_log2), noise.len() as f64);
        // A number has two normal parts: the mean square is within six standard deviations.
        let ratio = squares / count / expected.powi(2);
        assert!((ratio - 1.0).abs() < 6.0 / count.sqrt(), "2^{slots_log2} slots: {ratio}");
        // sqrt(24 * 2^20) 2^(bits / 2) times the error, and sqrt(2 * slots) of that in a number.
        let log2 = 12.292 + f64::from(bits) / 2.0 + f64::from(error_log2) + f64::from(slots_log2 + 1) / 2.0;
        assert!((expected.log2() - log2).abs() < 0.001, "{} and {log2}", expected.log2());
    }
}

#[test]
fn noise_out_of_range_is_refused() {
    let refused = |flooding: Result<Flooding, SecretError>| flooding == Err(SecretError::NoSuchFlooding);
    for error in [0.0, -1e-9, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE / 2.0] {
        assert!(refused(Flooding::new(error, 1)), "{error}");
    }
    for (results, is_refused) in [(0, true), (1, false), (1 << 20, false), ((1 << 20) + 1, true)] {
        assert_eq!(refused(Flooding::new(1e-9, results)), is_refused, "{results} results");
    }
    for (bits, is_refused) in [(29, true), (30, false), (48, false), (49, true)] {
        assert_eq!(refused(Flooding::new(1e-9, 1).unwrap().with_statistical_bits(bits)), is_refused, "{bits} bits");
    }
    let (ring, key, mut randomness) = client();
    let ciphertext = key.encrypt(&ring, &[Complex::from(0.5)], 2, &mut randomness).unwrap();
    // Errors as large as the numbers still have noise. Far larger ones have none.
    for (error, is_refused) in [(1.0, false), (1e30, true)] {
        let flooding = Flooding::new(error, 1 << 20).unwrap().with_statistical_bits(48).unwrap();
        let result = key.decrypt_flooded(&ring, &ciphertext, &flooding, &mut randomness);
        assert_eq!(result.err() == Some(SecretError::NoSuchFlooding), is_refused, "{error}");
    }
}

#[test]
fn numbers_that_have_outgrown_the_modulus_are_refused_as_without_noise() {
    let (ring, key, mut randomness) = client();
    let mut ciphertext = key.encrypt(&ring, &[Complex::from(0.5)], 3, &mut randomness).unwrap();
    let primes = ring.primes(ciphertext.polys[0].basis()).collect::<Vec<_>>();
    // A multiple of the first two primes in the third is a coefficient beyond both.
    let third = primes[2].modulus();
    ciphertext.polys[0].row_mut(2).iter_mut().for_each(|word| *word = third.add(*word, 1));
    let flooding = Flooding::new(1e-9, 1).unwrap();
    let refused = key.decrypt_flooded(&ring, &ciphertext, &flooding, &mut randomness);
    assert!(matches!(refused, Err(SecretError::Ckks(CkksError::TooLarge { .. }))));
}

fn client() -> (Ring, SecretKey, Randomness) {
    let ring = Ring::new(ckks::by_name("TOY_CKKS_54_60").expect("a set"));
    let mut randomness = Randomness::insecure_for_tests(1);
    let key = SecretKey::generate(ring.set(), &mut randomness).expect("a key");
    (ring, key, randomness)
}
