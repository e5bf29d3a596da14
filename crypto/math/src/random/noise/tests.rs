//! Every statistical check runs on fixed seeds, so its result never changes. Each check states the
//! probability, over the choice of the seed, that a correct sampler would miss the bound.

use super::*;

/// A correct sampler misses a bound of 6 standard deviations with probability 2^-29 (two-sided
/// normal).
const SIGMAS: f64 = 6.0;

fn signed<T: Torus>(words: &[T], modulus_log2: u32) -> Vec<f64> {
    let scale = T::BITS - modulus_log2;
    words
        .iter()
        .map(|word| {
            let value = word.to_i64();
            assert_eq!(value & ((1 << scale) - 1), 0, "below the least step of the modulus");
            (value >> scale) as f64
        })
        .collect()
}

fn draw<T: Torus>(seed: u64, noise: Noise, modulus_log2: u32, count: usize) -> Vec<f64> {
    let mut words = vec![T::default(); count];
    SecretRng::insecure_for_tests(seed).add_noise(noise, modulus_log2, &mut words);
    signed(&words, modulus_log2)
}

fn moment(values: &[f64], order: i32) -> f64 {
    values.iter().map(|value| value.powi(order)).sum::<f64>() / values.len() as f64
}

/// Compares `counts` with `probabilities` by chi-square, normalised with the cube root of Wilson
/// and Hilferty.
fn check_chi_square(counts: &[u64], probabilities: &[f64]) {
    let total = counts.iter().sum::<u64>() as f64;
    assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    let statistic: f64 = counts
        .iter()
        .zip(probabilities)
        .map(|(&count, &probability)| {
            let expected = total * probability;
            assert!(expected > 20.0, "a bin too thin for the test");
            (count as f64 - expected).powi(2) / expected
        })
        .sum();
    let freedom = (counts.len() - 1) as f64;
    let spread = 2.0 / (9.0 * freedom);
    let deviation = ((statistic / freedom).cbrt() - (1.0 - spread)) / spread.sqrt();
    assert!(deviation.abs() < SIGMAS, "{deviation} standard deviations from chi-square");
}

/// P(X < x) for a standard normal X, by the series around 0 or by the continued fraction of the
/// tail.
fn normal_cdf(x: f64) -> f64 {
    if x.abs() > 4.0 {
        let tail = (-x * x / 2.0).exp()
            / (2.0 * std::f64::consts::PI).sqrt()
            / (1..=60).rev().fold(x.abs(), |fraction, k| x.abs() + f64::from(k) / fraction);
        return if x < 0.0 { tail } else { 1.0 - tail };
    }
    let mut term = x;
    let mut sum = x;
    for k in 1..200 {
        term *= x * x / f64::from(2 * k + 1);
        sum += term;
    }
    0.5 + sum * (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

#[test]
fn random_bits_are_unbiased() {
    let mut bits = vec![9; 1 << 20];
    SecretRng::insecure_for_tests(1).fill_binary(&mut bits);
    let ones = bits.iter().map(|&bit| u64::from(bit)).sum::<u64>();
    assert!(bits.iter().all(|&bit| bit <= 1));
    check_chi_square(&[bits.len() as u64 - ones, ones], &[0.5, 0.5]);
}

#[test]
fn the_network_sorts_as_the_library_does() {
    let mut rng = SecretRng::insecure_for_tests(3);
    for log2 in 0..=11 {
        // Few values, so that many are equal.
        for mask in [u64::MAX, 7] {
            let mut words: Vec<u64> = (0..1 << log2).map(|_| rng.word() & mask).collect();
            let mut expected = words.clone();
            expected.sort_unstable();
            sort(&mut words);
            assert_eq!(words, expected, "2^{log2} words");
        }
    }
}

/// Each place of 16 has 4 nonzero coefficients of 16, and each half of them is negative.
#[test]
fn sparse_coefficients_are_uniform_over_places_and_signs() {
    const DRAWS: usize = 40_000;
    let mut rng = SecretRng::insecure_for_tests(5);
    let (mut negative, mut positive) = ([0_u64; 16], [0_u64; 16]);
    for _ in 0..DRAWS {
        let mut coefficients = [9; 16];
        rng.fill_sparse(4, &mut coefficients);
        assert_eq!(coefficients.iter().map(|one| i32::from(one.abs())).sum::<i32>(), 4);
        for (place, one) in coefficients.iter().enumerate() {
            negative[place] += u64::from(*one == -1);
            positive[place] += u64::from(*one == 1);
        }
    }
    check_chi_square(&[negative, positive].concat(), &[1.0 / 32.0; 32]);
}

#[test]
fn t_uniform_has_exactly_its_probabilities() {
    for bound_log2 in 0..=3 {
        let bound = 1_i64 << bound_log2;
        let cells = 4.0 * bound as f64;
        let values = draw::<u32>(3 + u64::from(bound_log2), Noise::TUniform { bound_log2 }, 21, 1 << 20);
        let mut counts = vec![0; 2 * bound as usize + 1];
        for value in values {
            counts[(value as i64 + bound) as usize] += 1;
        }
        let probabilities: Vec<f64> =
            (-bound..=bound).map(|value| if value.abs() == bound { 1.0 / cells } else { 2.0 / cells }).collect();
        check_chi_square(&counts, &probabilities);
    }
}

#[test]
fn t_uniform_reaches_both_ends_and_no_further() {
    for (bound_log2, count) in [(17, 1 << 21), (13, 1 << 18), (46, 1 << 18), (30, 1 << 18), (31, 1 << 18)] {
        let values = draw::<u64>(11, Noise::TUniform { bound_log2 }, 64, count);
        let bound = (1_u64 << bound_log2) as f64;
        assert!(values.iter().all(|value| value.abs() <= bound));
        let (low, high) = (values.iter().copied().fold(0.0, f64::min), values.iter().copied().fold(0.0, f64::max));
        // At this many draws, the outer 2^-12 of a side stays empty with probability below 2^-60.
        assert!(-low > bound * (1.0 - 1.0 / 4096.0) && high > bound * (1.0 - 1.0 / 4096.0));
        let (count, variance) = (count as f64, (2.0 * bound * bound + 1.0) / 6.0);
        assert!(moment(&values, 1).abs() < SIGMAS * (variance / count).sqrt());
        // The fourth moment of a uniform variable is 9/5 of the squared variance.
        assert!((moment(&values, 2) / variance - 1.0).abs() < SIGMAS * (0.8 / count).sqrt());
        // Neighbouring draws are uncorrelated.
        let product: f64 = values.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / count;
        assert!((product / variance).abs() < SIGMAS / count.sqrt());
    }
}

#[test]
fn gaussian_moments_fit_every_width_in_the_table() {
    let cases = [
        (64, 3.3747142481837397e-06),
        (64, 2.845267479601915e-15),
        (64, 2.168404344971009e-19),
        (32, 5.8615896642671336e-06),
        (32, 9.313225746198247e-10),
        (21, 1.2e-5),
    ];
    for (seed, (modulus_log2, std_dev)) in cases.into_iter().enumerate() {
        let noise = Noise::Gaussian { std_dev };
        let count = 1 << 20;
        let values = match modulus_log2 {
            64 => draw::<u64>(seed as u64, noise, 64, count),
            log2 => draw::<u32>(seed as u64, noise, log2, count),
        };
        // Rounding to a step adds 1/12 of the squared step.
        let variance = (std_dev * 2_f64.powi(modulus_log2 as i32)).powi(2) + 1.0 / 12.0;
        let count = count as f64;
        assert!(moment(&values, 1).abs() < SIGMAS * (variance / count).sqrt());
        assert!((moment(&values, 2) / variance - 1.0).abs() < SIGMAS * (2.0 / count).sqrt());
        assert!((moment(&values, 3) / variance.powf(1.5)).abs() < SIGMAS * (15.0 / count).sqrt());
        // E X^4 = 3 and Var X^4 = 96. The rounding above lowers the kurtosis by less than 0.001
        // here.
        assert!((moment(&values, 4) / variance.powi(2) - 3.0).abs() < SIGMAS * (96.0 / count).sqrt() + 0.001);
    }
}

#[test]
fn gaussian_steps_have_the_probabilities_of_a_rounded_normal() {
    // The narrowest width of the table: 4 steps of the 2^64 torus.
    let values = draw::<u64>(21, Noise::Gaussian { std_dev: 2_f64.powi(-62) }, 64, 1 << 21);
    let edge = 13;
    let mut counts = vec![0; 2 * edge as usize + 1];
    for value in &values {
        counts[(value.clamp(-f64::from(edge), f64::from(edge)) as i32 + edge) as usize] += 1;
    }
    let probabilities: Vec<f64> = (-edge..=edge)
        .map(|step| {
            let below = if step == -edge { 0.0 } else { normal_cdf((f64::from(step) - 0.5) / 4.0) };
            let above = if step == edge { 1.0 } else { normal_cdf((f64::from(step) + 0.5) / 4.0) };
            above - below
        })
        .collect();
    check_chi_square(&counts, &probabilities);
}

#[test]
fn the_gaussian_tail_has_the_expected_mass() {
    let count = 1_u32 << 23;
    let mut rng = SecretRng::insecure_for_tests(31);
    let mut beyond = [0_u32; 3];
    let mut left = count;
    rng.normals(count as usize, |value| {
        for (threshold, beyond) in [3.0, 4.0, 4.8].into_iter().zip(&mut beyond) {
            *beyond += u32::from(left > 0 && value.abs() > threshold);
        }
        left -= left.min(1);
    });
    assert_eq!(left, 0);
    for (threshold, beyond) in [3.0, 4.0, 4.8].into_iter().zip(beyond) {
        let expected = f64::from(count) * 2.0 * normal_cdf(-threshold);
        let deviation = (f64::from(beyond) - expected) / expected.sqrt();
        // Counts of rare events are not quite normal: the furthest of these bounds fails with
        // probability 2^-22.
        assert!(deviation.abs() < SIGMAS, "{beyond} beyond {threshold}, expected {expected}");
    }
}

#[test]
fn gaussian_steps_round_to_nearest_and_drop_whole_turns() {
    assert_eq!(gaussian_steps(2.5001 / 2_097_152.0, 21), 3);
    assert_eq!(gaussian_steps(-2.4999 / 2_097_152.0, 21), -2);
    assert_eq!(gaussian_steps(3.0 - 2_f64.powi(-40), 64), -(1 << 24));
    assert_eq!(gaussian_steps(2_f64.powi(-62), 64), 4);
}
