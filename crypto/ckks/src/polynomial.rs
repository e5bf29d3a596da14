//! Polynomials of encrypted numbers, as sums of Chebyshev polynomials.

use std::collections::BTreeMap;

use crate::{arithmetic::Sum, ciphertext::Ciphertext, error::CkksError, evaluator::Evaluator, key::EvaluationKeys};

/// Levels that the Chebyshev polynomial of a degree takes.
fn depth_of(degree: usize) -> usize {
    degree.max(1).next_power_of_two().ilog2() as usize
}

impl Evaluator<'_> {
    /// The sum of coefficient k times the k-th Chebyshev polynomial of numbers between -1 and 1, with the scale that is
    /// asked for, as many levels below as the degree has bits.
    pub fn chebyshev(
        &self,
        x: &Ciphertext,
        coefficients: &[f64],
        scale: f64,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, CkksError> {
        let degree = coefficients.len().checked_sub(1).ok_or(CkksError::NoCoefficients)?;
        let depth = (degree.max(1).ilog2() + 1) as usize;
        if x.level() < depth {
            return Err(CkksError::LevelTooLow { what: "a polynomial of this degree", got: x.level(), least: depth });
        }
        let found = BTreeMap::from([(1, x.clone())]);
        let degree_of_sums = (1 << (depth / 2)).max(2) - 1;
        let mut powers = Powers { evaluator: self, keys, level: x.level(), degree_of_sums, found };
        powers.combine(coefficients, depth, scale)
    }
}

/// Chebyshev polynomials of one ciphertext: degree k is the number of bits of k - 1 below it.
struct Powers<'a> {
    evaluator: &'a Evaluator<'a>,
    keys: &'a EvaluationKeys,
    level: usize,
    /// Up to this degree a polynomial is a sum of numbers times powers that are there; above, multiples of giant powers are
    /// taken off. There are about as many small powers as multiples.
    degree_of_sums: usize,
    found: BTreeMap<usize, Ciphertext>,
}

impl Powers<'_> {
    /// A sum of them, `depth` levels below the first one.
    fn combine(&mut self, coefficients: &[f64], depth: usize, scale: f64) -> Result<Ciphertext, CkksError> {
        let last = self.evaluator.ring().prime(self.level + 1 - depth).modulus().value() as f64;
        let (mut rest, mut multiples) = (coefficients.to_vec(), Vec::new());
        while rest.len() - 1 > self.degree_of_sums || depth_of(rest.len() - 1) >= depth {
            // With T_a T_b = (T_(a+b) + T_|a-b|) / 2: what is above the greatest power of two is taken off as a multiple of it.
            let giant = 1 << (rest.len() - 1).ilog2();
            let above = rest.split_off(giant);
            for (place, coefficient) in above.iter().enumerate().skip(1) {
                rest[giant - place] -= coefficient;
            }
            let multiple: Vec<f64> = above
                .iter()
                .enumerate()
                .map(|(place, coefficient)| if place == 0 { 1.0 } else { 2.0 } * coefficient)
                .collect();
            self.find(giant)?;
            let multiple = self.combine(&multiple, depth - 1, scale * last / self.found[&giant].scale)?;
            multiples.push((multiple, giant));
        }
        let small = 1..rest.len().max(2);
        for degree in small.clone() {
            self.find(degree)?;
        }
        let number = |degree: usize| rest.get(degree).copied().unwrap_or(0.0);
        let terms: Vec<(f64, &Ciphertext)> = small.map(|degree| (number(degree), &self.found[&degree])).collect();
        if multiples.is_empty() {
            return self.evaluator.linear_combination(&terms, rest[0], self.level + 1 - depth, scale);
        }
        // All of it is added up before it is switched and rescaled.
        let products: Vec<[&Ciphertext; 2]> =
            multiples.iter().map(|(multiple, giant)| [multiple, &self.found[giant]]).collect();
        let sum = Sum { products: &products, is_doubled: false, terms: &terms, constant: rest[0] };
        let mut sum = self.evaluator.rescaled_sum(sum, self.keys)?;
        sum.scale = scale;
        Ok(sum)
    }

    fn find(&mut self, degree: usize) -> Result<(), CkksError> {
        if self.found.contains_key(&degree) {
            return Ok(());
        }
        let (upper, lower) = (degree.div_ceil(2), degree / 2);
        self.find(upper)?;
        self.find(lower)?;
        let found = if upper == lower {
            self.evaluator.double_square(&self.found[&upper], 1.0, self.keys)?
        } else {
            let products = [[&self.found[&upper], &self.found[&lower]]];
            let terms = [(-1.0, &self.found[&1])];
            let sum = Sum { products: &products, is_doubled: true, terms: &terms, constant: 0.0 };
            self.evaluator.rescaled_sum(sum, self.keys)?
        };
        self.found.insert(degree, found);
        Ok(())
    }
}
