//! Key switch from one secret to another: multiplies digits by a key and divides by the special
//! primes.

use crate::{
    digits::{Digits, DigitsOfStretch},
    evaluator::Evaluator,
    key::SwitchKey,
    poly::{Basis, Poly},
    rows::{Part, Rows, Stretch},
};

impl Evaluator<'_> {
    /// Computes the terms for body and mask that replace `poly`, the coefficient of the key's first
    /// secret.
    pub fn switch(&self, poly: &Poly, key: &SwitchKey) -> [Poly; 2] {
        self.switched(&self.digits(poly, key.basis().special), key)
    }

    /// As [`Self::switch`], for a polynomial that is already decomposed into digits.
    pub(crate) fn switched(&self, digits: &Digits<'_>, key: &SwitchKey) -> [Poly; 2] {
        let basis = digits.basis();
        let mut polys = [self.ring().blank(basis), self.ring().blank(basis)];
        self.lower_made(digits, &mut polys, basis.level, |stretch, digits, to| {
            self.product_of_stretch(digits, key, basis, stretch, to);
        });
        polys.map(|poly| poly.cut(basis.level))
    }

    /// Multiplies the digits of one polynomial by a key, for one stretch.
    pub(crate) fn product_of_stretch(
        &self,
        digits: &mut DigitsOfStretch<'_>,
        key: &SwitchKey,
        basis: Basis,
        stretch: &Stretch<'_>,
        to: &mut Rows<'_>,
    ) {
        let [body, mask] = &mut to[..] else { unreachable!("a row of body and mask") };
        digits.of(stretch).each_part(&self.rows_of_key(key, basis, stretch.row), |part, digits| {
            let to = [&mut body[part.in_stretch.clone()], &mut mask[part.in_stretch.clone()]];
            self.product_of_part(&digits[0], key, basis, stretch, part, to);
        });
    }

    /// As [`Self::product_of_stretch`], for one part.
    pub(crate) fn product_of_part(
        &self,
        digits: &[&[u64]],
        key: &SwitchKey,
        basis: Basis,
        stretch: &Stretch<'_>,
        part: &Part,
        to: [&mut [u64]; 2],
    ) {
        let of_key = key.rows(basis, stretch.row).map(|rows| rows.map(|row| &row[part.in_row.clone()]));
        let terms: Vec<(&[u64], [&[u64]; 2])> = digits.iter().copied().zip(of_key).collect();
        stretch.prime.pointwise.sums_of_products(&terms, to);
    }

    /// All rows of a key that the digits of one row are multiplied by.
    pub(crate) fn rows_of_key<'k>(&self, key: &'k SwitchKey, basis: Basis, row: usize) -> Vec<&'k [u64]> {
        assert!(basis.level <= key.basis().level && basis.special == key.basis().special, "digits that fit the key");
        key.rows(basis, row).take(self.ring().digits(basis.level).count()).flatten().collect()
    }
}
