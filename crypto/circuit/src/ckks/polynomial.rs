//! Polynomials: from powers to Chebyshev polynomials, and what evaluating one takes.

use std::collections::BTreeMap;

/// The same polynomial as a sum of Chebyshev polynomials. Every step adds numbers halved, so that nothing is lost.
pub(super) fn chebyshev_of_powers(coefficients: &[f64]) -> Vec<f64> {
    let mut sum = Vec::with_capacity(coefficients.len());
    for coefficient in coefficients.iter().rev() {
        let mut times_x = vec![0.0; sum.len() + usize::from(!sum.is_empty())];
        // x T_0 = T_1, and x T_k is half of its two neighbours.
        for (degree, number) in sum.iter().enumerate() {
            if degree == 0 {
                times_x[1] += number;
            } else {
                times_x[degree - 1] += number / 2.0;
                times_x[degree + 1] += number / 2.0;
            }
        }
        if times_x.is_empty() {
            times_x.push(0.0);
        }
        times_x[0] += coefficient;
        sum = times_x;
    }
    sum
}

/// Levels that a sum of Chebyshev polynomials up to a degree takes.
pub(super) fn depth(degree: usize) -> usize {
    degree.max(1).ilog2() as usize + 1
}

/// Key switches that it takes, each with the levels it is below the start: products of one level share theirs.
pub(super) fn products(degree: usize) -> Vec<usize> {
    let depth = depth(degree);
    let degree_of_sums = (1 << (depth / 2)).max(2) - 1;
    let mut products = Products { degree_of_sums, found: BTreeMap::from([(1, 0)]), below: Vec::new() };
    products.combine(degree, depth);
    products.below
}

/// As `cloakwork-ckks` does it: sums of a few powers, and multiples of giant powers taken off what is above them.
struct Products {
    /// Up to this degree a polynomial is a sum of numbers times powers that are there.
    degree_of_sums: usize,
    /// Levels below the start, by degree.
    found: BTreeMap<usize, usize>,
    below: Vec<usize>,
}

impl Products {
    fn combine(&mut self, degree: usize, depth: usize) {
        let own = |degree: usize| degree.max(1).next_power_of_two().ilog2() as usize;
        let (mut rest, mut has_multiples) = (degree, false);
        while rest > self.degree_of_sums || own(rest) >= depth {
            let giant = 1 << rest.ilog2();
            self.find(giant);
            self.combine(rest - giant, depth - 1);
            (rest, has_multiples) = (giant - 1, true);
        }
        (1..=rest.max(1)).for_each(|degree| self.find(degree));
        if has_multiples {
            self.below.push(depth - 1);
        }
    }

    fn find(&mut self, degree: usize) {
        if self.found.contains_key(&degree) {
            return;
        }
        let (upper, lower) = (degree.div_ceil(2), degree / 2);
        self.find(upper);
        self.find(lower);
        let below = self.found[&upper].max(self.found[&lower]);
        self.below.push(below);
        self.found.insert(degree, below + 1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chebyshev(coefficients: &[f64], x: f64) -> f64 {
        let (mut before, mut power, mut sum) = (x, 1.0, 0.0);
        for coefficient in coefficients {
            sum += coefficient * power;
            (before, power) = (power, 2.0 * x * power - before);
        }
        sum
    }

    proptest! {
        #[test]
        fn both_are_one_polynomial(coefficients in prop::collection::vec(-1.0..1.0, 1..64), x in -1.0..1.0) {
            let powers: f64 = coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient);
            let converted = chebyshev_of_powers(&coefficients);
            prop_assert_eq!(converted.len(), coefficients.len());
            prop_assert!((chebyshev(&converted, x) - powers).abs() < 1e-12);
        }
    }

    #[test]
    fn no_product_is_below_the_last_level() {
        for degree in 0..=511 {
            let products = products(degree);
            assert!(products.iter().all(|below| *below < depth(degree)), "{degree}");
            assert_eq!(products.is_empty(), degree < 2, "{degree}");
        }
        assert_eq!(products(30).len(), 9, "that of a remainder: four giant powers, a small one, and four sums");
    }
}
