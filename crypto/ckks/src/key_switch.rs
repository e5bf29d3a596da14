//! From one secret to another: digits times a key, and the special primes taken away again.

use crate::{
    digits::Digits,
    evaluator::Evaluator,
    key::SwitchKey,
    poly::{Basis, Poly},
};

impl Evaluator<'_> {
    /// What is to be added to body and mask so that `poly`, which goes with the key's first secret, may be left out.
    pub fn switch(&self, poly: &Poly, key: &SwitchKey) -> [Poly; 2] {
        let digits = self.digits(poly, key.basis().special);
        self.product(&digits, key).map(|product| self.without_special(product))
    }

    /// Digits times a key, special primes and all.
    pub(crate) fn product(&self, digits: &Digits, key: &SwitchKey) -> [Poly; 2] {
        let basis = digits.basis();
        debug_assert!(basis.level <= key.basis().level && basis.special == key.basis().special);
        let mut product = [self.ring().blank(basis), self.ring().blank(basis)];
        self.each_row_of_both(&mut product, |row, prime, to| {
            for (which, to) in to.into_iter().enumerate() {
                let pairs: Vec<[&[u64]; 2]> =
                    digits.rows(row).zip(key.rows(which, basis, row)).map(|(digit, key)| [digit, key]).collect();
                prime.pointwise.sum_of_products(&pairs, to);
            }
        });
        product
    }

    /// Divided by the product of the special primes, to the nearest.
    pub(crate) fn without_special(&self, poly: Poly) -> Poly {
        let level = poly.basis().level;
        self.lowered(poly, level)
    }

    /// Divided by the product of the special primes and of those of the chain above a level, at most one, to the nearest.
    pub(crate) fn lowered(&self, mut poly: Poly, level: usize) -> Poly {
        let ring = self.ring();
        let basis = poly.basis();
        let lowering = ring.lowering(basis, level);
        let kept = level + 1;
        let gone: Vec<_> = ring.primes(basis).zip(poly.rows_mut()).skip(kept).enumerate().collect();
        self.each(gone, |(place, (prime, row))| {
            prime.ntt.inverse_times(lowering.change.prepare(place), &mut [row]);
        });
        let prepared: Vec<&[u64]> = (kept..basis.len()).map(|row| poly.row(row)).collect();
        let mut wraps = ring.blank_row();
        lowering.change.wraps(&prepared, &mut wraps);
        let mut lower = ring.blank(Basis::of_level(level));
        self.each_row(&mut lower, |row, prime, to| {
            lowering.change.residues(row, &prepared, &wraps, to);
            prime.ntt.forward(&mut [to]);
            prime.pointwise.sub_from(to, poly.row(row));
            prime.pointwise.scale(to, lowering.inverses[row]);
        });
        lower
    }
}
