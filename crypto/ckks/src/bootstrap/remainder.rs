//! The remainder of a number, for numbers that are near whole ones: sin(2 pi y) / 2 pi.
//!
//! It is a cosine of a quarter of a turn less, whose angle is doubled two or three times. The cosine of the fourth or eighth
//! part of the angle is a polynomial through its values at, or near, all whole numbers below 16 in magnitude, so that it is
//! most exact where the numbers are.

use std::f64::consts::TAU;

use cloakwork_params::ckks::{CkksSet, bootstrap::REMAINDER_DEPTH};

use crate::{
    bootstrap::BootstrapStep, ciphertext::Ciphertext, error::CkksError, evaluator::Evaluator, key::EvaluationKeys,
};

/// Numbers are remainders of this times what is given: raised coefficients are off by fewer multiples than that.
pub(super) const RANGE: usize = 16;

/// How remainders are taken.
pub(super) struct Remainder {
    /// Of Chebyshev polynomials of y / 16: their sum is cos(2 pi (y - 1/4) / 2^doublings) near y = -15, -14 .. 15.
    cosine: &'static [f64],
    doublings: usize,
}

/// The two ways. More doublings take fewer products, and enlarge the noise of the cosine.
static WAYS: [Remainder; 2] =
    [Remainder { cosine: &COSINE_OF_QUARTER, doublings: 2 }, Remainder { cosine: &COSINE_OF_EIGHTH, doublings: 3 }];

/// Through the values at all 31 whole numbers. Worked out with 400 bits.
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

/// Through the values at 0.01 to the left and to the right of each of them, without the seven smallest terms. Worked out with 600 bits.
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
    /// That of a set.
    pub(super) fn of(set: &CkksSet) -> &'static Self {
        let way = WAYS.iter().find(|way| way.doublings == set.bootstrap.doublings);
        way.expect("a test holds every set to a way there is")
    }

    /// The scale afterwards, given that before and the primes so many levels below the start.
    pub(super) fn scale_after(&self, scale: f64, prime: impl Fn(usize) -> f64) -> f64 {
        (REMAINDER_DEPTH - self.doublings..REMAINDER_DEPTH).fold(scale, |scale, below| scale * scale / prime(below))
    }

    /// The remainders of 16 times each number, times `amplitude`: of one ciphertext, or of two of one scale, as the parts of complex
    /// numbers. Keys are read once for both.
    pub(super) fn take(
        &self,
        evaluator: &Evaluator<'_>,
        parts: Vec<Ciphertext>,
        amplitude: f64,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, CkksError> {
        // What the cosine is multiplied by is squared with it each time, and is the amplitude over 2 pi in the end.
        let mut factor = (amplitude / TAU).powf(0.5_f64.powi(self.doublings as i32));
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

    fn cosine(way: &Remainder, y: f64) -> f64 {
        let (x, mut before, mut power, mut sum) = (y / 16.0, 1.0, y / 16.0, way.cosine[0]);
        for coefficient in &way.cosine[1..] {
            sum += coefficient * power;
            (before, power) = (power, 2.0 * x * power - before);
        }
        sum
    }

    #[test]
    fn the_polynomials_are_cosines_at_whole_numbers() {
        for way in &WAYS {
            for y in -15..=15 {
                let expected = (TAU * (f64::from(y) - 0.25) / 2_f64.powi(way.doublings as i32)).cos();
                assert!((cosine(way, f64::from(y)) - expected).abs() < 1e-12, "at {y}, {} doublings", way.doublings);
            }
        }
    }

    #[test]
    fn every_set_has_a_way_of_as_many_levels_as_all_others() {
        for way in &WAYS {
            assert_eq!((way.cosine.len() - 1).ilog2() as usize + 1 + way.doublings, REMAINDER_DEPTH);
        }
        for set in cloakwork_params::ckks::CKKS_SETS {
            let way = Remainder::of(set);
            assert_eq!((way.doublings, way.cosine.len() - 1), (set.bootstrap.doublings, set.bootstrap.cosine_degree()));
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

    /// As it is worked out above `AMPLITUDE_LOG2`.
    #[test]
    fn what_an_error_grows_to_is_known() {
        for way in &WAYS {
            let (doublings, last) = (way.doublings as i32, 2_f64.powi(AMPLITUDE_LOG2) / TAU);
            let factor = |step: i32| last.powf(0.5_f64.powi(doublings - step));
            let end = |y: f64, wrong: i32, error: f64| {
                let begin = factor(0) * cosine(way, y) + if wrong == 0 { error } else { 0.0 };
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

    /// As it is worked out above `LOSSY_PART_LOG2`.
    #[test]
    fn a_sine_takes_a_third_power_of_the_part() {
        for (way, number) in WAYS.iter().flat_map(|way| [0.5, -0.75, 1.0].map(|number| (way, number))) {
            let y = number / 2_f64.powi(LOSSY_PART_LOG2);
            let sine = (0..way.doublings).fold(cosine(way, y), |cosine, _| 2.0 * cosine * cosine - 1.0);
            let taken = number - sine / TAU * 2_f64.powi(LOSSY_PART_LOG2);
            let expected = number.powi(3) * 2_f64.powf(-23.28);
            assert!((taken / expected - 1.0).abs() < 0.1, "{number}: {taken:e}, not {expected:e}");
        }
    }

    /// Off by so many multiples, raised coefficients are with a probability of less than 2^-20 for each.
    #[test]
    fn remainders_near_small_whole_numbers_are_exact() {
        for (way, whole) in WAYS.iter().flat_map(|way| (-8..=8).map(move |whole| (way, whole))) {
            for part in -64..=64 {
                let y = f64::from(whole) + f64::from(part) / 4096.0;
                let sine = (0..way.doublings).fold(cosine(way, y), |cosine, _| 2.0 * cosine * cosine - 1.0);
                let expected = (TAU * (y - y.round())).sin();
                assert!((sine - expected).abs() < 2_f64.powi(-39), "at {y}, {} doublings: {sine}", way.doublings);
            }
        }
    }
}
