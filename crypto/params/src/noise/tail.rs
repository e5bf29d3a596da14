//! Tails of the normal distribution, far below the smallest floating-point number.

use std::f64::consts::{LOG2_E, TAU};

/// log2 of the probability that a standard normal variable exceeds `x`.
pub fn log2_upper_tail(x: f64) -> f64 {
    if x < 0.0 {
        return (1.0 - log2_upper_tail(-x).exp2()).log2();
    }
    let log2_density = -0.5 * x * x * LOG2_E - 0.5 * TAU.log2();
    if x < SERIES_BELOW {
        (0.5 - log2_density.exp2() * series(x)).log2()
    } else {
        log2_density - continued_fraction(x).log2()
    }
}

/// log2(2^a + 2^b).
pub(super) fn log2_sum(a: f64, b: f64) -> f64 {
    let (large, small) = if a > b { (a, b) } else { (b, a) };
    large + (small - large).exp2().ln_1p() * LOG2_E
}

/// The tail is the density over x + 1/(x + 2/(x + 3/(x + ...))). The fraction converges fast for
/// large x.
fn continued_fraction(x: f64) -> f64 {
    (1..=FRACTION_TERMS).rev().fold(x, |tail, k| x + f64::from(k) / tail)
}

/// The mass between 0 and x is the density times x + x^3/3 + x^5/(3 5) + .... The series converges
/// fast for small x.
fn series(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for k in 1..SERIES_TERMS {
        term *= x * x / f64::from(2 * k + 1);
        sum += term;
    }
    sum
}

const SERIES_BELOW: f64 = 2.0;
const SERIES_TERMS: u32 = 60;
const FRACTION_TERMS: u32 = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_tabulated_values() {
        // log2 of erfc(x / sqrt 2) / 2 to 30 digits of working precision.
        let cases = [
            (0.0, -1.0),
            (0.5, -1.696_482_067),
            (1.0, -2.656_032_797),
            (1.999_999, -5.457_977_853),
            (2.0, -5.457_981_277),
            (3.0, -9.532_933_851),
            (13.0, -126.942_332_651),
            (20.0, -294.190_268_806),
            (40.0, -1_160.804_609_151),
        ];
        for (x, expected) in cases {
            assert!((log2_upper_tail(x) - expected).abs() < 1e-8, "{x}: {}", log2_upper_tail(x));
        }
    }

    #[test]
    fn both_methods_meet_without_a_step() {
        let (below, above) = (log2_upper_tail(SERIES_BELOW - 1e-12), log2_upper_tail(SERIES_BELOW));
        assert!((below - above).abs() < 1e-9);
    }

    #[test]
    fn reflects_and_sums() {
        let whole = log2_sum(log2_upper_tail(-1.3), log2_upper_tail(1.3));
        assert!(whole.abs() < 1e-12);
        assert_eq!(log2_sum(-300.0, -300.0), -299.0);
    }
}
