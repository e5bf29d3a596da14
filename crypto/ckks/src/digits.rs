//! Polynomials cut into digits: what a key switch multiplies a key by, and several rotations share.
//!
//! All digits modulo all primes are several times what a cache holds. So they are made for a few primes when it is their
//! turn, and are gone before the next ones'; and the last steps of their transforms are done part by part, just
//! before a part is multiplied.

use std::{iter, ops::Range};

use cloakwork_math::{
    basis::BasisChange,
    ntt::{Ntt, PART},
};

use crate::{
    evaluator::Evaluator,
    poly::{Basis, Poly, by_row},
    pool::Words,
    ring::{Digit, Prime, Ring},
};

/// The digits of some polynomials, modulo all primes of a basis with special ones. A key that several are multiplied by is read
/// once for all of them.
pub struct Digits<'a> {
    ring: &'a Ring,
    basis: Basis,
    source: Source<'a>,
}

enum Source<'a> {
    /// The polynomial is its own only digit.
    Whole(Poly),
    Cut(Vec<Cut<'a>>),
}

struct Cut<'a> {
    poly: &'a Poly,
    /// Coefficients, each row times what its digit's change of basis asks for.
    prepared: Poly,
    /// By digit, what the change takes away.
    wraps: Vec<Words>,
}

/// All digits modulo one prime, whose transforms have begun.
pub(crate) struct DigitsOfRow<'a> {
    ntt: &'a Ntt,
    /// Of the digit that has the prime, those are the polynomials' own values: its place, and them.
    own: Option<(usize, Vec<&'a [u64]>)>,
    /// By polynomial, the other digits.
    others: Words,
    /// Digits of each polynomial.
    count: usize,
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
        let cuts = match &self.source {
            Source::Whole(poly) => {
                let whole = |row| {
                    let own = Some((0, vec![poly.row(row)]));
                    DigitsOfRow { ntt: ntt(row), own, others: ring.blank_rows(0), count: 1 }
                };
                return rows.map(whole).collect();
            }
            Source::Cut(cuts) => cuts,
        };
        let digits: Vec<&Digit> = ring.digits(self.basis.level).collect();
        let indices: Vec<usize> = rows.clone().map(|row| ring.index(self.basis, row)).collect();
        let mut digits_of_rows: Vec<DigitsOfRow<'_>> = rows
            .zip(&indices)
            .map(|(row, index)| {
                let own = digits.iter().position(|digit| digit.rows.contains(index));
                let own = own.map(|place| (place, cuts.iter().map(|cut| cut.poly.row(row)).collect()));
                let others = cuts.len() * (digits.len() - usize::from(own.is_some()));
                DigitsOfRow { ntt: ntt(row), own, others: ring.blank_rows(others), count: digits.len() }
            })
            .collect();
        let mut others: Vec<Vec<&mut [u64]>> =
            digits_of_rows.iter_mut().map(|row| row.others.chunks_exact_mut(size).rev().collect()).collect();
        for Cut { prepared, wraps, .. } in cuts {
            for (digit, wraps) in digits.iter().zip(wraps) {
                let outside = indices.iter().zip(&mut others).filter(|(index, _)| !digit.rows.contains(index));
                let (targets, mut to): (Vec<usize>, Vec<&mut [u64]>) = outside
                    .map(|(index, others)| {
                        (digit.target(*index), others.pop().expect("a row for each digit but the own"))
                    })
                    .unzip();
                digit.change(self.basis.level).residues(&targets, &rows_of(digit, prepared), wraps, &mut to);
            }
        }
        for row in &mut digits_of_rows {
            row.ntt.start(&mut row.others.chunks_exact_mut(size).collect::<Vec<_>>());
        }
        digits_of_rows
    }
}

impl DigitsOfRow<'_> {
    /// Works on one part after the other: where it is in the row, and for each polynomial its words of each digit. These are what
    /// the same part of the rows `next` is used with, which comes from memory while transforms are finished. They can be had once.
    pub(crate) fn each_part(&mut self, next: &[&[u64]], mut work: impl FnMut(Range<usize>, &[Vec<&[u64]>])) {
        for part in parts(self.ntt.size()) {
            work(part.clone(), &self.part(part, next));
        }
    }

    /// One part, for each polynomial its words of each digit. It can be had once.
    pub(crate) fn part(&mut self, part: Range<usize>, next: &[&[u64]]) -> Vec<Vec<&[u64]>> {
        let size = self.ntt.size();
        let next: Vec<&[u64]> = next.iter().map(|row| &row[part.clone()]).collect();
        let others = self.others.chunks_exact_mut(size).map(|digit| &mut digit[part.clone()]);
        self.ntt.finish_and_fetch(part.start, &mut others.collect::<Vec<_>>(), &next);
        let others: Vec<&[u64]> = self.others.chunks_exact(size).map(|digit| &digit[part.clone()]).collect();
        self.by_polynomial(&others, part)
    }

    /// The digits of each polynomial in their order, given the others' words.
    fn by_polynomial<'d>(&'d self, others: &[&'d [u64]], part: Range<usize>) -> Vec<Vec<&'d [u64]>> {
        let Some((place, own)) = &self.own else {
            return others.chunks_exact(self.count).map(<[_]>::to_vec).collect();
        };
        let with_own = |(index, own): (usize, &&'d [u64])| {
            let mut digits = others[index * (self.count - 1)..][..self.count - 1].to_vec();
            digits.insert(*place, &own[part.clone()]);
            digits
        };
        own.iter().enumerate().map(with_own).collect()
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
        self.digits_of_all(std::slice::from_ref(poly), special)
    }

    /// The same of some polynomials of one level, at least one.
    pub(crate) fn digits_of_all<'p>(&self, polys: &'p [Poly], special: usize) -> Digits<'p>
    where
        'a: 'p,
    {
        let basis = Basis { level: polys[0].basis().level, special };
        Digits { ring: self.ring(), basis, source: Source::Cut(self.cut(polys)) }
    }

    /// The same, each on its own.
    pub(crate) fn digits_of_each<'p>(&self, polys: &'p [Poly], special: usize) -> Vec<Digits<'p>>
    where
        'a: 'p,
    {
        let cuts = self.cut(polys).into_iter();
        let basis = |cut: &Cut<'_>| Basis { level: cut.poly.basis().level, special };
        cuts.map(|cut| Digits { ring: self.ring(), basis: basis(&cut), source: Source::Cut(vec![cut]) }).collect()
    }

    /// They go prime by prime, so that their transforms share its table.
    fn cut<'p>(&self, polys: &'p [Poly]) -> Vec<Cut<'p>>
    where
        'a: 'p,
    {
        let Some(first) = polys.first() else { return Vec::new() };
        let (ring, level) = (self.ring(), first.basis().level);
        let mut prepared: Vec<Poly> = polys.iter().map(|poly| ring.blank(poly.basis())).collect();
        let rows = ring.primes(first.basis()).zip(by_row(&mut prepared)).enumerate();
        self.each(rows.collect::<Vec<_>>(), |(row, (prime, mut words))| {
            let values: Vec<&[u64]> = polys.iter().map(|poly| poly.row(row)).collect();
            let digit = ring.digits(level).find(|digit| digit.rows.contains(&row)).expect("a row of a digit");
            let factor = digit.change(level).prepare(row - digit.rows.start);
            prime.ntt.inverse_times_of(factor, &values, &mut words);
        });
        let wraps = |_| ring.digits(level).map(|_| ring.blank_rows(1)).collect();
        let mut wraps: Vec<Vec<Words>> = polys.iter().map(wraps).collect();
        let changes = |(prepared, wraps)| {
            let digits = ring.digits(level).zip::<&mut Vec<Words>>(wraps);
            digits.map(move |(digit, wraps)| (digit.change(level), rows_of(digit, prepared), wraps))
        };
        self.each_wraps(prepared.iter().zip(&mut wraps).flat_map(changes));
        let cuts = polys.iter().zip(prepared).zip(wraps);
        cuts.map(|((poly, prepared), wraps)| Cut { poly, prepared, wraps }).collect()
    }

    /// Works on what some digits, at least one, of one basis have of each row: given a row's number, its prime, its digits and its
    /// item.
    pub(crate) fn each_row_of_digits<T: Send>(
        &self,
        digits: &[Digits<'_>],
        items: &mut [T],
        work: impl Fn(usize, &Prime, &mut [DigitsOfRow<'_>], &mut T) + Sync,
    ) {
        self.each_rows(items, |first, items| self.rows_of_digits(digits, first, items, &work));
    }

    /// The same of some rows, from row `first` on, on this thread. Their changes of basis are made at once.
    pub(crate) fn rows_of_digits<T>(
        &self,
        digits: &[Digits<'_>],
        first: usize,
        items: Vec<&mut T>,
        work: impl Fn(usize, &Prime, &mut [DigitsOfRow<'_>], &mut T),
    ) {
        let (ring, basis, rows) = (self.ring(), digits[0].basis, first..first + items.len());
        let mut of_all: Vec<_> = digits.iter().map(|digits| digits.rows(rows.clone()).into_iter()).collect();
        for (row, item) in rows.zip(items) {
            let next = |rows: &mut std::vec::IntoIter<_>| rows.next().expect("digits of each row");
            let mut digits: Vec<_> = of_all.iter_mut().map(next).collect();
            work(row, ring.prime(ring.index(basis, row)), &mut digits, item);
        }
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
