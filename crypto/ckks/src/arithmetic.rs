//! Sums and products.

use cloakwork_math::ntt::PART;

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

/// A sum that is worked out before it is divided by a prime: one key switch and one rounding do for all of it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum<'a> {
    /// Products, all of one scale.
    pub(crate) products: &'a [[&'a Ciphertext; 2]],
    /// Those are added twice.
    pub(crate) is_doubled: bool,
    /// Numbers times other ciphertexts, of no lower level.
    pub(crate) terms: &'a [(f64, &'a Ciphertext)],
    /// A number.
    pub(crate) constant: f64,
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
        self.sum_at(Sum { products: &[[a, b]], ..Sum::default() }, a.level().min(b.level()), keys)
    }

    /// The same, divided by the last prime: what [`Self::multiply`] and [`Self::rescale`] do, in one.
    pub fn multiply_rescaled(
        &self,
        a: &Ciphertext,
        b: &Ciphertext,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, CkksError> {
        self.rescaled_sum(Sum { products: &[[a, b]], ..Sum::default() }, keys)
    }

    /// A sum with products in it, divided by the last prime of the lowest of them.
    pub(crate) fn rescaled_sum(&self, sum: Sum<'_>, keys: &EvaluationKeys) -> Result<Ciphertext, CkksError> {
        let level = sum.level();
        let below = level.checked_sub(1).ok_or(CkksError::LevelTooLow { what: "a rescale", got: 0, least: 1 })?;
        let mut sum = self.sum_at(sum, below, keys)?;
        sum.scale /= self.ring().prime(level).modulus().value() as f64;
        Ok(sum)
    }

    /// The sum, down to a level. All that goes into it is multiplied by the special primes, until the switch's own division
    /// takes them away.
    fn sum_at(&self, sum: Sum<'_>, below: usize, keys: &EvaluationKeys) -> Result<Ciphertext, CkksError> {
        let [first, second] = sum.products[0];
        for [a, b] in sum.products {
            self.check_slots(a.slots_log2, b.slots_log2)?;
        }
        let key = keys.relinearization()?;
        let level = sum.level();
        if level > key.basis().level {
            return Err(CkksError::LevelTooHigh {
                what: "the key for multiplication",
                got: level,
                max: key.basis().level,
            });
        }
        let (ring, scale) = (self.ring(), first.scale * second.scale);
        let constant = integer(sum.constant, scale)?;
        let numbers = sum.terms.iter().map(|(number, term)| integer(*number, scale / term.scale));
        let numbers = numbers.collect::<Result<Vec<i128>, _>>()?;
        let mut square = ring.blank(Basis::of_level(level));
        self.each_row(&mut square, |row, prime, to| {
            let pairs = sum.products.iter().map(|pair| pair.map(|ciphertext| ciphertext.polys[1].row(row)));
            prime.pointwise.sum_of_products(&pairs.collect::<Vec<_>>(), to);
            if sum.is_doubled {
                prime.pointwise.scale(to, prime.modulus().factor(2));
            }
        });
        let digits = self.digits(&square, key.basis().special);
        let basis = digits.basis();
        let mut polys = [ring.blank(basis), ring.blank(basis)];
        let [body, mask] = &mut polys;
        let both = body.rows_mut().zip(mask.rows_mut()).collect();
        self.each_row_of_digits(&digits, both, |row, prime, digits, (body, mask)| {
            let (modulus, pointwise) = (prime.modulus(), prime.pointwise);
            let special = ring.special_product(basis.special, modulus);
            let times = modulus.factor(if sum.is_doubled { modulus.add(special, special) } else { special });
            // What is doubled with the products is halved beforehand.
            let part_of = modulus.factor(if sum.is_doubled { modulus.inverse(2) } else { 1 });
            let part_len = PART.min(ring.size());
            let numbers: Vec<Vec<u64>> =
                numbers.iter().map(|number| vec![part_of.times(modulus.of_signed(*number)); part_len]).collect();
            let mut raised = ring.blank_words(part_len);
            digits.each_part(&self.rows_of_key(key, basis, row), |part, digits| {
                let (body, mask) = (&mut body[part.clone()], &mut mask[part.clone()]);
                self.product_of_part(digits, key, basis, row, prime, part.clone(), [&mut *body, &mut *mask]);
                if row > level {
                    return;
                }
                pointwise.add_constant(body, modulus.mul(modulus.of_signed(constant), special));
                for (which, to) in [body, mask].into_iter().enumerate() {
                    let mut pairs: Vec<[&[u64]; 2]> = Vec::new();
                    for [a, b] in sum.products {
                        pairs.push([&a.polys[0].row(row)[part.clone()], &b.polys[which].row(row)[part.clone()]]);
                        if which == 1 {
                            pairs.push([&a.polys[1].row(row)[part.clone()], &b.polys[0].row(row)[part.clone()]]);
                        }
                    }
                    for ((_, term), number) in sum.terms.iter().zip(&numbers) {
                        pairs.push([&term.polys[which].row(row)[part.clone()], number]);
                    }
                    pointwise.sum_of_products(&pairs, &mut raised);
                    pointwise.scale(&mut raised, times);
                    pointwise.add(to, &raised);
                }
            });
        });
        Ok(Ciphertext { polys: self.lowered(polys, below), scale, slots_log2: first.slots_log2 })
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

impl Sum<'_> {
    /// That of the lowest factor.
    fn level(&self) -> usize {
        self.products.iter().flatten().map(|factor| factor.level()).min().unwrap_or_default()
    }
}

fn check_scales(left: f64, right: f64) -> Result<(), CkksError> {
    if (left - right).abs() <= left.abs() * SCALES_DIFFER {
        Ok(())
    } else {
        Err(CkksError::OtherScale { left_log2: left.log2(), right_log2: right.log2() })
    }
}
