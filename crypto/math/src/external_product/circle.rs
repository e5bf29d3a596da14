//! Points of the unit circle.

/// Computes `e(turns) = exp(2 pi i turns)`, real and imaginary part, each within 2^-53 of its
/// value.
///
/// `turns` is a multiple of 2^-62 from 0 to 1. All arithmetic is on integers and gives the same
/// bits on every machine. The sine functions of system libraries make no such promise.
pub(super) fn point(turns: f64) -> [f64; 2] {
    assert!((0.0..=1.0).contains(&turns), "{turns} turns");
    // Up to an eighth of a turn, the series is short and loses no precision.
    let quarters = (4.0 * turns).round();
    let angle = multiply(TAU, ((turns - quarters / 4.0) * ONE as f64) as i64);
    let (cos, sin) = (series(angle, 0, ONE), series(angle, 1, angle));
    match quarters as u32 % 4 {
        0 => [cos, sin],
        1 => [-sin, cos],
        2 => [-cos, -sin],
        _ => [sin, -cos],
    }
}

/// The number one. Fixed-point numbers are multiples of 2^-62.
const ONE: i64 = 1 << 62;
/// 2 pi.
const TAU: i128 = 28_976_077_832_308_491_370;

/// Sums every second term of the exponential series with alternating signs. `term` is the first of
/// them, and belongs to the power `power`.
fn series(angle: i64, mut power: i64, mut term: i64) -> f64 {
    let square = multiply(i128::from(angle), angle);
    let mut sum = 0;
    while term != 0 {
        sum += term;
        term = -multiply(i128::from(square), term) / ((power + 1) * (power + 2));
        power += 2;
    }
    sum as f64 / ONE as f64
}

fn multiply(a: i128, b: i64) -> i64 {
    ((a * i128::from(b)) >> 62) as i64
}

#[cfg(test)]
mod tests {
    use std::f64::consts::{FRAC_1_SQRT_2, TAU};

    use super::*;

    #[test]
    fn quarters_and_eighths_are_exact() {
        let root = FRAC_1_SQRT_2;
        let eighths = [
            [1.0, 0.0],
            [root, root],
            [0.0, 1.0],
            [-root, root],
            [-1.0, 0.0],
            [-root, -root],
            [0.0, -1.0],
            [root, -root],
            [1.0, 0.0],
        ];
        for (eighth, expected) in eighths.into_iter().enumerate() {
            assert_eq!(point(eighth as f64 / 8.0), expected, "{eighth} eighths");
        }
    }

    #[test]
    fn points_match_the_library_within_the_error_of_its_angle() {
        for index in 0..=1 << 18 {
            let turns = f64::from(index) / f64::from(1 << 18);
            let (sin, cos) = (TAU * turns).sin_cos();
            let [re, im] = point(turns);
            let off = (re - cos).abs().max((im - sin).abs());
            assert!(off <= 1e-15, "{turns} turns: {off:e} off");
        }
    }

    /// Checks that points lie on the circle, and that a point squared is the point of twice the
    /// angle. Integer products have more digits than a double holds.
    #[test]
    fn points_square_to_those_of_twice_the_angle() {
        let fixed = |x: f64| (x * (1i64 << 60) as f64) as i128;
        for index in 0..1 << 12 {
            let turns = f64::from(index) / f64::from(1 << 13);
            let [[a, b], [c, d]] = [point(turns), point(2.0 * turns)].map(|point| point.map(fixed));
            // Three roundings of at most 2^-54 each, two of them about doubled, in units of 2^-60.
            assert!((((a * a - b * b) >> 60) - c).abs() <= 300, "{turns} turns");
            assert!((((2 * a * b) >> 60) - d).abs() <= 300, "{turns} turns");
            assert!((((a * a + b * b) >> 60) - (1 << 60)).abs() <= 200, "{turns} turns");
        }
    }
}
