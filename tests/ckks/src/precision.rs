//! How far numbers are from those that they should be.

use cloakwork_ckks::Complex;

/// Numbers in the unit disc that have nothing to do with each other.
pub(crate) fn numbers(count: usize) -> Vec<Complex> {
    numbers_from(0, count)
}

/// The same, others for each `message`.
pub(crate) fn numbers_from(message: usize, count: usize) -> Vec<Complex> {
    let number = |at: usize| Complex::at_turn((at * at) as f64 * 0.618_034).scale((at as f64 * 0.7548).fract());
    (message * count..(message + 1) * count).map(number).collect()
}

/// Bits behind the point: of the mean error, and of the greatest.
pub(crate) fn bits(got: &[Complex], expected: &[Complex]) -> [f64; 2] {
    let errors: Vec<f64> = got.iter().zip(expected).map(|(a, b)| (*a - *b).magnitude()).collect();
    [errors.iter().sum::<f64>() / errors.len() as f64, errors.iter().copied().fold(0.0, f64::max)]
        .map(|error| -error.log2())
}
