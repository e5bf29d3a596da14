//! Polynomials of encrypted numbers, as sums of Chebyshev polynomials.

use std::collections::BTreeMap;

use crate::{arithmetic::Product, ciphertext::Ciphertext, error::CkksError, evaluator::Evaluator, key::EvaluationKeys};

/// Up to this degree a polynomial is a sum of numbers times powers that are there; above, it is cut in two.
const DEGREE_OF_SUMS: usize = 7;

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
        let mut powers = Powers { evaluator: self, keys, level: x.level(), found: BTreeMap::from([(1, x.clone())]) };
        powers.combine(coefficients, depth, scale)
    }
}

/// Chebyshev polynomials of one ciphertext: degree k is the number of bits of k - 1 below it.
struct Powers<'a> {
    evaluator: &'a Evaluator<'a>,
    keys: &'a EvaluationKeys,
    level: usize,
    found: BTreeMap<usize, Ciphertext>,
}

impl Powers<'_> {
    /// A sum of them, `depth` levels below the first one.
    fn combine(&mut self, coefficients: &[f64], depth: usize, scale: f64) -> Result<Ciphertext, CkksError> {
        let degree = coefficients.len() - 1;
        if degree <= DEGREE_OF_SUMS && depth_of(degree) < depth {
            for degree in 1..=degree.max(1) {
                self.find(degree)?;
            }
            let number = |degree: usize| coefficients.get(degree).copied().unwrap_or(0.0);
            let terms: Vec<(f64, &Ciphertext)> =
                (1..=degree.max(1)).map(|degree| (number(degree), &self.found[&degree])).collect();
            return self.evaluator.linear_combination(&terms, coefficients[0], self.level + 1 - depth, scale);
        }
        // With T_a T_b = (T_(a+b) + T_|a-b|) / 2: what is above the greatest power of two is taken off as a multiple of it.
        let giant = 1 << degree.ilog2();
        let (mut rest, mut multiple) = (coefficients[..giant].to_vec(), vec![coefficients[giant]]);
        for (above, coefficient) in (1..).zip(&coefficients[giant + 1..]) {
            multiple.push(2.0 * coefficient);
            rest[giant - above] -= coefficient;
        }
        self.find(giant)?;
        let last = self.evaluator.ring().prime(self.level + 1 - depth).modulus().value() as f64;
        let multiple_scale = scale * last / self.found[&giant].scale;
        let multiple = self.combine(&multiple, depth - 1, multiple_scale)?;
        let rest = self.combine(&rest, depth, scale)?;
        let mut sum = self.evaluator.multiply_rescaled(&multiple, &self.found[&giant], self.keys)?;
        self.evaluator.add_polys(&mut sum, &rest);
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
            let with = Product { is_doubled: true, constant: 0.0, term: Some((-1.0, &self.found[&1])) };
            self.evaluator.multiply_with(&self.found[&upper], &self.found[&lower], with, self.keys)?
        };
        self.found.insert(degree, found);
        Ok(())
    }
}
