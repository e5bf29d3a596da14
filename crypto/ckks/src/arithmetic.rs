//! Sums and products.

use crate::{
    ciphertext::Ciphertext,
    constants::integer,
    error::CkksError,
    evaluator::Evaluator,
    key::EvaluationKeys,
    plaintext::Plaintext,
    poly::{Basis, Poly},
};

/// Scales that differ by less than this part of them are one scale: what comes out is wrong by no more.
const SCALES_DIFFER: f64 = 1.0 / (1_u64 << 40) as f64;

/// What is done to a product before it is divided by a prime: at its own scale, so that nothing is rounded but once.
#[derive(Clone, Copy, Default)]
pub(crate) struct Product<'a> {
    /// It is added to itself.
    pub(crate) is_doubled: bool,
    /// A number is added.
    pub(crate) constant: f64,
    /// A number times another ciphertext, of no lower level, is added.
    pub(crate) term: Option<(f64, &'a Ciphertext)>,
}

impl Evaluator<'_> {
    /// a + b, at the lower of their levels.
    pub fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, CkksError> {
        let (mut sum, b) = self.of_one_kind(a, b)?;
        for (to, other) in sum.polys.iter_mut().zip(&b.polys) {
            self.add_to(to, other);
        }
        Ok(sum)
    }

    /// a - b, at the lower of their levels.
    pub fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, CkksError> {
        let (mut difference, b) = self.of_one_kind(a, b)?;
        for (to, other) in difference.polys.iter_mut().zip(&b.polys) {
            self.each_row(to, |row, prime, to| prime.pointwise.sub(to, other.row(row)));
        }
        Ok(difference)
    }

    /// -a.
    pub fn negate(&self, a: &Ciphertext) -> Ciphertext {
        let mut negated = a.clone();
        for poly in &mut negated.polys {
            self.each_row(poly, |_, prime, row| {
                prime.pointwise.scale(row, prime.modulus().factor(prime.modulus().value() - 1));
            });
        }
        negated
    }

    /// a + b, where b has been encoded for a's level, or a higher one, and a's scale.
    pub fn add_plain(&self, a: &Ciphertext, b: &Plaintext) -> Result<Ciphertext, CkksError> {
        self.check_slots(a.slots_log2, b.slots_log2)?;
        check_scales(a.scale, b.scale)?;
        self.check_reaches(a, b)?;
        let mut sum = a.clone();
        self.add_to(&mut sum.polys[0], &b.poly);
        Ok(sum)
    }

    /// a * b, with the product of their scales, where b has been encoded for a's level or a higher one.
    pub fn multiply_plain(&self, a: &Ciphertext, b: &Plaintext) -> Result<Ciphertext, CkksError> {
        self.check_slots(a.slots_log2, b.slots_log2)?;
        self.check_reaches(a, b)?;
        let mut product = a.clone();
        for poly in &mut product.polys {
            self.multiply_to(poly, &b.poly);
        }
        product.scale *= b.scale;
        Ok(product)
    }

    /// a * b, at the lower of their levels and with the product of their scales.
    pub fn multiply(&self, a: &Ciphertext, b: &Ciphertext, keys: &EvaluationKeys) -> Result<Ciphertext, CkksError> {
        self.product_at(a, b, a.level().min(b.level()), Product::default(), keys)
    }

    /// The same, divided by the last prime: what [`Self::multiply`] and [`Self::rescale`] do, in one.
    pub fn multiply_rescaled(
        &self,
        a: &Ciphertext,
        b: &Ciphertext,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, CkksError> {
        self.multiply_with(a, b, Product::default(), keys)
    }

    /// The same, with what else is done to the product before it is divided.
    pub(crate) fn multiply_with(
        &self,
        a: &Ciphertext,
        b: &Ciphertext,
        with: Product<'_>,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, CkksError> {
        let level = a.level().min(b.level());
        let below = level.checked_sub(1).ok_or(CkksError::LevelTooLow { what: "a rescale", got: 0, least: 1 })?;
        let mut product = self.product_at(a, b, below, with, keys)?;
        product.scale /= self.ring().prime(level).modulus().value() as f64;
        Ok(product)
    }

    /// The product, down to a level. All that goes into it is multiplied by the special primes, until the switch's own
    /// division takes them away.
    fn product_at(
        &self,
        a: &Ciphertext,
        b: &Ciphertext,
        below: usize,
        with: Product<'_>,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, CkksError> {
        self.check_slots(a.slots_log2, b.slots_log2)?;
        let key = keys.relinearization()?;
        let level = a.level().min(b.level());
        if level > key.basis().level {
            return Err(CkksError::LevelTooHigh {
                what: "the key for multiplication",
                got: level,
                max: key.basis().level,
            });
        }
        let ring = self.ring();
        let rows = |row: usize| [a, b].map(|ciphertext| ciphertext.polys.each_ref().map(|poly| poly.row(row)));
        let mut square = ring.blank(Basis::of_level(level));
        self.each_row(&mut square, |row, prime, to| {
            let [[_, a1], [_, b1]] = rows(row);
            prime.pointwise.sum_of_products(&[[a1, b1]], to);
            if with.is_doubled {
                prime.pointwise.scale(to, prime.modulus().factor(2));
            }
        });
        let scale = a.scale * b.scale;
        let constant = integer(with.constant, scale)?;
        let term = with.term.map(|(number, term)| Ok((integer(number, scale / term.scale)?, term))).transpose()?;
        let digits = self.digits(&square, key.basis().special);
        let basis = digits.basis();
        let mut product = [ring.blank(basis), ring.blank(basis)];
        let [body, mask] = &mut product;
        let both = body.rows_mut().zip(mask.rows_mut()).collect();
        self.each_row_of_digits(&digits, both, |row, prime, digits, (body, mask)| {
            self.product_of_row(digits, key, basis, row, prime, [&mut *body, &mut *mask]);
            let (modulus, pointwise) = (prime.modulus(), prime.pointwise);
            if row > level {
                return;
            }
            let [[a0, a1], [b0, b1]] = rows(row);
            let special = ring.special_product(basis.special, modulus);
            let times = modulus.factor(if with.is_doubled { modulus.add(special, special) } else { special });
            let mut raised = ring.blank_rows(1);
            pointwise.add_constant(body, modulus.mul(modulus.of_signed(constant), special));
            for (which, (to, pairs)) in [(body, &[[a0, b0]][..]), (mask, &[[a0, b1], [a1, b0]])].into_iter().enumerate()
            {
                pointwise.sum_of_products(pairs, &mut raised);
                pointwise.scale(&mut raised, times);
                pointwise.add(to, &raised);
                if let Some((number, term)) = term {
                    raised.copy_from_slice(term.polys[which].row(row));
                    pointwise.scale(&mut raised, modulus.factor(modulus.mul(modulus.of_signed(number), special)));
                    pointwise.add(to, &raised);
                }
            }
        });
        let polys = self.lowered(product, below);
        Ok(Ciphertext { polys, scale, slots_log2: a.slots_log2 })
    }

    /// Divides by the last prime: a level less, and a scale that is smaller by it.
    pub fn rescale(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        let level = a.level();
        if level == 0 {
            return Err(CkksError::LevelTooLow { what: "a rescale", got: 0, least: 1 });
        }
        let polys = self.lowered(a.polys.clone(), level - 1);
        let prime = self.ring().prime(level).modulus().value();
        Ok(Ciphertext { polys, scale: a.scale / prime as f64, slots_log2: a.slots_log2 })
    }

    /// `to += other`, of which there may be more rows.
    pub(crate) fn add_to(&self, to: &mut Poly, other: &Poly) {
        self.each_row(to, |row, prime, to| prime.pointwise.add(to, other.row(row)));
    }

    /// `to *= other`, of which there may be more rows.
    pub(crate) fn multiply_to(&self, to: &mut Poly, other: &Poly) {
        self.each_row(to, |row, prime, to| prime.pointwise.multiply(to, other.row(row)));
    }

    fn of_one_kind(&self, a: &Ciphertext, b: &Ciphertext) -> Result<(Ciphertext, Ciphertext), CkksError> {
        self.check_slots(a.slots_log2, b.slots_log2)?;
        check_scales(a.scale, b.scale)?;
        let level = a.level().min(b.level());
        Ok((a.at_level(level)?, b.at_level(level)?))
    }

    pub(crate) fn check_slots(&self, left: u32, right: u32) -> Result<(), CkksError> {
        if left == right { Ok(()) } else { Err(CkksError::OtherSlots { left: 1 << left, right: 1 << right }) }
    }

    fn check_reaches(&self, a: &Ciphertext, b: &Plaintext) -> Result<(), CkksError> {
        let max = b.poly.basis().level;
        if a.level() <= max {
            Ok(())
        } else {
            Err(CkksError::LevelTooHigh { what: "this plaintext", got: a.level(), max })
        }
    }
}

fn check_scales(left: f64, right: f64) -> Result<(), CkksError> {
    if (left - right).abs() <= left.abs() * SCALES_DIFFER {
        Ok(())
    } else {
        Err(CkksError::OtherScale { left_log2: left.log2(), right_log2: right.log2() })
    }
}
