//! Polynomials: conversion from powers to Chebyshev polynomials, and the cost of evaluation.

use std::collections::BTreeMap;

use cloakwork_params::ckks::chebyshev::{Split, depth, factors};

/// Converts a polynomial to a sum of Chebyshev polynomials. Every step adds halved numbers, so no
/// precision is lost.
pub(super) fn chebyshev_of_powers(coefficients: &[f64]) -> Vec<f64> {
    let mut sum = Vec::with_capacity(coefficients.len());
    for coefficient in coefficients.iter().rev() {
        let mut times_x = vec![0.0; sum.len() + usize::from(!sum.is_empty())];
        // x T_0 = T_1, and x T_k is half of the sum of T_(k-1) and T_(k+1).
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

/// Key switches of a sum of Chebyshev polynomials up to a degree: for each, the number of levels
/// below the start. Products of one level share their key switch.
pub(super) fn products(degree: usize) -> Vec<usize> {
    let mut products = Products { found: BTreeMap::from([(1, 0)]), below: Vec::new() };
    products.sum(&Split::of(degree), depth(degree));
    products.below
}

struct Products {
    /// Levels below the start, by degree.
    found: BTreeMap<usize, usize>,
    below: Vec<usize>,
}

impl Products {
    fn sum(&mut self, Split { multiples, rest }: &Split, depth: usize) {
        for (giant, multiple) in multiples {
            self.find(*giant);
            self.sum(multiple, depth - 1);
        }
        (1..=*rest).for_each(|degree| self.find(degree));
        if !multiples.is_empty() {
            self.below.push(depth - 1);
        }
    }

    fn find(&mut self, degree: usize) {
        if self.found.contains_key(&degree) {
            return;
        }
        let factors = factors(degree);
        factors.into_iter().for_each(|factor| self.find(factor));
        let below = factors.map(|factor| self.found[&factor]).into_iter().max().unwrap_or(0);
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
        fn the_conversion_keeps_the_polynomial(coefficients in prop::collection::vec(-1.0..1.0, 1..64), x in -1.0..1.0) {
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
