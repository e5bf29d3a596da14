//! Differences between computed and expected numbers.

use cloakwork_ckks::Complex;

/// Distribution of numbers in the unit disc.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spread {
    /// Radius and angle are uniform, so most numbers are small.
    Radius,
    /// Each part of the disc has numbers in proportion to its area.
    Area,
}

impl Spread {
    /// Pseudorandom numbers in the unit disc, different for each `message`.
    pub(crate) fn numbers(self, message: usize, count: usize) -> Vec<Complex> {
        let number = |at: usize| {
            let radius = (at as f64 * 0.7548).fract();
            let radius = match self {
                Self::Radius => radius,
                Self::Area => radius.sqrt(),
            };
            Complex::at_turn((at * at) as f64 * 0.618_034).scale(radius)
        };
        (message * count..(message + 1) * count).map(number).collect()
    }
}

/// Bits after the point that the mean error and the greatest error leave.
pub(crate) fn bits(got: &[Complex], expected: &[Complex]) -> [f64; 2] {
    let errors: Vec<f64> = got.iter().zip(expected).map(|(a, b)| (*a - *b).magnitude()).collect();
    [errors.iter().sum::<f64>() / errors.len() as f64, errors.iter().copied().fold(0.0, f64::max)]
        .map(|error| -error.log2())
}
