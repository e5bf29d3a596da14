//! New levels for a ciphertext that has none left.
//!
//! 1. The secret changes to a sparse one, modulo the first prime q alone.
//! 2. Modulo many primes, the same polynomials stand for the plaintext and a small multiple of q in each coefficient.
//!    The secret changes back.
//! 3. Coefficients become numbers, by some matrices.
//! 4. Multiples of q are taken off each (`remainder`).
//! 5. Numbers become coefficients.

mod keys;
mod remainder;

pub use keys::{BootstrapKeys, SeededBootstrapKeys};

use crate::{
    ciphertext::Ciphertext,
    complex::Complex,
    diagonals::Diagonals,
    error::CkksError,
    evaluator::Evaluator,
    linear::EncodedMatrix,
    poly::{Basis, Poly},
    ring::Ring,
};

/// How many keys for rotations a bootstrap has: more keys make it faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeySize {
    /// About as many baby steps as giant ones.
    Medium,
    /// Twice as many baby steps, which are cheaper.
    Large,
}

/// A bootstrap of ciphertexts of some number of slots: what it needs that no key is in. One is shared by everybody.
pub struct Bootstrap<'r> {
    ring: &'r Ring,
    slots_log2: u32,
    remainder_level: usize,
    raised_level: usize,
    to_coefficients: Vec<EncodedMatrix>,
    to_values: Vec<EncodedMatrix>,
}

impl<'r> Bootstrap<'r> {
    /// Encodes the matrices, `stages` in each direction.
    pub fn new(ring: &'r Ring, slots_log2: u32, stages: usize, size: KeySize) -> Result<Self, CkksError> {
        let set = ring.set();
        let max = set.size_log2 - 1;
        if !(1..=max).contains(&slots_log2) {
            return Err(CkksError::WrongSlots { got: 1 << slots_log2.min(31), max: 1 << max });
        }
        if !(1..=set.bootstrap.raised.len()).contains(&stages) || stages > slots_log2 as usize {
            return Err(CkksError::WrongStages { got: stages, slots: 1 << slots_log2 });
        }
        let raised_level = set.bootstrap.raised[stages - 1];
        let remainder_level = raised_level - stages;
        let mut bootstrap =
            Self { ring, slots_log2, remainder_level, raised_level, to_coefficients: vec![], to_values: vec![] };
        let embedding = ring.embedding(slots_log2);
        let more = match size {
            KeySize::Medium => 0,
            KeySize::Large => 1,
        };

        // What comes out is a coefficient in parts of `range` times q, and half of it, for its conjugate is added; and of
        // few slots, each coefficient has been added up from all its copies.
        let copies = 1 << (max - slots_log2);
        let factor = 0.5 / (remainder::RANGE * copies) as f64;
        let matrices = embedding.to_coefficients(stages);
        let count = matrices.len();
        for (index, matrix) in matrices.into_iter().enumerate() {
            let level = raised_level - index;
            let matrix = matrix.scale(Complex::from(factor.powf(1.0 / stages as f64)));
            let matrix = if bootstrap.is_packed() && index + 1 == count { both_parts(&matrix) } else { matrix };
            let mut scale = bootstrap.prime(level);
            if index == 0 {
                scale *= bootstrap.remainder_scale() / bootstrap.prime(0);
            }
            bootstrap.to_coefficients.push(EncodedMatrix::new(ring, &matrix, more, level, scale)?);
        }

        let start = bootstrap.remainder_level - remainder::DEPTH;
        let change = (ring.scale() / bootstrap.scale_after_remainder()).powf(1.0 / stages as f64);
        for (index, matrix) in embedding.to_values(stages).into_iter().enumerate() {
            let level = start - index;
            let matrix = if bootstrap.is_packed() && index == 0 { of_both_parts(&matrix) } else { matrix };
            let scale = bootstrap.prime(level) * change;
            bootstrap.to_values.push(EncodedMatrix::new(ring, &matrix, more, level, scale)?);
        }
        Ok(bootstrap)
    }

    /// The ring.
    pub fn ring(&self) -> &'r Ring {
        self.ring
    }

    /// The level that ciphertexts have afterwards.
    pub fn level_out(&self) -> usize {
        self.remainder_level - remainder::DEPTH - self.to_values.len()
    }

    /// The level that ciphertexts are raised to: keys go up to it.
    pub fn raised_level(&self) -> usize {
        self.raised_level
    }

    /// The level after the first matrices: keys for products and conjugates go up to it.
    pub fn remainder_level(&self) -> usize {
        self.remainder_level
    }

    /// Rotations that it takes, each with the highest level it is needed at.
    pub fn rotations(&self) -> Vec<(i64, usize)> {
        let mut highest = std::collections::BTreeMap::new();
        let matrices = self.to_coefficients.iter().chain(&self.to_values);
        let of_matrices = matrices.flat_map(|matrix| matrix.rotations().map(|steps| (steps, matrix.level())));
        let traces = self.traces().map(|steps| (steps, self.raised_level));
        let joins = self.is_packed().then_some((self.slots() as i64, self.to_values[0].level() - 1));
        for (steps, level) in of_matrices.chain(traces).chain(joins) {
            // Turns to the left and to the right that come to the same have one key.
            let level_max: &mut usize = highest.entry(steps.rem_euclid(self.ring.set().slots() as i64)).or_default();
            *level_max = level.max(*level_max);
        }
        highest.into_iter().collect()
    }

    /// Bytes of the matrices.
    pub fn bytes(&self) -> usize {
        self.to_coefficients.iter().chain(&self.to_values).map(EncodedMatrix::bytes).sum()
    }

    fn slots(&self) -> usize {
        1 << self.slots_log2
    }

    /// Are both parts of the coefficients side by side in one ciphertext? There is room for them but in a full one.
    fn is_packed(&self) -> bool {
        self.slots() < self.ring.set().slots()
    }

    fn traces(&self) -> impl Iterator<Item = i64> + use<> {
        (self.slots_log2..self.ring.set().size_log2 - 1).map(|log2| 1 << log2)
    }

    fn prime(&self, level: usize) -> f64 {
        self.ring.prime(level).modulus().value() as f64
    }

    fn remainder_scale(&self) -> f64 {
        self.prime(self.remainder_level)
    }

    /// Of numbers as parts of one, where the first prime is taken for what they are multiplied by.
    fn scale_after_remainder(&self) -> f64 {
        let top = self.remainder_level;
        remainder::scale_after(self.remainder_scale(), |below| self.prime(top - below)) * self.ring.scale()
            / self.prime(0)
    }
}

/// The matrix for twice as many slots that leaves its result in the first half and -i times it in the second: with their
/// conjugates added, these are twice the real and twice the imaginary part.
fn both_parts(matrix: &Diagonals) -> Diagonals {
    doubled(matrix, |_, row, n| if row < n { Complex::from(1.0) } else { Complex::new(0.0, -1.0) })
}

/// The matrix for twice as many slots that takes real parts from the first half and imaginary ones from the second: what
/// it leaves in the two halves is to be added.
fn of_both_parts(matrix: &Diagonals) -> Diagonals {
    doubled(
        matrix,
        |offset, row, n| {
            if (row + offset) % (2 * n) < n { Complex::from(1.0) } else { Complex::new(0.0, 1.0) }
        },
    )
}

fn doubled(matrix: &Diagonals, factor: impl Fn(usize, usize, usize) -> Complex) -> Diagonals {
    let n = matrix.size();
    let diagonals = matrix.offsets().map(|offset| {
        // Offsets to the left stay so.
        let offset_of_both = if 2 * offset > n { n + offset } else { offset };
        let entry = |row: usize| matrix.diagonal(offset)[row % n] * factor(offset_of_both, row, n);
        (offset_of_both, (0..2 * n).map(entry).collect())
    });
    Diagonals::new(2 * n, diagonals.collect::<Vec<_>>())
}

impl Evaluator<'_> {
    /// The same numbers, of magnitude up to about one and with a scale up to the set's, with new levels.
    pub fn bootstrap(
        &self,
        a: &Ciphertext,
        bootstrap: &Bootstrap<'_>,
        keys: &BootstrapKeys,
    ) -> Result<Ciphertext, CkksError> {
        self.check_slots(a.slots_log2, bootstrap.slots_log2)?;
        let (left, right) = (self.ring().set(), bootstrap.ring.set());
        if left != right {
            return Err(CkksError::OtherSet { left: left.name, right: right.name });
        }
        if a.scale > 2.0 * self.ring().scale() {
            let modulus_log2 = bootstrap.prime(0).log2();
            return Err(CkksError::TooLarge { scale_log2: a.scale.log2(), modulus_log2 });
        }
        let max = keys.to_dense.basis().level;
        if bootstrap.raised_level > max {
            let got = bootstrap.raised_level;
            return Err(CkksError::LevelTooHigh { what: "the key from the sparse secret", got, max });
        }
        let evaluation = &keys.evaluation;
        let mut raised = self.raise(&a.at_level(0)?, bootstrap.raised_level, keys);
        for steps in bootstrap.traces() {
            let turned = self.rotate_full(&raised, steps, evaluation)?;
            self.add_polys(&mut raised, &turned);
        }
        // What is taken for the scale makes the multiples of the first prime whole numbers.
        raised.scale = bootstrap.prime(0);
        let mut numbers = raised;
        for (index, matrix) in bootstrap.to_coefficients.iter().enumerate() {
            if bootstrap.is_packed() && index + 1 == bootstrap.to_coefficients.len() {
                numbers.slots_log2 += 1;
            }
            numbers = self.transform(&numbers, matrix, evaluation)?;
        }
        numbers.scale = bootstrap.remainder_scale();
        let conjugate = self.conjugate(&numbers, evaluation)?;
        let remainder = |parts: &Ciphertext| remainder::remainder(self, parts, evaluation);
        let mut joined = remainder(&self.add(&numbers, &conjugate)?)?;
        if !bootstrap.is_packed() {
            let imaginary = self.times_i(&self.sub(&conjugate, &numbers)?);
            self.add_polys(&mut joined, &self.times_i(&remainder(&imaginary)?));
        }
        joined.scale *= a.scale / bootstrap.prime(0);
        for (index, matrix) in bootstrap.to_values.iter().enumerate() {
            joined = self.transform(&joined, matrix, evaluation)?;
            if bootstrap.is_packed() && index == 0 {
                let turned = self.rotate_full(&joined, bootstrap.slots() as i64, evaluation)?;
                self.add_polys(&mut joined, &turned);
                joined.slots_log2 -= 1;
            }
        }
        Ok(joined)
    }

    /// Through the sparse secret to a high level.
    fn raise(&self, a: &Ciphertext, level: usize, keys: &BootstrapKeys) -> Ciphertext {
        let ring = self.ring();
        let [switched, mask] = self.switch(&a.polys[1], &keys.to_sparse);
        let mut body = a.polys[0].clone();
        self.add_to(&mut body, &switched);
        let digits = self.whole_digit(ring.raised(&mask, Basis { level, special: keys.to_dense.basis().special }));
        let [mut switched, mask] = self.without_special(self.product(&digits, &keys.to_dense));
        self.add_to(&mut switched, &ring.raised(&body, Basis::of_level(level)));
        Ciphertext { polys: [switched, mask], scale: a.scale, slots_log2: a.slots_log2 }
    }

    /// Every number times i: exact, and at no cost of levels.
    fn times_i(&self, a: &Ciphertext) -> Ciphertext {
        let mut coefficients = vec![0; self.ring().size()];
        coefficients[self.ring().size() / 2] = 1;
        let i: Poly = self.ring().of_coefficients(a.basis(), &coefficients);
        let mut product = a.clone();
        product.polys.iter_mut().for_each(|poly| self.multiply_to(poly, &i));
        product
    }
}
