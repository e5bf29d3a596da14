//! Gadget decomposition of polynomials. A key switch multiplies the digits by a key, and hoisted
//! rotations share them.
//!
//! All digits modulo all primes take several times the size of a cache. Digits are therefore made
//! for a few primes at a time and dropped before those of the next primes. All threads work on the
//! same primes, since one set of digits fits the shared cache, and one set per thread would not.
//! The last passes of their transforms are done part by part, directly before a part is multiplied.

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

/// The digits of some polynomials of one level, modulo all primes of a basis with special primes.
/// One read of a key serves all of the polynomials.
pub struct Digits<'a> {
    ring: &'a Ring,
    basis: Basis,
    source: Source<'a>,
    /// If set, each stretch of a row receives the digits that this automorphism moves to it.
    moved_by: Option<&'a Automorphism>,
}

enum Source<'a> {
    /// The polynomial is its own only digit.
    Whole(Poly),
    Cut(Vec<Cut<'a>>),
}

struct Cut<'a> {
    poly: &'a Poly,
    /// Coefficients, each row times the factor from its digit's change of basis.
    prepared: Poly,
    /// By digit, how many times its product of primes the change of basis subtracts.
    wraps: Vec<Words>,
}

/// All digits modulo one prime, after the first passes of their transforms.
pub(crate) struct DigitsOfRow<'a> {
    ntt: &'a Ntt,
    /// Index of the digit that contains the prime, and its values by polynomial. These are the
    /// polynomials' own rows, which need no transform.
    own: Option<(usize, Vec<&'a [u64]>)>,
    /// The other digits, by polynomial.
    others: Words,
    /// Number of digits of each polynomial.
    count: usize,
}

/// A stretch of all digits modulo one prime.
pub(crate) struct DigitsOfStretch<'r> {
    ntt: &'r Ntt,
    words: Range<usize>,
    own: Option<&'r (usize, Vec<&'r [u64]>)>,
    others: Rows<'r>,
    count: usize,
}

impl<'a> Digits<'a> {
    /// Basis of the digits.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// Prepares the digits for a caller that applies an automorphism to their products.
    /// [`Evaluator::each_stretch_of_digits`] then gives each stretch the digits that the
    /// automorphism moves there, instead of the digits of the stretch itself.
    pub(crate) fn moved_by(self, automorphism: &'a Automorphism) -> Self {
        Self { moved_by: Some(automorphism), ..self }
    }

    /// Allocates the digits of some rows of the basis.
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

    /// Lists the changes of basis that fill the digits, from row `first` on. With several rows, the
    /// decomposed polynomial is read once for all of them.
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
                        (digit.target(*index), others.next().expect("a row for each digit except the own"))
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
    /// Splits the digits into stretches of `len` words.
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
    /// Checks that these digits belong to `stretch`, and not to a stretch that an automorphism
    /// moves there.
    pub(crate) fn of(&mut self, stretch: &Stretch<'_>) -> &mut Self {
        assert_eq!(self.words, stretch.words, "the digits of a stretch");
        self
    }

    /// Calls `work` on one part after the other, with the words of each digit by polynomial. Rows
    /// `next` are the factors of the digits: their words of the part are prefetched while
    /// transforms finish. Each part can be finished only once.
    pub(crate) fn each_part(&mut self, next: &[&[u64]], mut work: impl FnMut(&Part, &[Vec<&[u64]>])) {
        for part in parts(&self.words) {
            let next: Vec<&[u64]> = next.iter().map(|row| &row[part.in_row.clone()]).collect();
            self.ntt.finish_and_fetch(part.in_row.start, &mut part_of(&mut self.others, &part.in_stretch), &next);
            work(&part, &self.by_polynomial(&part));
        }
    }

    /// The digits of each polynomial in order, for a part whose transforms are finished.
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

/// The rows of the primes of a digit.
fn rows_of<'a>(digit: &Digit, poly: &'a Poly) -> Vec<&'a [u64]> {
    digit.at_level(poly.basis().level).map(|row| poly.row(row)).collect()
}

impl<'a> Evaluator<'a> {
    /// Decomposes a polynomial of the chain into digits, modulo `special` special primes as well.
    pub fn digits<'p>(&self, poly: &'p Poly, special: usize) -> Digits<'p>
    where
        'a: 'p,
    {
        self.digits_of_all(std::slice::from_ref(poly), special)
    }

    /// As [`Self::digits`], for one or more polynomials of one level.
    pub(crate) fn digits_of_all<'p>(&self, polys: &'p [Poly], special: usize) -> Digits<'p>
    where
        'a: 'p,
    {
        let basis = Basis { level: polys[0].basis().level, special };
        Digits { ring: self.ring(), basis, source: Source::Cut(self.cut(polys)), moved_by: None }
    }

    /// Processes the polynomials prime by prime, so that their transforms share the prime's table.
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

    /// Computes the digits for some rows of their basis, and starts their transforms.
    pub(crate) fn rows_of_digits<'d>(&self, digits: &'d Digits<'_>, rows: Range<usize>) -> Vec<DigitsOfRow<'d>> {
        let (size, first) = (self.ring().size(), rows.start);
        let mut of_rows = digits.blank(rows);
        self.each_change(digits.changes(first, &mut of_rows));
        let others = of_rows.iter_mut();
        self.start_each(others.flat_map(|row| row.others.chunks_exact_mut(size).map(|digit| (row.ntt, digit))));
        of_rows
    }

    /// Calls `work` on each stretch of each row of the basis, with the digits for that stretch and
    /// with the stretch of each polynomial.
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

    /// Wraps a polynomial that is its own only digit.
    pub(crate) fn whole_digit<'p>(&self, poly: Poly) -> Digits<'p>
    where
        'a: 'p,
    {
        Digits { ring: self.ring(), basis: poly.basis(), source: Source::Whole(poly), moved_by: None }
    }
}
