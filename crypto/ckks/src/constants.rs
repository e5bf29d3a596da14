//! Operations of ciphertexts with constants that are equal in all slots.

use crate::{
    arithmetic::{Sum, integer},
    ciphertext::Ciphertext,
    error::CkksError,
    evaluator::Evaluator,
    key::EvaluationKeys,
    poly::{Basis, Poly},
};

/// Length of the buffer that repeats a number. The words processed at a time stay in the
/// first-level cache.
const REPEATED_WORDS: usize = 512;

impl Evaluator<'_> {
    /// Computes a + `number`.
    pub fn add_constant(&self, a: &Ciphertext, number: f64) -> Result<Ciphertext, CkksError> {
        let mut sum = a.clone();
        self.add_integer(&mut sum.polys[0], integer(number, a.scale)?);
        Ok(sum)
    }

    /// Multiplies a by a number, at a level below a's and with exactly the given scale. With the
    /// number 1, this brings one of two operands to the level and scale of the other.
    pub fn multiply_number(
        &self,
        a: &Ciphertext,
        number: f64,
        level: usize,
        scale: f64,
    ) -> Result<Ciphertext, CkksError> {
        if level >= a.level() {
            return Err(CkksError::LevelTooLow { what: "a product", got: a.level(), least: level.saturating_add(1) });
        }
        if !number.is_finite() {
            return Err(CkksError::NotFinite { index: 0 });
        }
        self.linear_combination(&[(number, a)], 0.0, level + 1, scale)
    }

    /// Computes the sum of numbers times ciphertexts, and a constant. The numbers are rounded such
    /// that the result has exactly `scale` after the rescale, which takes the ciphertexts to one
    /// level below `level`.
    pub(crate) fn linear_combination(
        &self,
        terms: &[(f64, &Ciphertext)],
        constant: f64,
        level: usize,
        scale: f64,
    ) -> Result<Ciphertext, CkksError> {
        let ring = self.ring();
        let below = level.checked_sub(1).ok_or(CkksError::LevelTooLow { what: "a rescale", got: 0, least: 1 })?;
        let last = ring.prime(level).modulus().value() as f64;
        let numbers = terms.iter().map(|(number, term)| integer(*number, scale * last / term.scale));
        let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
        let basis = Basis::of_level(level);
        let mut polys = [ring.blank(basis), ring.blank(basis)];
        // Numbers are multiplied like polynomials, part by part.
        let part = REPEATED_WORDS.min(ring.size());
        self.each_row_of_both(&mut polys, |row, prime, to| {
            let modulus = prime.modulus();
            let numbers: Vec<_> = numbers.iter().map(|number| vec![modulus.of_signed(*number); part]).collect();
            for (which, to) in to.into_iter().enumerate() {
                for (index, to) in to.chunks_exact_mut(part).enumerate() {
                    let words = terms.iter().map(|(_, term)| &term.polys[which].row(row)[index * part..][..part]);
                    let pairs: Vec<[&[u64]; 2]> =
                        words.zip(&numbers).map(|(words, number)| [words, &number[..]]).collect();
                    prime.pointwise.sum_of_products(&pairs, to);
                }
            }
        });
        self.add_integer(&mut polys[0], integer(constant, scale * last)?);
        let slots_log2 = terms.first().map_or(0, |(_, term)| term.slots_log2);
        Ok(Ciphertext { polys: self.lowered(polys, below), scale, slots_log2 })
    }

    /// Computes 2 a * a - `less` for each a, which doubles the angle of a cosine.
    pub(crate) fn double_squares(
        &self,
        all: &[Ciphertext],
        less: f64,
        keys: &EvaluationKeys,
    ) -> Result<Vec<Ciphertext>, CkksError> {
        let squares: Vec<[[&Ciphertext; 2]; 1]> = all.iter().map(|a| [[a, a]]).collect();
        let sum = |products| Sum { products, is_doubled: true, terms: &[], constant: -less };
        self.rescaled_sums(&squares.iter().map(|square| sum(square)).collect::<Vec<_>>(), keys)
    }

    /// As [`Self::double_squares`] for two ciphertexts that hold the parts of complex numbers. One
    /// sum and one key switch serve both.
    pub(crate) fn joined_double_squares(
        &self,
        [real, imaginary]: [&Ciphertext; 2],
        less: f64,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, CkksError> {
        let products = [[real, real], [imaginary, &self.times_i(imaginary)]];
        let sum = Sum { products: &products, is_doubled: true, terms: &[], constant: -less };
        let mut joined = self.rescaled_sum(sum, keys)?;
        let less = integer(-less, joined.scale)?;
        self.each_row(&mut joined.polys[0], |row, prime, to| {
            self.ring().add_imaginary(row, to, prime.modulus().of_signed(less));
        });
        Ok(joined)
    }

    /// Computes `to += other`.
    pub(crate) fn add_polys(&self, to: &mut Ciphertext, other: &Ciphertext) {
        to.polys.iter_mut().zip(&other.polys).for_each(|(to, other)| self.add_to(to, other));
    }

    /// Adds a constant. The transform of a constant has the same value everywhere.
    fn add_integer(&self, poly: &mut Poly, number: i128) {
        self.each_row(poly, |_, prime, row| prime.pointwise.add_constant(row, prime.modulus().of_signed(number)));
    }
}
