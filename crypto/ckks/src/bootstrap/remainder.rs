//! The remainder of a number, for numbers that are near whole ones: sin(2 pi y) / 2 pi.
//!
//! It is a cosine of a quarter of a turn less, whose angle is doubled three times. The cosine of the eighth part of the
//! angle is a polynomial through its values at all whole numbers below 16 in magnitude, so that it is most exact where the
//! numbers are.

use std::f64::consts::TAU;

use crate::{ciphertext::Ciphertext, error::CkksError, evaluator::Evaluator, key::EvaluationKeys};

/// Levels that it takes.
pub(super) const DEPTH: usize = LEVELS_OF_COSINE + DOUBLINGS;

const LEVELS_OF_COSINE: usize = 5;
const DOUBLINGS: usize = 3;

/// Coefficients of Chebyshev polynomials of y / 16: their sum is cos(2 pi (y - 1/4) / 8) at y = -15, -14 .. 15. Worked out
/// with 400 bits.
const COSINE: [f64; 31] = [
    0.1544719961437124,
    -0.060286349813549961,
    0.35718798319903092,
    -0.037670047215115358,
    0.44763118726155828,
    0.019015411466570339,
    0.37158890240271115,
    0.089599323665610813,
    -0.13020888040805885,
    0.05662395080462683,
    -0.53792684009130618,
    -0.11367067371119151,
    0.46256814371521233,
    0.062057875119482817,
    -0.1829058750284628,
    -0.019006860278549231,
    0.045234315275998248,
    0.0039062139483337389,
    -0.0078839226936786484,
    -0.00058595515859243369,
    0.0010326156946055584,
    6.8069728507351061e-5,
    -0.00010673002696906636,
    -6.171106003208136e-6,
    8.7405469413269407e-6,
    5.0287879702060481e-7,
    -6.4969593813887995e-7,
    -2.3042226362122522e-8,
    2.7234418542978662e-8,
    2.7050288470577285e-9,
    -3.0042298520954352e-9,
];

/// The scale afterwards, given that before and the primes so many levels below the start.
pub(super) fn scale_after(scale: f64, prime: impl Fn(usize) -> f64) -> f64 {
    (0..DOUBLINGS).fold(scale, |scale, doubling| scale * scale / prime(LEVELS_OF_COSINE + doubling))
}

/// The remainder of 16 times each number.
pub(super) fn remainder(
    evaluator: &Evaluator<'_>,
    parts: &Ciphertext,
    keys: &EvaluationKeys,
) -> Result<Ciphertext, CkksError> {
    // What the cosine is multiplied by is squared with it each time, and is 1 / 2 pi in the end.
    let mut factor = TAU.recip().powf(0.5_f64.powi(DOUBLINGS as i32));
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

    /// Off by so many multiples, raised coefficients are with a probability of less than 2^-20 for each.
    #[test]
    fn remainders_near_small_whole_numbers_are_exact() {
        for whole in -8..=8 {
            for part in -64..=64 {
                let y = f64::from(whole) + f64::from(part) / 16384.0;
                let sine = (0..DOUBLINGS).fold(cosine(y), |cosine, _| 2.0 * cosine * cosine - 1.0);
                let expected = (TAU * (y - y.round())).sin();
                assert!((sine - expected).abs() < 2_f64.powi(-41), "at {y}: {sine} is not {expected}");
            }
        }
    }
}
