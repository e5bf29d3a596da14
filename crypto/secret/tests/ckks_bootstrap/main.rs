//! Bootstraps: correctness, precision, and equal results on every instruction set and number of
//! threads.

mod client;
mod contract;
mod keys;
mod multiples;
mod rounds;

use std::sync::Mutex;

use client::{Client, numbers, ring};
use cloakwork_ckks::{
    Bootstrap, BootstrapKeys, BootstrapStep, Ciphertext, CkksError, Complex, Evaluator, KeySize, NoSuchBootstrap, Ring,
};
use cloakwork_math::simd::Level;
use cloakwork_params::ckks;
use cloakwork_secret::ckks::KeyGenerator;

#[test]
fn repeated_bootstraps_keep_the_numbers() {
    // With fewer slots, the coefficients are fewer and larger, and the sine is less linear at their
    // size.
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
            assert_eq!(client.bootstrap.level_out(), level_out);
            bootstrap_three_times(&mut client, mean_bits, worst_bits);
        }
    }
}

/// The numbers take a smaller part of the first prime. The sine is more linear there, and the noise
/// has more weight.
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
            assert_eq!(client.bootstrap.level_out(), level_out);
            bootstrap_three_times(&mut client, mean_bits, worst_bits);
            let refused = client.encrypt(&numbers(1 << slots_log2, 5), stages - 1);
            let refused = Evaluator::new(&ring, 1).bootstrap(&refused, &client.bootstrap, &client.keys).err();
            assert!(matches!(refused, Some(CkksError::LevelTooLow { .. })), "{refused:?}");
        }
    }
}

/// Runs three bootstraps one after the other. Their errors add up.
fn bootstrap_three_times(client: &mut Client<'_>, mean_bits: f64, worst_bits: f64) {
    let plain = numbers(client.bootstrap.slots(), 5);
    let mut ciphertext = client.encrypt(&plain, client.bootstrap.level_in().max(2));
    for round in 1..=3 {
        ciphertext = client.bootstrap(&ciphertext, 2);
        assert_eq!(ciphertext.level(), client.bootstrap.level_out());
        assert!((ciphertext.scale / client.ring.scale() - 1.0).abs() < 1e-9, "{}", ciphertext.scale);
        let (mean, worst) = client.precision(&ciphertext, &plain);
        let lost = f64::from(round).log2();
        let is_enough = mean > mean_bits - lost && worst > worst_bits - lost;
        let (set, shape) = (client.ring.set().name, client.bootstrap.shape());
        assert!(is_enough, "{set} {shape:?}, round {round}: {mean:.1}, {worst:.1}");
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

/// An equal number in all slots is one large coefficient, where the sine is least linear. The
/// result is less exact, as docs/ckks.md says.
#[test]
fn equal_numbers_in_all_slots_lose_precision() {
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

/// Checks the cost of a mean that docs/ckks.md states: the sine adds an error of the third power of
/// the mean to all numbers.
#[test]
fn errors_grow_with_the_cube_of_the_mean() {
    for (set, bits_of_one) in [("TOY_CKKS_45_60_50", 13.3), ("TOY_CKKS_54_60", 9.3)] {
        let ring = ring(set);
        let mut client = Client::new(&ring, 9, 3, KeySize::Medium);
        for mean in [0.3_f64, 0.6] {
            let plain: Vec<Complex> =
                numbers(512, 5).into_iter().map(|number| Complex::from(mean) + number.scale(0.25)).collect();
            let ciphertext = client.encrypt(&plain, 0);
            let (bits, _) = client.precision(&client.bootstrap(&ciphertext, 2), &plain);
            let expected = bits_of_one - 3.0 * mean.log2();
            assert!((bits - expected).abs() < 0.25, "{set}, {mean}: {bits:.2}, where {expected:.2} is expected");
        }
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

/// The watcher is called before each matrix, before each rotation that sums a ciphertext of few
/// slots, and before each angle doubling.
#[test]
fn a_bootstrap_can_be_given_up_before_each_step() {
    use BootstrapStep::{Raise, Remainders, ToCoefficients, ToValues};
    let ring = ring("TOY_CKKS_45_60_50");
    for (bootstrap, parts) in [
        (
            Bootstrap::new(&ring, 9, 3, KeySize::Medium),
            [vec![Raise], vec![ToCoefficients; 3], vec![Remainders; 4], vec![ToValues; 3]],
        ),
        (
            Bootstrap::new(&ring, 7, 2, KeySize::Small),
            [vec![Raise], vec![ToCoefficients; 2 + 2], vec![Remainders; 4], vec![ToValues; 2]],
        ),
        (
            Bootstrap::lossy(&ring, 9, 2, KeySize::Medium),
            [vec![ToValues; 2], vec![Raise], vec![ToCoefficients; 2], vec![Remainders; 4]],
        ),
    ] {
        let mut client = Client::with(bootstrap.expect("a bootstrap"));
        let x = client.encrypt(&numbers(client.bootstrap.slots(), 3), client.bootstrap.level_in());
        let ends_at = |last: usize| {
            let asked = Mutex::new(Vec::new());
            let watch = |step| {
                let mut asked = asked.lock().expect("no code panics under this lock");
                asked.push(step);
                asked.len() < last
            };
            let result = Evaluator::new(&ring, 2).watched(&watch).bootstrap(&x, &client.bootstrap, &client.keys);
            (result.map(|result| result.polys.map(|poly| poly.words().to_vec())), asked.into_inner().expect("its end"))
        };
        let parts = parts.concat();
        let unwatched = client.bootstrap(&x, 2).polys.map(|poly| poly.words().to_vec());
        assert!(ends_at(usize::MAX) == (Ok(unwatched), parts.clone()), "{:?}", ends_at(usize::MAX).1);
        for last in 1..=parts.len() {
            let (result, asked) = ends_at(last);
            assert_eq!((result.err(), &asked[..]), (Some(CkksError::GivenUp), &parts[..last]));
        }
    }
}

#[test]
fn invalid_bootstraps_are_refused() {
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
    // These keys belong to a bootstrap with a lower raised level.
    let more_stages = Bootstrap::new(&ring, 5, 2, KeySize::Medium).expect("a bootstrap");
    assert!(matches!(refused(&x, &more_stages, &client.keys), Some(CkksError::LevelTooHigh { .. })));
}

/// Bootstraps on the full-size rings, which take gigabytes of memory and several minutes.
#[test]
fn full_size_rings_reach_the_promised_precision() {
    if std::env::var_os("CLOAKWORK_TEST_ALL").is_none() {
        return;
    }
    for (set, level_out, mean_bits, worst_bits) in
        [("CKKS_45_60_50_H4096", 9, 23.5, 20.5), ("CKKS_54_60_H4096", 8, 20.8, 18.7)]
    {
        let ring = ring(set);
        let mut client = Client::new(&ring, 15, 5, KeySize::Medium);
        let plain = numbers(1 << 15, 5);
        let ciphertext = client.encrypt(&plain, 0);
        let result = client.bootstrap(&ciphertext, 2);
        let (mean, worst) = client.precision(&result, &plain);
        assert_eq!(result.level(), level_out);
        assert!(mean > mean_bits && worst > worst_bits, "{set}: {mean:.1}, {worst:.1}");
        multiples::check(&mut client, 4);
        rounds::check(&mut client, mean_bits, worst_bits);
    }
}
