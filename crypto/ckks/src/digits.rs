//! A polynomial cut into digits: what a key switch multiplies a key by, and several rotations share.
//!
//! All digits modulo all primes are several times what a cache holds. So they are made for one prime when it is that
//! prime's turn, and are gone before the next one's; and the last steps of their transforms are done part by part, just
//! before a part is multiplied.

use std::{iter, ops::Range};

use cloakwork_math::{
    basis::BasisChange,
    ntt::{Ntt, PART},
};

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

/// All digits modulo one prime, whose transforms have begun.
pub(crate) struct DigitsOfRow<'a> {
    ntt: &'a Ntt,
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
        let ntt = |row| &ring.prime(ring.index(self.basis, row)).ntt;
        let (poly, prepared, wraps) = match &self.source {
            Source::Whole(poly) => {
                let whole =
                    |row| DigitsOfRow { ntt: ntt(row), own: Some((0, poly.row(row))), others: ring.blank_rows(0) };
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
                DigitsOfRow { ntt: ntt(row), own, others: ring.blank_rows(digits.len() - usize::from(own.is_some())) }
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
        for cut in &mut cut {
            cut.ntt.start(&mut cut.others.chunks_exact_mut(size).collect::<Vec<_>>());
        }
        cut
    }
}

impl DigitsOfRow<'_> {
    /// Works on one part after the other: where it is in the row, and its words of each digit. These are what the same part
    /// of the rows `next` is used with, which comes from memory while transforms are finished.
    pub(crate) fn each_part(mut self, next: &[&[u64]], mut work: impl FnMut(Range<usize>, &[&[u64]])) {
        let size = self.ntt.size();
        for part in parts(size) {
            let next: Vec<&[u64]> = next.iter().map(|row| &row[part.clone()]).collect();
            let others = self.others.chunks_exact_mut(size).map(|digit| &mut digit[part.clone()]);
            self.ntt.finish_and_fetch(part.start, &mut others.collect::<Vec<_>>(), &next);
            let mut digits: Vec<&[u64]> = self.others.chunks_exact(size).map(|digit| &digit[part.clone()]).collect();
            if let Some((place, own)) = self.own {
                digits.insert(place, &own[part.clone()]);
            }
            work(part, &digits);
        }
    }
}

/// A row part by part: as much of it as some digits, or both polynomials of a ciphertext, can have in a cache.
pub(crate) fn parts(size: usize) -> impl Iterator<Item = Range<usize>> {
    iter::successors(Some(0), |start| Some(start + PART))
        .take_while(move |start| *start < size)
        .map(move |start| start..size.min(start + PART))
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
        let mut prepared = ring.blank(poly.basis());
        self.each_row(&mut prepared, |row, prime, words| {
            words.copy_from_slice(poly.row(row));
            let digit = ring.digits(level).find(|digit| digit.rows.contains(&row)).expect("a row of a digit");
            prime.ntt.inverse_times(digit.change(level).prepare(row - digit.rows.start), &mut [words]);
        });
        let mut wraps: Vec<Words> = ring.digits(level).map(|_| ring.blank_rows(1)).collect();
        self.each_wraps(
            ring.digits(level)
                .zip(&mut wraps)
                .map(|(digit, wraps)| (digit.change(level), rows_of(digit, &prepared), wraps)),
        );
        Digits { ring, basis: Basis { level, special }, source: Source::Cut { poly, prepared, wraps } }
    }

    /// Works on the digits of each row, with an item for each.
    pub(crate) fn each_row_of_digits<T: Send>(
        &self,
        digits: &Digits<'_>,
        items: Vec<T>,
        work: impl Fn(usize, &Prime, DigitsOfRow<'_>, T) + Sync,
    ) {
        self.each_rows(items, |first, items| {
            let rows = first..first + items.len();
            for ((row, digits_of_row), item) in rows.clone().zip(digits.rows(rows)).zip(items) {
                work(row, self.ring().prime(self.ring().index(digits.basis, row)), digits_of_row, item);
            }
        });
    }

    /// Works out what each change of basis takes away, given its prepared rows.
    pub(crate) fn each_wraps<'w>(
        &self,
        changes: impl Iterator<Item = (&'w BasisChange, Vec<&'w [u64]>, &'w mut Words)>,
    ) {
        let size = self.ring().size();
        let mut items = Vec::new();
        for (change, prepared, wraps) in changes {
            for (part, wraps) in parts(size).zip(wraps.chunks_mut(PART)) {
                items.push((change, prepared.iter().map(|row| &row[part.clone()]).collect::<Vec<_>>(), wraps));
            }
        }
        self.each(items, |(change, prepared, wraps)| change.wraps(&prepared, wraps));
    }

    /// A polynomial that is its own only digit.
    pub(crate) fn whole_digit<'p>(&self, poly: Poly) -> Digits<'p>
    where
        'a: 'p,
    {
        Digits { ring: self.ring(), basis: poly.basis(), source: Source::Whole(poly) }
    }
}
