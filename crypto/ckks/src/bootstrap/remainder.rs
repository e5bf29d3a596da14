//! The remainder of a number, for numbers that are near whole ones: sin(2 pi y) / 2 pi.
//!
//! It is a cosine of a quarter of a turn less, whose angle is doubled three times. The cosine of the eighth part of the
//! angle is a polynomial through its values at all whole numbers below 16 in magnitude, so that it is most exact where the
//! numbers are.

use std::f64::consts::TAU;

use crate::{ciphertext::Ciphertext, error::CkksError, evaluator::Evaluator, key::EvaluationKeys};

/// Numbers are remainders of this times what is given: raised coefficients are off by fewer multiples than that.
pub(super) const RANGE: usize = 16;

/// Levels that it takes.
pub(super) const DEPTH: usize = LEVELS_OF_COSINE + DOUBLINGS;

const LEVELS_OF_COSINE: usize = 5;
const DOUBLINGS: usize = 3;

/// Coefficients of Chebyshev polynomials of y / 16: their sum is cos(2 pi (y - 1/4) / 8) at y = -15, -14 .. 15. Worked out
/// with 400 bits.
const COSINE: [f64; 31] = [
    0.1544719961437124,
    -0.06028634981354996,
    0.35718798319903095,
    -0.03767004721511536,
    0.44763118726155826,
    0.019015411466570337,
    0.37158890240271114,
    0.08959932366561081,
    -0.13020888040805886,
    0.05662395080462683,
    -0.5379268400913062,
    -0.11367067371119151,
    0.4625681437152123,
    0.06205787511948282,
    -0.1829058750284628,
    -0.019006860278549233,
    0.04523431527599825,
    0.0039062139483337388,
    -0.007883922693678649,
    -0.0005859551585924337,
    0.0010326156946055584,
    6.806972850735106e-05,
    -0.00010673002696906636,
    -6.171106003208136e-06,
    8.740546941326942e-06,
    5.028787970206049e-07,
    -6.496959381388799e-07,
    -2.304222636212252e-08,
    2.723441854297866e-08,
    2.7050288470577287e-09,
    -3.004229852095435e-09,
];

/// The scale afterwards, given that before and the primes so many levels below the start.
pub(super) fn scale_after(scale: f64, prime: impl Fn(usize) -> f64) -> f64 {
    (0..DOUBLINGS).fold(scale, |scale, doubling| scale * scale / prime(LEVELS_OF_COSINE + doubling))
}

/// The remainder of 16 times each number, times `amplitude`.
pub(super) fn remainder(
    evaluator: &Evaluator<'_>,
    parts: &Ciphertext,
    amplitude: f64,
    keys: &EvaluationKeys,
) -> Result<Ciphertext, CkksError> {
    // What the cosine is multiplied by is squared with it each time, and is the amplitude over 2 pi in the end.
    let mut factor = (amplitude / TAU).powf(0.5_f64.powi(DOUBLINGS as i32));
    let coefficients = COSINE.map(|coefficient| coefficient * factor);
    let mut cosine = evaluator.chebyshev(parts, &coefficients, parts.scale, keys)?;
    for _ in 0..DOUBLINGS {
        factor *= factor;
        cosine = evaluator.double_square(&cosine, factor, keys)?;
    }
    Ok(cosine)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cosine(y: f64) -> f64 {
        let (x, mut before, mut power, mut sum) = (y / 16.0, 1.0, y / 16.0, COSINE[0]);
        for coefficient in &COSINE[1..] {
            sum += coefficient * power;
            (before, power) = (power, 2.0 * x * power - before);
        }
        sum
    }

    #[test]
    fn the_polynomial_is_the_cosine_at_whole_numbers() {
        for y in -15..=15 {
            let expected = (TAU * (f64::from(y) - 0.25) / 8.0).cos();
            assert!((cosine(f64::from(y)) - expected).abs() < 1e-14, "at {y}");
        }
    }

    /// A raised coefficient is its remainder, and the sum of as many uniform parts of the first prime as the sparse secret
    /// has coefficients, rounded. That this is the range or more, in any coefficient, is the corner of a cube.
    #[test]
    fn raised_coefficients_are_within_the_range() {
        for set in cloakwork_params::ckks::CKKS_SETS {
            let weight = set.bootstrap.sparse_weight;
            assert_eq!(weight, 2 * RANGE, "the corner has sides of one half");
            let factorial: f64 = (1..=weight).map(|factor| (factor as f64).log2()).sum();
            let failure = f64::from(set.size_log2 + 1) - weight as f64 - factorial;
            assert!(failure < -128.0, "{}", set.name);
            assert!(set.size_log2 != 16 || (failure + 132.663).abs() < 0.001, "{failure}, as docs/ckks.md has it");
        }
    }

    /// Off by so many multiples, raised coefficients are with a probability of less than 2^-20 for each.
    #[test]
    fn remainders_near_small_whole_numbers_are_exact() {
        for whole in -8..=8 {
            for part in -64..=64 {
                let y = f64::from(whole) + f64::from(part) / 4096.0;
                let sine = (0..DOUBLINGS).fold(cosine(y), |cosine, _| 2.0 * cosine * cosine - 1.0);
                let expected = (TAU * (y - y.round())).sin();
                assert!((sine - expected).abs() < 2_f64.powi(-39), "at {y}: {sine} is not {expected}");
            }
        }
    }
}
