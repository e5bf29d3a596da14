//! Sums and products of ciphertexts.

use std::ops::Range;

use cloakwork_math::{modulus::Factor, ntt::PART};

use crate::{
    ciphertext::Ciphertext,
    error::CkksError,
    evaluator::Evaluator,
    key::EvaluationKeys,
    plaintext::Plaintext,
    poly::{Basis, Poly},
    prime::Prime,
    ring::Ring,
    rows::Stretch,
};

/// Relative difference up to which two scales count as equal. The error of a sum is no larger.
const SCALE_TOLERANCE: f64 = 1.0 / (1_u64 << 40) as f64;

/// A sum that is computed before the division by a prime, so that one key switch and one rounding
/// suffice for the whole sum.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum<'a> {
    /// Products, all of one scale.
    pub(crate) products: &'a [[&'a Ciphertext; 2]],
    /// Whether the products are added twice.
    pub(crate) is_doubled: bool,
    /// Numbers times other ciphertexts. Their levels are not below that of the products.
    pub(crate) terms: &'a [(f64, &'a Ciphertext)],
    /// A constant to add.
    pub(crate) constant: f64,
}

impl Evaluator<'_> {
    /// Computes a + b, at the lower of their levels.
    pub fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.of_both(a, b, |prime, to, other| prime.pointwise.add(to, other))
    }

    /// Computes a - b, at the lower of their levels.
    pub fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.of_both(a, b, |prime, to, other| prime.pointwise.sub(to, other))
    }

    /// Computes -a.
    pub fn negate(&self, a: &Ciphertext) -> Ciphertext {
        let polys = self.each_row_of_copies(a, a.level(), |_, _, prime, to| {
            prime.pointwise.scale(to, prime.modulus().factor(prime.modulus().value() - 1));
        });
        Ciphertext { polys, ..*a }
    }

    /// Computes a + b, where b is encoded at a's scale and for a's level or a higher one.
    pub fn add_plain(&self, a: &Ciphertext, b: &Plaintext) -> Result<Ciphertext, CkksError> {
        self.check_slots(a.slots_log2, b.slots_log2)?;
        check_scales(a.scale, b.scale)?;
        self.check_reaches(a, b)?;
        let mut sum = a.clone();
        self.add_to(&mut sum.polys[0], &b.poly);
        Ok(sum)
    }

    /// Computes a * b with the product of the scales, where b is encoded for a's level or a higher
    /// one.
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

    /// Computes a * b with relinearization, at the lower of their levels and with the product of
    /// their scales.
    pub fn multiply(&self, a: &Ciphertext, b: &Ciphertext, keys: &EvaluationKeys) -> Result<Ciphertext, CkksError> {
        self.sums_at(&[Sum { products: &[[a, b]], ..Sum::default() }], a.level().min(b.level()), keys).map(only)
    }

    /// As [`Self::multiply`] followed by [`Self::rescale`], with one division for both.
    pub fn multiply_rescaled(
        &self,
        a: &Ciphertext,
        b: &Ciphertext,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, CkksError> {
        self.rescaled_sum(Sum { products: &[[a, b]], ..Sum::default() }, keys)
    }

    /// Computes a sum with products in it and rescales it by the last prime of the lowest factor.
    pub(crate) fn rescaled_sum(&self, sum: Sum<'_>, keys: &EvaluationKeys) -> Result<Ciphertext, CkksError> {
        self.rescaled_sums(&[sum], keys).map(only)
    }

    /// Computes sums of one level and rescales each by its last prime. One read of the key serves
    /// all of them.
    pub(crate) fn rescaled_sums(&self, sums: &[Sum<'_>], keys: &EvaluationKeys) -> Result<Vec<Ciphertext>, CkksError> {
        let level = sums[0].level();
        let below = level.checked_sub(1).ok_or(CkksError::LevelTooLow { what: "a rescale", got: 0, least: 1 })?;
        let mut sums = self.sums_at(sums, below, keys)?;
        let last = self.ring().prime(level).modulus().value() as f64;
        sums.iter_mut().for_each(|sum| sum.scale /= last);
        Ok(sums)
    }

    /// Computes sums of one level and lowers them to level `below`. All inputs are multiplied by
    /// the special primes, which the division of the key switch removes.
    fn sums_at(&self, sums: &[Sum<'_>], below: usize, keys: &EvaluationKeys) -> Result<Vec<Ciphertext>, CkksError> {
        let key = keys.relinearization()?;
        let level = sums[0].level();
        assert!(sums.iter().all(|sum| sum.level() == level), "sums of one level");
        if level > key.basis().level {
            return Err(CkksError::LevelTooHigh {
                what: "the key for multiplication",
                got: level,
                max: key.basis().level,
            });
        }
        let numbers = sums.iter().map(|sum| self.numbers_of(sum)).collect::<Result<Vec<_>, _>>()?;
        let squares: Vec<Poly> = sums.iter().map(|sum| self.product_of_masks(sum, level)).collect();
        let digits = self.digits_of_all(&squares, key.basis().special);
        let basis = digits.basis();
        let mut polys: Vec<Poly> = (0..2 * sums.len()).map(|_| self.ring().blank(basis)).collect();
        self.lower_made(&digits, &mut polys, below, |stretch, digits, to| {
            // The added terms are multiples of the special primes, so they are zero modulo these.
            let added = sums.iter().zip(&numbers).filter(|_| stretch.row <= level);
            let added = added.map(|(sum, numbers)| SumOfRow::new(self.ring(), sum, numbers, basis, stretch));
            let added: Vec<SumOfRow<'_>> = added.collect();
            let mut raised = self.ring().blank_words(PART.min(self.ring().size()));
            digits.of(stretch).each_part(&self.rows_of_key(key, basis, stretch.row), |part, digits| {
                for (place, (digits, to)) in digits.iter().zip(to.chunks_exact_mut(2)).enumerate() {
                    let [body, mask] = to else { unreachable!("body and mask of each sum") };
                    let (body, mask) = (&mut body[part.in_stretch.clone()], &mut mask[part.in_stretch.clone()]);
                    self.product_of_part(digits, key, basis, stretch, part, [&mut *body, &mut *mask]);
                    if let Some(sum) = added.get(place) {
                        sum.add_to(part.in_row.clone(), [body, mask], &mut raised);
                    }
                }
            });
        });
        let mut polys = polys.into_iter().map(|poly| poly.cut(below));
        let mut next = || polys.next().expect("two for each sum");
        let sums = sums.iter().map(|sum| {
            let [first, second] = sum.products[0];
            Ciphertext { polys: [next(), next()], scale: first.scale * second.scale, slots_log2: first.slots_log2 }
        });
        Ok(sums.collect())
    }

    /// Rounds the constant and the numbers of the terms at the scale of the products.
    fn numbers_of(&self, sum: &Sum<'_>) -> Result<Numbers, CkksError> {
        let [first, second] = sum.products[0];
        for [a, b] in sum.products {
            self.check_slots(a.slots_log2, b.slots_log2)?;
        }
        let scale = first.scale * second.scale;
        let of_terms = sum.terms.iter().map(|(number, term)| integer(*number, scale / term.scale));
        Ok(Numbers { constant: integer(sum.constant, scale)?, of_terms: of_terms.collect::<Result<_, _>>()? })
    }

    /// Computes the coefficient of the squared secret, which relinearization removes.
    fn product_of_masks(&self, sum: &Sum<'_>, level: usize) -> Poly {
        let mut square = self.ring().blank(Basis::of_level(level));
        self.each_row(&mut square, |row, prime, to| {
            let pairs = sum.products.iter().map(|pair| pair.map(|ciphertext| ciphertext.polys[1].row(row)));
            prime.pointwise.sum_of_products(&pairs.collect::<Vec<_>>(), to);
            if sum.is_doubled {
                prime.pointwise.scale(to, prime.modulus().factor(2));
            }
        });
        square
    }

    /// Rescales: divides by the last prime, which lowers the level by one and the scale by the
    /// prime.
    pub fn rescale(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.rescaled(a.clone())
    }

    /// As [`Self::rescale`], and reuses the memory of a ciphertext that is no longer needed.
    pub fn rescaled(&self, a: Ciphertext) -> Result<Ciphertext, CkksError> {
        let level = a.level();
        if level == 0 {
            return Err(CkksError::LevelTooLow { what: "a rescale", got: 0, least: 1 });
        }
        let prime = self.ring().prime(level).modulus().value();
        let (scale, slots_log2) = (a.scale / prime as f64, a.slots_log2);
        Ok(Ciphertext { polys: self.lowered(a.polys, level - 1), scale, slots_log2 })
    }

    /// Computes `to += other`. `other` may have more rows.
    pub(crate) fn add_to(&self, to: &mut Poly, other: &Poly) {
        self.each_row(to, |row, prime, to| prime.pointwise.add(to, other.row(row)));
    }

    /// Computes `to *= other`. `other` may have more rows.
    pub(crate) fn multiply_to(&self, to: &mut Poly, other: &Poly) {
        self.each_row(to, |row, prime, to| prime.pointwise.multiply(to, other.row(row)));
    }

    /// Applies `work` to each row of a and of b, at the lower of their levels.
    fn of_both(
        &self,
        a: &Ciphertext,
        b: &Ciphertext,
        work: impl Fn(&Prime, &mut [u64], &[u64]) + Sync,
    ) -> Result<Ciphertext, CkksError> {
        self.check_slots(a.slots_log2, b.slots_log2)?;
        check_scales(a.scale, b.scale)?;
        let polys = self.each_row_of_copies(a, a.level().min(b.level()), |which, row, prime, to| {
            work(prime, to, b.polys[which].row(row));
        });
        Ok(Ciphertext { polys, ..*a })
    }

    /// Copies the rows of a up to a level and applies `work` to each copy. `work` receives the
    /// index of the polynomial, and the row's number, prime and words.
    pub(crate) fn each_row_of_copies(
        &self,
        a: &Ciphertext,
        level: usize,
        work: impl Fn(usize, usize, &Prime, &mut [u64]) + Sync,
    ) -> [Poly; 2] {
        std::array::from_fn(|which| {
            let mut copy = self.ring().blank(Basis::of_level(level));
            self.each_row(&mut copy, |row, prime, to| {
                to.copy_from_slice(a.polys[which].row(row));
                work(which, row, prime, to);
            });
            copy
        })
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
    /// The level of the lowest factor.
    fn level(&self) -> usize {
        self.products.iter().flatten().map(|factor| factor.level()).min().unwrap_or_default()
    }
}

/// The numbers of a sum, rounded at its scale.
struct Numbers {
    constant: i128,
    of_terms: Vec<i128>,
}

/// A sum modulo one prime, without the coefficient of the squared secret.
struct SumOfRow<'a> {
    sum: &'a Sum<'a>,
    row: usize,
    prime: &'a Prime,
    /// The constant, times the special primes.
    constant: u64,
    /// Each number repeated over the length of a part, so that it multiplies like a polynomial.
    numbers: Vec<Vec<u64>>,
    /// Product of the special primes, and of 2 if products are doubled.
    times: Factor,
}

impl<'a> SumOfRow<'a> {
    fn new(ring: &Ring, sum: &'a Sum<'a>, numbers: &Numbers, basis: Basis, stretch: &Stretch<'a>) -> Self {
        let modulus = stretch.prime.modulus();
        let special = ring.special_product(basis.special, modulus);
        let (times, half) =
            if sum.is_doubled { (modulus.add(special, special), modulus.inverse(2)) } else { (special, 1) };
        // The terms are doubled together with the products, so their numbers are halved beforehand.
        let half = modulus.factor(half);
        let part = PART.min(ring.size());
        let repeated = |number: &i128| vec![half.times(modulus.of_signed(*number)); part];
        Self {
            sum,
            row: stretch.row,
            prime: stretch.prime,
            constant: modulus.mul(modulus.of_signed(numbers.constant), special),
            numbers: numbers.of_terms.iter().map(repeated).collect(),
            times: modulus.factor(times),
        }
    }

    /// Adds a part of the sum to body and mask. `raised` is working memory for one part.
    fn add_to(&self, part: Range<usize>, [body, mask]: [&mut [u64]; 2], raised: &mut [u64]) {
        let pointwise = &self.prime.pointwise;
        pointwise.add_constant(body, self.constant);
        for (which, to) in [body, mask].into_iter().enumerate() {
            let of = |ciphertext: &'a Ciphertext, which: usize| &ciphertext.polys[which].row(self.row)[part.clone()];
            let mut pairs: Vec<[&[u64]; 2]> = Vec::new();
            for [a, b] in self.sum.products {
                pairs.push([of(a, 0), of(b, which)]);
                if which == 1 {
                    pairs.push([of(a, 1), of(b, 0)]);
                }
            }
            for ((_, term), number) in self.sum.terms.iter().zip(&self.numbers) {
                pairs.push([of(term, which), number]);
            }
            pointwise.sum_of_products(&pairs, raised);
            pointwise.scale(raised, self.times);
            pointwise.add(to, raised);
        }
    }
}

/// Returns the only element of a list.
fn only(list: Vec<Ciphertext>) -> Ciphertext {
    list.into_iter().next().expect("one result for each input")
}

fn check_scales(left: f64, right: f64) -> Result<(), CkksError> {
    if (left - right).abs() <= left.abs() * SCALE_TOLERANCE {
        Ok(())
    } else {
        Err(CkksError::OtherScale { left_log2: left.log2(), right_log2: right.log2() })
    }
}

/// Rounds `number` at a scale to the nearest whole number.
pub(crate) fn integer(number: f64, scale: f64) -> Result<i128, CkksError> {
    let scaled = (number * scale).round();
    if scaled.abs() < INTEGER_BITS_MAX.exp2() {
        Ok(scaled as i128)
    } else {
        Err(CkksError::TooLarge { scale_log2: scale.log2(), modulus_log2: INTEGER_BITS_MAX })
    }
}

/// A signed word of 128 bits holds the whole numbers below 2^127. Rounding up from below 2^126 does
/// not reach that.
const INTEGER_BITS_MAX: f64 = 126.0;
