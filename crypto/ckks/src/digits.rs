//! A polynomial cut into digits: what a key switch multiplies a key by, and several rotations share.
//!
//! All digits modulo all primes are several times what a cache holds. So they are made for one prime when it is that
//! prime's turn, and are gone before the next one's.

use std::ops::Range;

use crate::{
    evaluator::Evaluator,
    poly::{Basis, Poly},
    pool::Words,
    ring::{Digit, Prime, Ring},
};

/// The digits of a polynomial, modulo all primes of a basis with special ones.
pub struct Digits<'a> {
    ring: &'a Ring,
    basis: Basis,
    source: Source<'a>,
}

enum Source<'a> {
    /// The polynomial is its own only digit.
    Whole(Poly),
    Cut {
        poly: &'a Poly,
        /// Coefficients, each row times what its digit's change of basis asks for.
        prepared: Poly,
        /// By digit, what the change takes away.
        wraps: Vec<Words>,
    },
}

/// All digits modulo one prime.
pub(crate) struct DigitsOfRow<'a> {
    size: usize,
    /// Of the digit that has the prime, those are the polynomial's own values: its place, and them.
    own: Option<(usize, &'a [u64])>,
    others: Words,
}

impl Digits<'_> {
    /// What they are modulo.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// Those of some rows of the basis: of several, what is cut is read once.
    fn rows(&self, rows: Range<usize>) -> Vec<DigitsOfRow<'_>> {
        let (ring, size) = (self.ring, self.ring.size());
        let (poly, prepared, wraps) = match &self.source {
            Source::Whole(poly) => {
                let whole = |row| DigitsOfRow { size, own: Some((0, poly.row(row))), others: ring.blank_rows(0) };
                return rows.map(whole).collect();
            }
            Source::Cut { poly, prepared, wraps } => (*poly, prepared, wraps),
        };
        let digits: Vec<&Digit> = ring.digits(self.basis.level).collect();
        let indices: Vec<usize> = rows.clone().map(|row| ring.index(self.basis, row)).collect();
        let mut cut: Vec<DigitsOfRow<'_>> = rows
            .zip(&indices)
            .map(|(row, index)| {
                let own = digits.iter().position(|digit| digit.rows.contains(index));
                let own = own.map(|place| (place, poly.row(row)));
                DigitsOfRow { size, own, others: ring.blank_rows(digits.len() - usize::from(own.is_some())) }
            })
            .collect();
        let mut others: Vec<Vec<&mut [u64]>> =
            cut.iter_mut().map(|row| row.others.chunks_exact_mut(size).rev().collect()).collect();
        for (digit, wraps) in digits.into_iter().zip(wraps) {
            let outside = indices.iter().zip(&mut others).filter(|(index, _)| !digit.rows.contains(index));
            let (targets, mut to): (Vec<usize>, Vec<&mut [u64]>) = outside
                .map(|(index, others)| (digit.target(*index), others.pop().expect("a row for each digit but the own")))
                .unzip();
            digit.change(self.basis.level).residues(&targets, &rows_of(digit, prepared), wraps, &mut to);
        }
        for (index, cut) in indices.into_iter().zip(&mut cut) {
            ring.prime(index).ntt.forward(&mut cut.others.chunks_exact_mut(size).collect::<Vec<_>>());
        }
        cut
    }
}

impl DigitsOfRow<'_> {
    /// Digit by digit.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u64]> {
        let before = self.own.map_or(0, |(place, _)| place * self.size);
        let (before, after) = self.others.split_at(before);
        let own = self.own.map(|(_, own)| own);
        before.chunks_exact(self.size).chain(own).chain(after.chunks_exact(self.size))
    }
}

/// The rows that a digit is made of.
fn rows_of<'a>(digit: &Digit, poly: &'a Poly) -> Vec<&'a [u64]> {
    digit.at_level(poly.basis().level).map(|row| poly.row(row)).collect()
}

impl<'a> Evaluator<'a> {
    /// Cuts a polynomial of the chain into digits, modulo `special` special primes as well.
    pub fn digits<'p>(&self, poly: &'p Poly, special: usize) -> Digits<'p>
    where
        'a: 'p,
    {
        let ring = self.ring();
        let level = poly.basis().level;
        let mut prepared = poly.clone();
        self.each_row(&mut prepared, |row, prime, words| {
            let digit = ring.digits(level).find(|digit| digit.rows.contains(&row)).expect("a row of a digit");
            prime.ntt.inverse_times(digit.change(level).prepare(row - digit.rows.start), &mut [words]);
        });
        let mut wraps: Vec<Words> = ring.digits(level).map(|_| ring.blank_rows(1)).collect();
        self.each(ring.digits(level).zip(&mut wraps).collect::<Vec<_>>(), |(digit, wraps)| {
            digit.change(level).wraps(&rows_of(digit, &prepared), wraps);
        });
        Digits { ring, basis: Basis { level, special }, source: Source::Cut { poly, prepared, wraps } }
    }

    /// Works on the digits of each row, with an item for each.
    pub(crate) fn each_row_of_digits<T: Send>(
        &self,
        digits: &Digits<'_>,
        items: Vec<T>,
        work: impl Fn(usize, &Prime, &DigitsOfRow<'_>, T) + Sync,
    ) {
        self.each_rows(items, |first, items| {
            let rows = first..first + items.len();
            for ((row, digits_of_row), item) in rows.clone().zip(digits.rows(rows)).zip(items) {
                work(row, self.ring().prime(self.ring().index(digits.basis, row)), &digits_of_row, item);
            }
        });
    }

    /// A polynomial that is its own only digit.
    pub(crate) fn whole_digit<'p>(&self, poly: Poly) -> Digits<'p>
    where
        'a: 'p,
    {
        Digits { ring: self.ring(), basis: poly.basis(), source: Source::Whole(poly) }
    }
}
