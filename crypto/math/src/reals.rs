//! Functions of real numbers that give the same bits on every machine. Results of two workers are
//! compared bit by bit, and the functions of system libraries do not promise equal bits.

/// Computes `e(turns) = exp(2 pi i turns)`, real and imaginary part, each within 2^-53 of its
/// value.
///
/// `turns` is from 0 to 1, and is cut to a multiple of 2^-62. All arithmetic is on integers.
pub fn circle_point(turns: f64) -> [f64; 2] {
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

/// Computes the positive root of a positive number: the number to the power of `1 / degree`.
///
/// Newton's method from above: each step is smaller than the one before, until rounding ends it.
/// Basic arithmetic has the same bits on every machine.
pub fn root(number: f64, degree: u32) -> f64 {
    assert!(number.is_normal() && number > 0.0 && degree > 0, "root {degree} of {number}");
    let exponent = (number.to_bits() >> 52) as i32 - 1023;
    // A power of two above the root, which is at most twice the root.
    let above = exponent.div_euclid(degree as i32) + 1;
    let mut root = f64::from_bits(((above + 1023) as u64) << 52);
    loop {
        let power = (1..degree).fold(1.0, |power, _| power * root);
        let next = (f64::from(degree - 1) * root + number / power) / f64::from(degree);
        if next >= root {
            return root;
        }
        root = next;
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
            assert_eq!(circle_point(eighth as f64 / 8.0), expected, "{eighth} eighths");
        }
    }

    #[test]
    fn points_match_the_library_within_the_error_of_its_angle() {
        for index in 0..=1 << 18 {
            let turns = f64::from(index) / f64::from(1 << 18);
            let (sin, cos) = (TAU * turns).sin_cos();
            let [re, im] = circle_point(turns);
            let off = (re - cos).abs().max((im - sin).abs());
            assert!(off <= 1e-15, "{turns} turns: {off:e} off");
        }
    }

    #[test]
    fn the_power_of_a_root_is_its_number() {
        for degree in 1..=7 {
            for number in [1.0, 2.0, 0.5, 3.7e-12, 1.25e17, 6.0_f64.powi(20), 1.0 / (1 << 21) as f64, 1e-300, 1e300] {
                let power = (0..degree).fold(1.0, |power, _| power * root(number, degree));
                assert!((power / number - 1.0).abs() < 1e-15 * f64::from(degree), "root {degree} of {number}: {power}");
            }
        }
        assert_eq!([root(8.0, 3), root(1024.0, 10), root(0.25, 2), root(9.0, 1)], [2.0, 2.0, 0.5, 9.0]);
    }

    /// Checks that points lie on the circle, and that a point squared is the point of twice the
    /// angle. Integer products have more digits than a double holds.
    #[test]
    fn points_square_to_those_of_twice_the_angle() {
        let fixed = |x: f64| (x * (1i64 << 60) as f64) as i128;
        for index in 0..1 << 12 {
            let turns = f64::from(index) / f64::from(1 << 13);
            let [[a, b], [c, d]] = [circle_point(turns), circle_point(2.0 * turns)].map(|point| point.map(fixed));
            // Three roundings of at most 2^-54 each, two of them about doubled, in units of 2^-60.
            assert!((((a * a - b * b) >> 60) - c).abs() <= 300, "{turns} turns");
            assert!((((2 * a * b) >> 60) - d).abs() <= 300, "{turns} turns");
            assert!((((a * a + b * b) >> 60) - (1 << 60)).abs() <= 200, "{turns} turns");
        }
    }
}
