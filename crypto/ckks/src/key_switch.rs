//! From one secret to another: digits times a key, and the special primes taken away again.

use std::ops::Range;

use crate::{
    digits::{Digits, parts},
    evaluator::Evaluator,
    key::SwitchKey,
    poly::{Basis, Poly, by_row},
    pool::Words,
    ring::Prime,
};

impl Evaluator<'_> {
    /// What is to be added to body and mask so that `poly`, which goes with the key's first secret, may be left out.
    pub fn switch(&self, poly: &Poly, key: &SwitchKey) -> [Poly; 2] {
        let digits = self.digits(poly, key.basis().special);
        self.without_special(self.product(&digits, key))
    }

    /// Digits of one polynomial times a key, special primes and all.
    pub(crate) fn product(&self, digits: &Digits<'_>, key: &SwitchKey) -> [Poly; 2] {
        let basis = digits.basis();
        assert!(basis.level <= key.basis().level && basis.special == key.basis().special, "digits that fit the key");
        let mut product = [self.ring().blank(basis), self.ring().blank(basis)];
        let [body, mask] = &mut product;
        let rows = body.rows_mut().zip(mask.rows_mut()).collect();
        self.each_row_of_digits(digits, rows, |row, prime, digits, (body, mask)| {
            digits.each_part(&self.rows_of_key(key, basis, row), |part, digits| {
                let to = [&mut body[part.clone()], &mut mask[part.clone()]];
                self.product_of_part(&digits[0], key, basis, row, prime, part, to);
            });
        });
        product
    }

    /// All that digits of one row are multiplied by.
    pub(crate) fn rows_of_key<'k>(&self, key: &'k SwitchKey, basis: Basis, row: usize) -> Vec<&'k [u64]> {
        key.rows(basis, row).take(self.ring().digits(basis.level).count()).flatten().collect()
    }

    /// The same of a part of one row.
    pub(crate) fn product_of_part(
        &self,
        digits: &[&[u64]],
        key: &SwitchKey,
        basis: Basis,
        row: usize,
        prime: &Prime,
        part: Range<usize>,
        to: [&mut [u64]; 2],
    ) {
        let of_key = key.rows(basis, row).map(|rows| rows.map(|row| &row[part.clone()]));
        let terms: Vec<(&[u64], [&[u64]; 2])> = digits.iter().copied().zip(of_key).collect();
        prime.pointwise.sums_of_products(&terms, to);
    }

    /// Divided by the product of the special primes, to the nearest.
    pub(crate) fn without_special<const COUNT: usize>(&self, polys: [Poly; COUNT]) -> [Poly; COUNT] {
        let level = polys[0].basis().level;
        self.lowered(polys, level)
    }

    /// Divided by the product of the special primes and of those of the chain above a level, at most one, to the nearest.
    ///
    /// All polynomials have one basis.
    pub(crate) fn lowered<const COUNT: usize>(&self, mut polys: [Poly; COUNT], level: usize) -> [Poly; COUNT] {
        self.lower(&mut polys, level);
        polys.map(|poly| poly.cut(level))
    }

    /// The same in place, in the rows up to that level. Polynomials go prime by prime, so that their transforms share its table.
    pub(crate) fn lower(&self, polys: &mut [Poly], level: usize) {
        let ring = self.ring();
        let basis = polys[0].basis();
        let lowering = ring.lowering(basis, level);
        let (change, kept, size) = (&lowering.change, level + 1, ring.size());
        let gone: Vec<_> = ring.primes(basis).zip(by_row(polys)).skip(kept).enumerate().collect();
        self.each(gone, |(place, (prime, mut rows))| prime.ntt.inverse_times(change.prepare(place), &mut rows));

        let count = polys.len();
        let mut wraps: Vec<Words> = polys.iter().map(|_| ring.blank_rows(1)).collect();
        let mut kept_rows: Vec<Vec<&mut [u64]>> = (0..kept).map(|_| Vec::with_capacity(count)).collect();
        let prepared = polys.iter_mut().map(|poly| -> Vec<&[u64]> {
            let (of_poly, gone) = poly.words_mut().split_at_mut(kept * size);
            kept_rows.iter_mut().zip(of_poly.chunks_exact_mut(size)).for_each(|(rows, row)| rows.push(row));
            gone.chunks_exact(size).collect()
        });
        let prepared: Vec<_> = prepared.collect();
        self.each_wraps(prepared.iter().zip(&mut wraps).map(|(prepared, wraps)| (change, prepared.clone(), wraps)));
        self.each_rows(kept_rows, |first, to| {
            let rows: Vec<usize> = (first..first + to.len()).collect();
            let mut off: Vec<Words> = wraps.iter().map(|_| ring.blank_rows(rows.len())).collect();
            for ((prepared, wraps), off) in prepared.iter().zip(&wraps).zip(&mut off) {
                change.residues(&rows, prepared, wraps, &mut off.chunks_exact_mut(size).collect::<Vec<_>>());
            }
            for (at, (row, to)) in rows.into_iter().zip(to).enumerate() {
                let mut off: Vec<&mut [u64]> = off.iter_mut().map(|off| &mut off[at * size..][..size]).collect();
                let (prime, mut to) = (ring.prime(row), to);
                prime.ntt.start(&mut off);
                for part in parts(size) {
                    let mut off: Vec<&mut [u64]> = off.iter_mut().map(|off| &mut off[part.clone()]).collect();
                    prime.ntt.finish(part.start, &mut off);
                    for (to, off) in to.iter_mut().zip(off) {
                        prime.pointwise.sub_times(&mut to[part.clone()], off, lowering.inverses[row]);
                    }
                }
            }
        });
    }
}
