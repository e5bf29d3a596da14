//! Division of polynomials by the last of their primes, rounded to the nearest.
//!
//! The excess over a multiple of the removed primes is subtracted first. The excess follows from
//! the rows of the removed primes, after an inverse transform from values to coefficients.

use std::ops::Range;

use crate::{
    changes::Change,
    digits::{Digits, DigitsOfStretch},
    evaluator::Evaluator,
    poly::{Basis, Poly, by_row},
    pool::Words,
    ring::Lowering,
    rows::{Part, Rows, Stretch, by_stretch, part_of, parts, transposed},
};

/// The excess of some polynomials over multiples of the removed primes.
struct Excess<'r> {
    lowering: &'r Lowering,
    /// By polynomial, coefficients modulo each removed prime, times the factor of the change of
    /// basis.
    prepared: Vec<Vec<&'r [u64]>>,
    /// By polynomial, how many times the product of the removed primes the change of basis
    /// subtracts.
    wraps: Vec<Words>,
}

impl Evaluator<'_> {
    /// Divides by the product of the special primes and of those of the chain above a level, and
    /// rounds to the nearest. At most one prime of the chain may be above the level.
    ///
    /// All polynomials have one basis.
    pub(crate) fn lowered<const COUNT: usize>(&self, mut polys: [Poly; COUNT], level: usize) -> [Poly; COUNT] {
        self.lower(&mut polys, level);
        polys.map(|poly| poly.cut(level))
    }

    /// As [`Self::lowered`], in place, in the rows up to that level.
    pub(crate) fn lower(&self, polys: &mut [Poly], level: usize) {
        let (basis, nothing) = (polys[0].basis(), self.nothing(level + 1));
        let mut kept = by_row(polys);
        let gone = kept.split_off(level + 1);
        self.take(&self.excess(basis, level, gone), kept, nothing, |_, (), _, _| {});
    }

    /// As [`Self::lower`], for polynomials that digits are still to be added to. `make` receives a
    /// stretch, its digits and the words of each polynomial.
    pub(crate) fn lower_made(
        &self,
        digits: &Digits<'_>,
        polys: &mut [Poly],
        level: usize,
        make: impl Fn(&Stretch<'_>, &mut DigitsOfStretch<'_>, &mut Rows<'_>) + Sync,
    ) {
        self.lower_made_and_then(digits, polys, self.nothing(level + 1), make, |_, (), _, _| {});
    }

    /// As [`Self::lower_made`], down to as many rows as `items` has, with a further operation on
    /// each part before it leaves the cache. `then` receives the stretch and its item, the part,
    /// and its words of each polynomial.
    pub(crate) fn lower_made_and_then<T: Send>(
        &self,
        digits: &Digits<'_>,
        polys: &mut [Poly],
        items: Vec<Vec<T>>,
        make: impl Fn(&Stretch<'_>, &mut DigitsOfStretch<'_>, &mut Rows<'_>) + Sync,
        then: impl Fn(&Stretch<'_>, &mut T, &Part, &mut Rows<'_>) + Sync,
    ) {
        let (basis, level) = (digits.basis(), items.len() - 1);
        self.each_stretch_of_digits(digits, by_row(polys), make);
        let mut kept = by_row(polys);
        let gone = kept.split_off(level + 1);
        self.take(&self.excess(basis, level, gone), kept, items, then);
    }

    /// An empty item for each stretch of `rows` rows.
    fn nothing(&self, rows: usize) -> Vec<Vec<()>> {
        vec![vec![(); self.ring().size() / self.stretch()]; rows]
    }

    /// Computes the excess of polynomials over multiples of the primes of their basis above a
    /// level, given the rows of these primes. The rows are overwritten with the input of the change
    /// of basis.
    fn excess<'r>(&'r self, basis: Basis, level: usize, mut gone: Vec<Rows<'r>>) -> Excess<'r> {
        let (ring, lowering) = (self.ring(), self.ring().lowering(basis, level));
        let rows = gone.iter_mut().enumerate().flat_map(|(at, rows)| rows.iter_mut().map(move |row| (at, row)));
        self.each(rows.collect::<Vec<_>>(), |(at, row)| {
            let ntt = &ring.prime(ring.index(basis, level + 1 + at)).ntt;
            ntt.inverse_times(lowering.change.prepare(at), &mut [row]);
        });
        let prepared: Vec<Vec<&[u64]>> =
            transposed(gone).into_iter().map(|rows| rows.into_iter().map(|row| &*row).collect()).collect();
        let mut wraps: Vec<Words> = prepared.iter().map(|_| ring.blank_rows(1)).collect();
        let changes = prepared.iter().zip(&mut wraps);
        self.each_wraps(changes.map(|(prepared, wraps)| (&lowering.change, prepared.clone(), wraps)));
        Excess { lowering, prepared, wraps }
    }

    /// Subtracts the excess from the rows that stay, and divides them. Then calls `then` on each
    /// part of them, with an item for each stretch of each row.
    fn take<T: Send>(
        &self,
        excess: &Excess<'_>,
        kept: Vec<Rows<'_>>,
        items: Vec<Vec<T>>,
        then: impl Fn(&Stretch<'_>, &mut T, &Part, &mut Rows<'_>) + Sync,
    ) {
        let (basis, len) = (Basis::of_level(kept.len() - 1), self.stretch());
        assert!(
            kept.len() == items.len() && items.iter().all(|items| items.len() == self.ring().size() / len),
            "all items"
        );
        for (first, share) in self.shares(kept.into_iter().zip(items)) {
            let rows = first..first + share.len();
            let mut taken = self.rows_of_excess(excess, rows.clone());
            let taken = transposed(taken.iter_mut().map(|rows| rows.chunks_exact_mut(self.ring().size())));
            let mut stretches = Vec::new();
            for (row, (taken, (kept, items))) in rows.zip(taken.into_iter().zip(share)) {
                let of_row = by_stretch(taken, len).into_iter().zip(by_stretch(kept, len)).zip(items);
                stretches.extend(self.stretches(basis, row, len).zip(of_row));
            }
            self.each(stretches, |(stretch, ((mut taken, mut kept), mut item))| {
                let Stretch { row, prime, words } = &stretch;
                for part in parts(words) {
                    let [mut taken, mut kept] = [&mut taken, &mut kept].map(|rows| part_of(rows, &part.in_stretch));
                    prime.ntt.finish(part.in_row.start, &mut taken);
                    for (kept, taken) in kept.iter_mut().zip(taken) {
                        prime.pointwise.sub_times(kept, taken, excess.lowering.inverses[*row]);
                    }
                    then(&stretch, &mut item, &part, &mut kept);
                }
            });
        }
    }

    /// Computes the excess modulo the primes of some rows that stay, by polynomial, and starts the
    /// transforms.
    fn rows_of_excess(&self, excess: &Excess<'_>, rows: Range<usize>) -> Vec<Words> {
        let (ring, size) = (self.ring(), self.ring().size());
        let mut taken: Vec<Words> = excess.wraps.iter().map(|_| ring.blank_rows(rows.len())).collect();
        let prepared = excess.prepared.iter().zip(&excess.wraps);
        self.each_change(prepared.zip(&mut taken).map(|((prepared, wraps), taken)| Change {
            change: &excess.lowering.change,
            prepared: prepared.clone(),
            wraps,
            targets: rows.clone().collect(),
            to: taken.chunks_exact_mut(size).collect(),
        }));
        let of_polys = taken.iter_mut().flat_map(|taken| rows.clone().zip(taken.chunks_exact_mut(size)));
        self.start_each(of_polys.map(|(row, words)| (&ring.prime(row).ntt, words)));
        taken
    }
}
