//! Polynomials divided by the last of their primes, to the nearest.
//!
//! What they are more than a multiple of the primes that go is taken from them first. It is known from the rows that go, as soon as
//! these are values no more but coefficients.

use std::ops::Range;

use crate::{
    digits::{Digits, DigitsOfRow, parts},
    evaluator::Evaluator,
    poly::{Basis, Poly, by_row},
    pool::Words,
    ring::{Lowering, Prime, Ring},
};

/// One row of some polynomials.
pub(crate) type Rows<'r> = Vec<&'r mut [u64]>;

/// What some polynomials are more than multiples of the primes that go.
struct Excess<'r> {
    ring: &'r Ring,
    lowering: &'r Lowering,
    /// By polynomial, coefficients modulo each prime that goes, times what the change of basis asks for.
    prepared: Vec<Vec<&'r [u64]>>,
    /// By polynomial, what the change takes away.
    wraps: Vec<Words>,
}

impl Excess<'_> {
    /// Takes it from some rows, from row `first` on, and divides them; then does something else to each part of a row.
    ///
    /// Polynomials go prime by prime, so that their transforms share its table.
    fn take_from(
        &self,
        first: usize,
        rows: &mut [Rows<'_>],
        mut then: impl FnMut(usize, &Prime, Range<usize>, &mut [&mut [u64]]),
    ) {
        let (ring, size) = (self.ring, self.ring.size());
        let numbers: Vec<usize> = (first..first + rows.len()).collect();
        let mut excess: Vec<Words> = self.wraps.iter().map(|_| ring.blank_rows(rows.len())).collect();
        for ((prepared, wraps), excess) in self.prepared.iter().zip(&self.wraps).zip(&mut excess) {
            let mut excess: Vec<&mut [u64]> = excess.chunks_exact_mut(size).collect();
            self.lowering.change.residues(&numbers, prepared, wraps, &mut excess);
        }
        for (at, (row, to)) in numbers.into_iter().zip(rows).enumerate() {
            let mut excess: Rows<'_> = excess.iter_mut().map(|rows| &mut rows[at * size..][..size]).collect();
            let (prime, inverse) = (ring.prime(row), self.lowering.inverses[row]);
            prime.ntt.start(&mut excess);
            for part in parts(size) {
                let mut excess = part_of(&mut excess, &part);
                prime.ntt.finish(part.start, &mut excess);
                let mut to = part_of(to, &part);
                for (to, excess) in to.iter_mut().zip(excess) {
                    prime.pointwise.sub_times(to, excess, inverse);
                }
                then(row, prime, part, &mut to);
            }
        }
    }
}

fn part_of<'p>(rows: &'p mut [&mut [u64]], part: &Range<usize>) -> Rows<'p> {
    rows.iter_mut().map(|row| &mut row[part.clone()]).collect()
}

impl Evaluator<'_> {
    /// Divided by the product of the special primes and of those of the chain above a level, at most one, to the nearest.
    ///
    /// All polynomials have one basis.
    pub(crate) fn lowered<const COUNT: usize>(&self, mut polys: [Poly; COUNT], level: usize) -> [Poly; COUNT] {
        self.lower(&mut polys, level);
        polys.map(|poly| poly.cut(level))
    }

    /// The same in place, in the rows up to that level.
    pub(crate) fn lower(&self, polys: &mut [Poly], level: usize) {
        let basis = polys[0].basis();
        let mut kept = by_row(polys);
        let mut gone = kept.split_off(level + 1);
        self.each(gone.iter_mut().enumerate(), |(at, rows)| self.prepare(basis, level, level + 1 + at, rows));
        let excess = self.excess(basis, level, gone);
        self.each_rows(kept, |first, mut rows| excess.take_from(first, &mut rows, |_, _, _, _| {}));
    }

    /// The same of polynomials that are still to be made from digits, or added to: `make` is given a row's number, its prime, its
    /// digits and the row of each polynomial.
    pub(crate) fn lower_made(
        &self,
        digits: &[Digits<'_>],
        polys: &mut [Poly],
        level: usize,
        make: impl Fn(usize, &Prime, &mut [DigitsOfRow<'_>], &mut Rows<'_>) + Sync,
    ) {
        self.lower_made_and_then(digits, polys, vec![(); level + 1], make, |_, _, _, _, _| {});
    }

    /// The same, down to as many rows as there are items, with something else to do to each part of a row before it leaves the
    /// cache: given the row's number, its prime, its item, where the part is, and the part of each polynomial.
    pub(crate) fn lower_made_and_then<T: Send>(
        &self,
        digits: &[Digits<'_>],
        polys: &mut [Poly],
        items: Vec<T>,
        make: impl Fn(usize, &Prime, &mut [DigitsOfRow<'_>], &mut Rows<'_>) + Sync,
        then: impl Fn(usize, &Prime, &mut T, Range<usize>, &mut [&mut [u64]]) + Sync,
    ) {
        let (basis, level) = (digits[0].basis(), items.len() - 1);
        let mut kept = by_row(polys);
        let mut gone = kept.split_off(level + 1);
        let mut shares = self.shares(level + 1, &mut gone);
        shares.extend(self.shares(0, &mut kept));
        self.each(shares, |(first, rows)| {
            self.rows_of_digits(digits, first, rows, |row, prime, digits, rows| {
                make(row, prime, digits, rows);
                if row > level {
                    self.prepare(basis, level, row, rows);
                }
            });
        });
        let excess = self.excess(basis, level, gone);
        self.each_rows(kept.into_iter().zip(items), |first, rows_and_items| {
            let (mut rows, mut items): (Vec<_>, Vec<_>) = rows_and_items.into_iter().unzip();
            excess.take_from(first, &mut rows, |row, prime, part, rows| {
                then(row, prime, &mut items[row - first], part, rows);
            });
        });
    }

    /// Makes of one row that goes, of each polynomial, what the change of basis is given.
    fn prepare(&self, basis: Basis, level: usize, row: usize, rows: &mut Rows<'_>) {
        let ring = self.ring();
        let factor = ring.lowering(basis, level).change.prepare(row - level - 1);
        ring.prime(ring.index(basis, row)).ntt.inverse_times(factor, rows);
    }

    /// What polynomials of a basis are more than multiples of its primes above a level, given the rows that go, prepared.
    fn excess<'r>(&'r self, basis: Basis, level: usize, gone: Vec<Rows<'r>>) -> Excess<'r> {
        let (ring, lowering) = (self.ring(), self.ring().lowering(basis, level));
        let mut prepared: Vec<Vec<&[u64]>> = gone.first().into_iter().flatten().map(|_| Vec::new()).collect();
        for rows in gone {
            prepared.iter_mut().zip(rows).for_each(|(of_poly, row)| of_poly.push(row));
        }
        let mut wraps: Vec<Words> = prepared.iter().map(|_| ring.blank_rows(1)).collect();
        let changes = prepared.iter().zip(&mut wraps);
        self.each_wraps(changes.map(|(prepared, wraps)| (&lowering.change, prepared.clone(), wraps)));
        Excess { ring, lowering, prepared, wraps }
    }
}
