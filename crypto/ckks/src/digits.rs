//! A polynomial cut into digits: what a key switch multiplies a key by, and several rotations share.

use crate::{
    evaluator::Evaluator,
    poly::{Basis, Poly},
    pool::Words,
    ring::Digit,
};

/// The digits of a polynomial, each modulo all primes of a basis with special ones.
pub struct Digits {
    basis: Basis,
    by_digit: Vec<Poly>,
}

impl Digits {
    /// A polynomial that is its own only digit.
    pub(crate) fn whole(poly: Poly) -> Self {
        Self { basis: poly.basis(), by_digit: vec![poly] }
    }

    /// What they are modulo.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// Row by row of the basis, those of all digits.
    pub(crate) fn rows(&self, row: usize) -> impl Iterator<Item = &[u64]> {
        self.by_digit.iter().map(move |digit| digit.row(row))
    }
}

impl Evaluator<'_> {
    /// Cuts a polynomial of the chain into digits, modulo `special` special primes as well.
    ///
    /// Each prime's rows are made together, so that their transforms share its table.
    pub fn digits(&self, poly: &Poly, special: usize) -> Digits {
        let ring = self.ring();
        let level = poly.basis().level;
        let basis = Basis { level, special };
        let prepared = self.prepared(poly);
        let own = |digit: &Digit| digit.at_level(level).map(|row| prepared.row(row)).collect::<Vec<_>>();
        let mut wraps: Vec<Words> = ring.digits(level).map(|_| ring.blank_row()).collect();
        self.each(ring.digits(level).zip(&mut wraps).collect::<Vec<_>>(), |(digit, wraps)| {
            digit.change(level).wraps(&own(digit), wraps);
        });
        let mut by_digit: Vec<Poly> = ring.digits(level).map(|_| ring.blank(basis)).collect();
        let rows = ring.indices(basis).enumerate().zip(transposed(&mut by_digit)).collect::<Vec<_>>();
        self.each(rows, |((row, index), of_digits)| {
            let mut moved = Vec::with_capacity(of_digits.len());
            for ((digit, wraps), to) in ring.digits(level).zip(&wraps).zip(of_digits) {
                if digit.rows.contains(&index) {
                    to.copy_from_slice(poly.row(row));
                } else {
                    digit.change(level).residues(digit.target(index), &own(digit), wraps, to);
                    moved.push(to);
                }
            }
            ring.prime(index).ntt.forward(&mut moved);
        });
        Digits { basis, by_digit }
    }

    /// Coefficients, each row times what its digit's change of basis asks for.
    fn prepared(&self, poly: &Poly) -> Poly {
        let level = poly.basis().level;
        let mut prepared = poly.clone();
        self.each_row(&mut prepared, |row, prime, words| {
            let digit = self.ring().digits(level).find(|digit| digit.rows.contains(&row)).expect("a row of a digit");
            let factor = digit.change(level).prepare(row - digit.rows.start);
            prime.ntt.inverse_times(factor, &mut [words]);
        });
        prepared
    }
}

/// Row by row, those of all polynomials.
pub(crate) fn transposed(polys: &mut [Poly]) -> Vec<Vec<&mut [u64]>> {
    let count = polys.first().map_or(0, |poly| poly.basis().len());
    let mut rows: Vec<Vec<&mut [u64]>> = (0..count).map(|_| Vec::with_capacity(polys.len())).collect();
    for poly in polys {
        rows.iter_mut().zip(poly.rows_mut()).for_each(|(rows, row)| rows.push(row));
    }
    rows
}
