//! Polynomials cut into digits: what a key switch multiplies a key by, and several rotations share.
//!
//! All digits modulo all primes are several times what a cache holds. So they are made for a few primes when it is their
//! turn, and are gone before the next ones': all threads work on the same few, since one set of digits fits the cache that they share,
//! and one for each thread would not. The last steps of their transforms are done part by part, just before a part is multiplied.

use std::ops::Range;

use cloakwork_math::ntt::{Automorphism, Ntt};

use crate::{
    changes::Change,
    evaluator::Evaluator,
    poly::{Basis, Poly, by_row},
    pool::Words,
    ring::{Digit, Ring},
    rows::{Part, Rows, Stretch, by_stretch, by_target, part_of, parts, pieces},
};

/// The digits of some polynomials, modulo all primes of a basis with special ones. A key that several are multiplied by is read
/// once for all of them.
pub struct Digits<'a> {
    ring: &'a Ring,
    basis: Basis,
    source: Source<'a>,
    /// Each stretch of a row is given the digits that this moves to it.
    moved_by: Option<&'a Automorphism>,
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

/// A stretch of them.
pub(crate) struct DigitsOfStretch<'r> {
    ntt: &'r Ntt,
    words: Range<usize>,
    own: Option<&'r (usize, Vec<&'r [u64]>)>,
    others: Rows<'r>,
    count: usize,
}

impl<'a> Digits<'a> {
    /// What they are modulo.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// The same for whoever moves what is made of them: [`Evaluator::each_stretch_of_digits`] gives each stretch the digits that the
    /// automorphism moves to it, and not those that are there.
    pub(crate) fn moved_by(self, automorphism: &'a Automorphism) -> Self {
        Self { moved_by: Some(automorphism), ..self }
    }

    /// Room for those of some rows of the basis.
    fn blank(&self, rows: Range<usize>) -> Vec<DigitsOfRow<'_>> {
        let ring = self.ring;
        let of_row = |row| {
            let index = ring.index(self.basis, row);
            let (own, others, count) = match &self.source {
                Source::Whole(poly) => (Some((0, vec![poly.row(row)])), 0, 1),
                Source::Cut(cuts) => {
                    let count = ring.digits(self.basis.level).count();
                    let own = ring.digits(self.basis.level).position(|digit| digit.rows.contains(&index));
                    let own = own.map(|place| (place, cuts.iter().map(|cut| cut.poly.row(row)).collect()));
                    let others = cuts.len() * (count - usize::from(own.is_some()));
                    (own, others, count)
                }
            };
            DigitsOfRow { ntt: &ring.prime(index).ntt, own, others: ring.blank_rows(others), count }
        };
        rows.map(of_row).collect()
    }

    /// What fills it, from row `first` on: of several rows, what is cut is read once.
    fn changes<'c>(&'c self, first: usize, blank: &'c mut [DigitsOfRow<'_>]) -> Vec<Change<'c>> {
        let Source::Cut(cuts) = &self.source else { return Vec::new() };
        let (ring, basis) = (self.ring, self.basis);
        let indices: Vec<usize> = (first..first + blank.len()).map(|row| ring.index(basis, row)).collect();
        let mut others: Vec<_> = blank.iter_mut().map(|row| row.others.chunks_exact_mut(ring.size())).collect();
        let mut changes = Vec::new();
        for Cut { prepared, wraps, .. } in cuts {
            for (digit, wraps) in ring.digits(basis.level).zip(wraps) {
                let outside = indices.iter().zip(&mut others).filter(|(index, _)| !digit.rows.contains(index));
                let (targets, to) = outside
                    .map(|(index, others)| {
                        (digit.target(*index), others.next().expect("a row for each digit but the own"))
                    })
                    .unzip();
                let (change, prepared) = (digit.change(basis.level), rows_of(digit, prepared));
                changes.push(Change { change, prepared, wraps, targets, to });
            }
        }
        changes
    }
}

impl DigitsOfRow<'_> {
    /// Stretch by stretch, of some words each.
    pub(crate) fn by_stretch(&mut self, len: usize) -> Vec<DigitsOfStretch<'_>> {
        let (ntt, count, size) = (self.ntt, self.count, self.ntt.size());
        let mut others = by_stretch(self.others.chunks_exact_mut(size), len).into_iter();
        let of_stretch = |words: Range<usize>| {
            let own = self.own.as_ref();
            DigitsOfStretch { ntt, own, others: others.next().unwrap_or_default(), count, words }
        };
        pieces(size, len).map(of_stretch).collect()
    }
}

impl DigitsOfStretch<'_> {
    /// Those of that very stretch, and not what is moved to it.
    pub(crate) fn of(&mut self, stretch: &Stretch<'_>) -> &mut Self {
        assert_eq!(self.words, stretch.words, "the digits of a stretch");
        self
    }

    /// Works on one part after the other: where it is, and for each polynomial its words of each digit. These are what
    /// the same part of the rows `next` is used with, which comes from memory while transforms are finished. They can be had once.
    pub(crate) fn each_part(&mut self, next: &[&[u64]], mut work: impl FnMut(&Part, &[Vec<&[u64]>])) {
        for part in parts(&self.words) {
            let next: Vec<&[u64]> = next.iter().map(|row| &row[part.in_row.clone()]).collect();
            self.ntt.finish_and_fetch(part.in_row.start, &mut part_of(&mut self.others, &part.in_stretch), &next);
            work(&part, &self.by_polynomial(&part));
        }
    }

    /// Of a part that is finished, the digits of each polynomial in their order.
    fn by_polynomial(&self, part: &Part) -> Vec<Vec<&[u64]>> {
        let others: Vec<&[u64]> = self.others.iter().map(|digit| &digit[part.in_stretch.clone()]).collect();
        let Some((place, own)) = self.own else {
            return others.chunks_exact(self.count).map(<[_]>::to_vec).collect();
        };
        let with_own = own.iter().enumerate().map(|(index, own)| {
            let mut digits = others[index * (self.count - 1)..][..self.count - 1].to_vec();
            digits.insert(*place, &own[part.in_row.clone()]);
            digits
        });
        with_own.collect()
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
        self.digits_of_all(std::slice::from_ref(poly), special)
    }

    /// The same of some polynomials of one level, at least one.
    pub(crate) fn digits_of_all<'p>(&self, polys: &'p [Poly], special: usize) -> Digits<'p>
    where
        'a: 'p,
    {
        let basis = Basis { level: polys[0].basis().level, special };
        Digits { ring: self.ring(), basis, source: Source::Cut(self.cut(polys)), moved_by: None }
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

    /// What digits have of some rows of their basis.
    pub(crate) fn rows_of_digits<'d>(&self, digits: &'d Digits<'_>, rows: Range<usize>) -> Vec<DigitsOfRow<'d>> {
        let (size, first) = (self.ring().size(), rows.start);
        let mut of_rows = digits.blank(rows);
        self.each_change(digits.changes(first, &mut of_rows));
        let others = of_rows.iter_mut();
        self.start_each(others.flat_map(|row| row.others.chunks_exact_mut(size).map(|digit| (row.ntt, digit))));
        of_rows
    }

    /// Works on each stretch of each row of their basis, given the digits that go there and the stretch of each polynomial.
    pub(crate) fn each_stretch_of_digits(
        &self,
        digits: &Digits<'_>,
        rows: Vec<Rows<'_>>,
        work: impl Fn(&Stretch<'_>, &mut DigitsOfStretch<'_>, &mut Rows<'_>) + Sync,
    ) {
        for (first, rows) in self.shares(rows) {
            let mut of_rows = self.rows_of_digits(digits, first..first + rows.len());
            let (len, mut items) = (self.stretch(), Vec::new());
            for (row, (of_row, rows)) in (first..).zip(of_rows.iter_mut().zip(rows)) {
                let of_stretches = of_row.by_stretch(len);
                let of_stretches = match digits.moved_by {
                    Some(automorphism) => by_target(automorphism, len, of_stretches),
                    None => of_stretches,
                };
                items.extend(self.stretches(digits.basis, row, len).zip(of_stretches).zip(by_stretch(rows, len)));
            }
            self.each(items, |((stretch, mut digits), mut rows)| work(&stretch, &mut digits, &mut rows));
        }
    }

    /// A polynomial that is its own only digit.
    pub(crate) fn whole_digit<'p>(&self, poly: Poly) -> Digits<'p>
    where
        'a: 'p,
    {
        Digits { ring: self.ring(), basis: poly.basis(), source: Source::Whole(poly), moved_by: None }
    }
}
