//! EvalMod: the remainder sin(2 pi y) / 2 pi of a number y that is near a whole number.
//!
//! The sine is a cosine of a quarter of a turn less, whose angle is doubled two or three times. A
//! polynomial approximates the cosine of the fourth or eighth part of the angle. The polynomial
//! interpolates at or near all whole numbers below 16 in magnitude, so that it is most exact where
//! the numbers are.

use std::f64::consts::TAU;

use cloakwork_math::reals::root;
use cloakwork_params::ckks::{CkksSet, bootstrap::REMAINDER_DEPTH};

use crate::{
    ciphertext::Ciphertext,
    error::CkksError,
    evaluator::{BootstrapStep, Evaluator},
    key::EvaluationKeys,
};

/// Factor of the input numbers: a remainder is taken of `RANGE` times a number. Raised coefficients
/// are off by fewer multiples of the first prime than this.
pub(super) const RANGE: usize = 16;

/// A method of taking remainders.
pub(super) struct Remainder {
    /// Coefficients of the Chebyshev polynomials of y / 16. Their sum is cos(2 pi (y - 1/4) /
    /// 2^doublings) near y = -15, -14 .. 15.
    cosine: &'static [f64],
    doublings: usize,
}

/// The two methods. More doublings take fewer products, and enlarge the noise of the cosine.
static METHODS: [Remainder; 2] =
    [Remainder { cosine: &COSINE_OF_QUARTER, doublings: 2 }, Remainder { cosine: &COSINE_OF_EIGHTH, doublings: 3 }];

/// Interpolates at all 31 whole numbers. Computed with 400 bits.
const COSINE_OF_EIGHTH: [f64; 31] = [
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

/// Interpolates at 0.01 to the left and to the right of each whole number, without the seven
/// smallest terms. Computed with 600 bits.
const COSINE_OF_QUARTER: [f64; 55] = [
    0.10344482732414552,
    -0.08486533826110887,
    0.2231937311693596,
    -0.07015148951273373,
    0.2636256186821391,
    -0.035392917085633496,
    0.2976235322621671,
    0.023468791809034363,
    0.26606226145750955,
    0.09362847406721567,
    0.10417366744850991,
    0.12796625102691964,
    -0.166255753104639,
    0.062204631310136274,
    -0.32161312544660964,
    -0.08620985832223216,
    -0.07317741194295421,
    -0.12480313579820221,
    0.3344282880932038,
    0.07361891343791288,
    0.06570282816548957,
    0.1169329234880955,
    -0.4060580454072701,
    -0.17752636944950095,
    0.3783761747656184,
    0.12180309215994281,
    -0.20663497240448633,
    -0.05528592904759408,
    0.080141950577304,
    0.018680111317078692,
    -0.02393229551466314,
    -0.004985629488493217,
    0.005760256618576452,
    0.0010902081607589958,
    -0.0011515114929180985,
    -0.00020030345909468383,
    0.00019534834127687403,
    3.1503162956938396e-05,
    -2.858637949506775e-05,
    -4.303183240080422e-06,
    3.6555607652225508e-06,
    5.164995264706318e-07,
    -4.127716247860923e-07,
    -5.499358850626512e-08,
    4.1544294479086215e-08,
    5.239321692437831e-09,
    -3.7465244319754865e-09,
    -4.487965325104371e-10,
    3.0738418896855316e-10,
    3.507000199212772e-11,
    -2.2314232600210584e-11,
    -2.4318690508457337e-12,
    1.6254287869286686e-12,
    1.6959988098368734e-13,
    -7.742639007521147e-14,
];

impl Remainder {
    /// The method of a set.
    pub(super) fn of(set: &CkksSet) -> &'static Self {
        let method = METHODS.iter().find(|method| method.doublings == set.bootstrap.doublings);
        method.expect("a test checks that every set has a method")
    }

    /// Computes the scale of the result, given the scale of the input and the prime by the number
    /// of levels below the start.
    pub(super) fn scale_after(&self, scale: f64, prime: impl Fn(usize) -> f64) -> f64 {
        (REMAINDER_DEPTH - self.doublings..REMAINDER_DEPTH).fold(scale, |scale, below| scale * scale / prime(below))
    }

    /// Computes the remainders of 16 times each number, times `amplitude`. The input is one
    /// ciphertext, or two of one scale that hold the parts of complex numbers. One read of the keys
    /// serves both.
    pub(super) fn take(
        &self,
        evaluator: &Evaluator<'_>,
        parts: Vec<Ciphertext>,
        amplitude: f64,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, CkksError> {
        // Each doubling squares the factor of the cosine, which must end as the amplitude over 2
        // pi.
        let mut factor = root(amplitude / TAU, 1 << self.doublings);
        let coefficients: Vec<f64> = self.cosine.iter().map(|coefficient| coefficient * factor).collect();
        let scale = parts[0].scale;
        let mut cosines = evaluator.chebyshev_of_all(parts, &coefficients, scale, keys)?;
        for _ in 1..self.doublings {
            evaluator.ask(BootstrapStep::Remainders)?;
            factor *= factor;
            cosines = evaluator.double_squares(&cosines, factor, keys)?;
        }
        evaluator.ask(BootstrapStep::Remainders)?;
        factor *= factor;
        match &cosines[..] {
            [real, imaginary] => evaluator.joined_double_squares([real, imaginary], factor, keys),
            one => Ok(evaluator.double_squares(one, factor, keys)?.swap_remove(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{AMPLITUDE_LOG2, LOSSY_PART_LOG2},
        *,
    };

    fn cosine(method: &Remainder, y: f64) -> f64 {
        let (x, mut before, mut power, mut sum) = (y / 16.0, 1.0, y / 16.0, method.cosine[0]);
        for coefficient in &method.cosine[1..] {
            sum += coefficient * power;
            (before, power) = (power, 2.0 * x * power - before);
        }
        sum
    }

    #[test]
    fn the_polynomials_are_cosines_at_whole_numbers() {
        for method in &METHODS {
            for y in -15..=15 {
                let expected = (TAU * (f64::from(y) - 0.25) / 2_f64.powi(method.doublings as i32)).cos();
                assert!(
                    (cosine(method, f64::from(y)) - expected).abs() < 1e-12,
                    "at {y}, {} doublings",
                    method.doublings
                );
            }
        }
    }

    #[test]
    fn every_set_has_a_method_and_all_take_as_many_levels() {
        for method in &METHODS {
            assert_eq!((method.cosine.len() - 1).ilog2() as usize + 1 + method.doublings, REMAINDER_DEPTH);
        }
        for set in cloakwork_params::ckks::CKKS_SETS {
            let method = Remainder::of(set);
            assert_eq!(
                (method.doublings, method.cosine.len() - 1),
                (set.bootstrap.doublings, set.bootstrap.cosine_degree())
            );
        }
    }

    /// A raised coefficient is its remainder plus a multiple of the first prime. The multiple is
    /// the rounded sum of as many uniform numbers as the sparse secret has coefficients that are
    /// not zero. The probability that it reaches the range, in any coefficient, is the volume of a
    /// corner of a cube.
    #[test]
    fn raised_coefficients_are_within_the_range() {
        for set in cloakwork_params::ckks::CKKS_SETS {
            let weight = set.bootstrap.sparse_weight;
            assert_eq!(weight, 2 * RANGE, "the corner has sides of one half");
            let factorial: f64 = (1..=weight).map(|factor| (factor as f64).log2()).sum();
            let failure = f64::from(set.size_log2 + 1) - weight as f64 - factorial;
            assert!(failure < -128.0, "{}", set.name);
            assert!(set.size_log2 != 16 || (failure + 132.663).abs() < 0.001, "{failure}, as docs/ckks.md states");
        }
    }

    /// Checks the derivation in the documentation of `AMPLITUDE_LOG2`.
    #[test]
    fn errors_grow_as_derived_for_the_amplitude() {
        for method in &METHODS {
            let (doublings, last) = (method.doublings as i32, 2_f64.powi(AMPLITUDE_LOG2) / TAU);
            let factor = |step: i32| last.powf(0.5_f64.powi(doublings - step));
            let end = |y: f64, wrong: i32, error: f64| {
                let begin = factor(0) * cosine(method, y) + if wrong == 0 { error } else { 0.0 };
                (1..=doublings).fold(begin, |value, step| {
                    2.0 * value * value - factor(step) + if wrong == step { error } else { 0.0 }
                })
            };
            for step in 0..=doublings {
                let most = 4_f64.powi(doublings - step) * last / factor(step);
                let grown =
                    |whole: i32| (end(f64::from(whole), step, 1e-7) - end(f64::from(whole), step, 0.0)).abs() / 1e-7;
                let worst = (-15..=15).map(grown).fold(0.0, f64::max);
                assert!((0.6..1.0001).contains(&(worst / most)), "{doublings} doublings, step {step}: {worst}, {most}");
            }
            let gain = factor(0) / (1.0 / TAU).powf(0.5_f64.powi(doublings));
            assert!((gain - if doublings == 3 { 2.0 } else { 4.0 }).abs() < 1e-9, "{gain}");
        }
    }

    /// Checks the derivation in the documentation of `LOSSY_PART_LOG2`.
    #[test]
    fn the_loss_to_the_sine_is_cubic() {
        for (method, number) in METHODS.iter().flat_map(|method| [0.5, -0.75, 1.0].map(|number| (method, number))) {
            let y = number / 2_f64.powi(LOSSY_PART_LOG2);
            let sine = (0..method.doublings).fold(cosine(method, y), |cosine, _| 2.0 * cosine * cosine - 1.0);
            let taken = number - sine / TAU * 2_f64.powi(LOSSY_PART_LOG2);
            let expected = number.powi(3) * 2_f64.powf(-23.28);
            assert!((taken / expected - 1.0).abs() < 0.1, "{number}: {taken:e}, not {expected:e}");
        }
    }

    /// Raised coefficients are off by more than eight multiples with a probability of less than
    /// 2^-20 each.
    #[test]
    fn remainders_near_small_whole_numbers_are_exact() {
        for (method, whole) in METHODS.iter().flat_map(|method| (-8..=8).map(move |whole| (method, whole))) {
            for part in -64..=64 {
                let y = f64::from(whole) + f64::from(part) / 4096.0;
                let sine = (0..method.doublings).fold(cosine(method, y), |cosine, _| 2.0 * cosine * cosine - 1.0);
                let expected = (TAU * (y - y.round())).sin();
                assert!((sine - expected).abs() < 2_f64.powi(-39), "at {y}, {} doublings: {sine}", method.doublings);
            }
        }
    }
}
