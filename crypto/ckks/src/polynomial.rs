//! Evaluation of polynomials of encrypted numbers, as sums of Chebyshev polynomials.

use std::collections::BTreeMap;

use cloakwork_params::ckks::chebyshev::{Split, depth, factors};

use crate::{arithmetic::Sum, ciphertext::Ciphertext, error::CkksError, evaluator::Evaluator, key::EvaluationKeys};

impl Evaluator<'_> {
    /// Computes the sum of coefficient k times the k-th Chebyshev polynomial of numbers between -1
    /// and 1. The result has the given scale, and its level is lower by the number of bits of the
    /// degree.
    pub fn chebyshev(
        &self,
        x: &Ciphertext,
        coefficients: &[f64],
        scale: f64,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, CkksError> {
        let sums = self.chebyshev_of_all(vec![x.clone()], coefficients, scale, keys)?;
        Ok(sums.into_iter().next().expect("one result for each input"))
    }

    /// As [`Self::chebyshev`], for one or more ciphertexts of one level and scale. One read of the
    /// keys serves all of them.
    pub(crate) fn chebyshev_of_all(
        &self,
        all: Vec<Ciphertext>,
        coefficients: &[f64],
        scale: f64,
        keys: &EvaluationKeys,
    ) -> Result<Vec<Ciphertext>, CkksError> {
        let level = all[0].level();
        let degree = coefficients.len().checked_sub(1).ok_or(CkksError::NoCoefficients)?;
        let depth = depth(degree);
        if level < depth {
            return Err(CkksError::LevelTooLow { what: "a polynomial of this degree", got: level, least: depth });
        }
        let count = all.len();
        let found = BTreeMap::from([(1, all)]);
        let mut powers = Powers { evaluator: self, keys, level, count, found };
        powers.combine(&Split::of(degree), coefficients, depth, scale)
    }
}

/// Chebyshev polynomials of some ciphertexts. The level of degree k is lower than that of the
/// ciphertexts by the number of bits of k - 1.
struct Powers<'a> {
    evaluator: &'a Evaluator<'a>,
    keys: &'a EvaluationKeys,
    level: usize,
    /// Number of ciphertexts.
    count: usize,
    /// By degree, the polynomials of all ciphertexts, which have one scale.
    found: BTreeMap<usize, Vec<Ciphertext>>,
}

impl Powers<'_> {
    /// Computes a sum of Chebyshev polynomials for each ciphertext, `depth` levels below the first
    /// degree.
    fn combine(
        &mut self,
        split: &Split,
        coefficients: &[f64],
        depth: usize,
        scale: f64,
    ) -> Result<Vec<Ciphertext>, CkksError> {
        let last = self.evaluator.ring().prime(self.level + 1 - depth).modulus().value() as f64;
        let (mut rest, mut multiples) = (coefficients.to_vec(), Vec::new());
        for (giant, of_multiple) in &split.multiples {
            // Uses T_a T_b = (T_(a+b) + T_|a-b|) / 2.
            let above = rest.split_off(*giant);
            for (place, coefficient) in above.iter().enumerate().skip(1) {
                rest[giant - place] -= coefficient;
            }
            let multiple: Vec<f64> = above
                .iter()
                .enumerate()
                .map(|(place, coefficient)| if place == 0 { 1.0 } else { 2.0 } * coefficient)
                .collect();
            self.find(*giant)?;
            let scale = scale * last / self.found[giant][0].scale;
            multiples.push((self.combine(of_multiple, &multiple, depth - 1, scale)?, *giant));
        }
        // A constant alone is added to the first degree times zero.
        let small = 1..=split.rest.max(1);
        for degree in small.clone() {
            self.find(degree)?;
        }
        let number = |degree: usize| rest.get(degree).copied().unwrap_or(0.0);
        let terms = |index: usize| -> Vec<(f64, &Ciphertext)> {
            small.clone().map(|degree| (number(degree), &self.found[&degree][index])).collect()
        };
        if multiples.is_empty() {
            let (evaluator, level) = (self.evaluator, self.level + 1 - depth);
            let combined = |index| evaluator.linear_combination(&terms(index), rest[0], level, scale);
            return (0..self.count).map(combined).collect();
        }
        // The whole sum is computed before its key switch and rescale.
        let products = |index: usize| -> Vec<[&Ciphertext; 2]> {
            multiples.iter().map(|(multiple, giant)| [&multiple[index], &self.found[giant][index]]).collect()
        };
        let parts: Vec<_> = (0..self.count).map(|index| (products(index), terms(index))).collect();
        let sums = parts
            .iter()
            .map(|(products, terms)| Sum { products, is_doubled: false, terms, constant: rest[0] })
            .collect::<Vec<_>>();
        let mut sums = self.evaluator.rescaled_sums(&sums, self.keys)?;
        sums.iter_mut().for_each(|sum| sum.scale = scale);
        Ok(sums)
    }

    fn find(&mut self, degree: usize) -> Result<(), CkksError> {
        if self.found.contains_key(&degree) {
            return Ok(());
        }
        let [upper, lower] = factors(degree);
        self.find(upper)?;
        self.find(lower)?;
        let found = if upper == lower {
            self.evaluator.double_squares(&self.found[&upper], 1.0, self.keys)?
        } else {
            let of = |degree: usize, index: usize| &self.found[&degree][index];
            let parts: Vec<_> =
                (0..self.count).map(|index| ([[of(upper, index), of(lower, index)]], [(-1.0, of(1, index))])).collect();
            let sums: Vec<_> = parts
                .iter()
                .map(|(products, terms)| Sum { products, is_doubled: true, terms, constant: 0.0 })
                .collect();
            self.evaluator.rescaled_sums(&sums, self.keys)?
        };
        self.found.insert(degree, found);
        Ok(())
    }
}
